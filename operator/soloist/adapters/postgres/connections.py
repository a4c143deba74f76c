"""Connections to one database that are used again: opened when they are first wanted, and never more than a number.

A failure to connect is the caller's at once, with the server's reason, and nobody else's: there is no background task
that tries on its own and lets everybody wait, and so none that a fork could tear. Whoever waits is served in the order
of asking. A connection that died while it lay idle is found out before it is used (its socket has something to say), and
one that breaks in use takes those made before it along; so after a restart of the server each statement in flight fails
once, and no other. A forked process leaves its parent's connections alone.
"""

import asyncio
import os
import select
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from soloist.domain.errors import TransientError


class Connection(psycopg.AsyncConnection[Any]):
    """``bound`` is the statement_timeout of its session, in seconds; 0 where it has none of ours. ``stale``: it is not to be
    used again, since a new one may be told otherwise."""

    bound: float = 0.0
    stale: bool = False

    @asynccontextmanager
    async def one_trip(self) -> AsyncIterator[None]:
        """What is executed in the block is one transaction, in one round trip, and its end is the last that the server hears.

        A pipeline of psycopg's (3.3, ``_exit_gen``) asks for a flush once it has ended. Where that comes after the answer, a
        transaction pooler lends a server for it, which nobody else gets until this connection speaks again. What the socket
        had no room for is sent by then all the same.
        """
        async with self.pipeline() as pipeline:
            fetch = pipeline._fetch_gen

            def answers(*, flush: bool) -> PQGen[None]:
                if flush:
                    yield from generators.send(self.pgconn)
                yield from fetch(flush=False)

            pipeline._fetch_gen = answers  # type: ignore[method-assign]
            yield


@dataclass(slots=True)
class _Kept:
    connection: Connection
    made: float
    used: float
    pid: int
    round: int


class Connections:
    """At most ``most`` at the same time. Times are seconds; ``where`` is the database as messages call it."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        most: int,
        wait: float,
        lifetime: float,
        idle: float,
        where: str,
    ) -> None:
        self._connect, self._wait, self._lifetime, self._idle, self._where = connect, wait, lifetime, idle, where
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._kept: deque[_Kept] = deque()
        self._round = 0
        self._closed = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Connection]:
        """A connection in autocommit for as long as the block lasts; one that is broken or in a transaction then is closed."""
        await self._turn()
        try:
            kept = await self._ready() or await self._new()
            try:
                yield kept.connection
            finally:
                await self._back(kept)
        finally:
            self._free.release()

    async def close(self) -> None:
        """Closes what is idle, and the others as they come back; nobody is given one after this."""
        self._closed = True
        while self._kept:
            await self._end(self._kept.pop())

    async def _turn(self) -> None:
        if self._closed:
            raise TransientError(f"{self._where} is no longer used by this process.", sent=False)
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(self._wait):
                await self._free.acquire()
        except TimeoutError:
            raise TransientError(
                f"{self._where} has no connection to spare: all {self._most} were in use for {self._wait:g} s. "
                "Raise connection_limit in its URL, or look for statements that take long.",
                sent=False,
            ) from None

    async def _ready(self) -> _Kept | None:
        now = asyncio.get_running_loop().time()
        while self._kept:
            kept = self._kept.pop()
            if kept.pid != os.getpid():
                continue  # our parent's: it is still using it
            if kept.round == self._round and now - kept.made < self._lifetime and not spoken_to(kept.connection):
                return kept
            await self._end(kept)
        return None

    async def _new(self) -> _Kept:
        round_ = self._round
        connection = await self._connect()
        now = asyncio.get_running_loop().time()
        return _Kept(connection=connection, made=now, used=now, pid=os.getpid(), round=round_)

    async def _back(self, kept: _Kept) -> None:
        if kept.connection.pgconn.transaction_status != TransactionStatus.IDLE:
            if kept.connection.broken and kept.round == self._round:
                self._round += 1
            await self._end(kept)
            return
        if self._closed or kept.connection.stale:
            await self._end(kept)
            return
        kept.used = asyncio.get_running_loop().time()
        self._kept.append(kept)
        if kept.used - self._kept[0].used > self._idle:
            await self._end(self._kept.popleft())

    @staticmethod
    async def _end(kept: _Kept) -> None:
        if kept.pid == os.getpid():
            await kept.connection.close()


def spoken_to(connection: psycopg.BaseConnection[Any]) -> bool:
    """Whether the server said something nobody asked for, which for an idle connection is: good-bye."""
    if connection.closed:
        return True
    polled = select.poll()
    polled.register(connection.pgconn.socket, select.POLLIN)
    return bool(polled.poll(0))


def shut(connection: psycopg.BaseConnection[Any]) -> None:
    """Shut the socket under whoever waits for an answer on it, in this thread or another."""
    with suppress(OSError, psycopg.Error):
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as twin:
            twin.shutdown(socket.SHUT_RDWR)
