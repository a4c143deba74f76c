"""Hears of new rows in a database: one connection of its own that listens, for all queues that want it.

It is never more than a help: whoever is woken looks into the table, and whoever is not looks there anyway, once in a poll
interval. So everybody is woken as soon as the producers know that somebody listens, for what was added before. Behind a
pooler in transaction mode a LISTEN is lost without a word; hence the first thing said is said by the listener itself, and
one that does not hear it tells why. What is silent for long is asked for a sign of life, since a dead connection says
nothing too.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg

from soloist.adapters.postgres.connections import Connection
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.failures import translated
from soloist.adapters.postgres.statements import statement
from soloist.domain.errors import PermanentError, SoloistError, TransientError

CHANNEL = "soloist"
SAY_AGAIN = 30.0
"""Seconds between two words to the server: what is written for the producers holds three times as long."""

ANSWER = 5.0
LONGEST_WAIT, TEN_MINUTES = 60.0, 600.0

Wake = Callable[[], None]
Told = Callable[[SoloistError], None]


class Listener:
    """One database's. It listens while somebody wants to hear."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._heard: dict[str, tuple[Wake, Told]] = {}
        self._task: asyncio.Task[None] | None = None
        self._newcomer = False

    def hear(self, queue: str, wake: Wake, told: Told, stack: AsyncExitStack) -> None:
        """Call ``wake`` for each notice of ``queue`` until ``stack`` ends; ``told`` is told why none comes."""
        self._heard[queue] = (wake, told)
        stack.push_async_callback(self._leave, queue)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        self._newcomer = True

    async def _leave(self, queue: str) -> None:
        self._heard.pop(queue, None)
        if not self._heard and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait({task}, timeout=ANSWER)

    async def _run(self) -> None:
        failures = 0
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._listen()
            except SoloistError as error:
                for _, told in list(self._heard.values()):
                    told(error)
                failures = 0 if asyncio.get_running_loop().time() - began > LONGEST_WAIT else failures + 1
                hopeless = isinstance(error, PermanentError)
                await asyncio.sleep(TEN_MINUTES if hopeless else min(LONGEST_WAIT, 2.0 ** min(failures - 1, 10)))

    async def _listen(self) -> None:
        async with listening(self._database, CHANNEL) as (connection, hears):
            if not hears:
                raise PermanentError(
                    f"{self._database.name} delivers no notifications, so poll.listen is of no use and rows wait for the next "
                    "look: a pooler in transaction mode lies in between. Name the server itself in the URL, or take poll.listen out."
                )
            woken: list[str] = []
            while True:
                self._newcomer, queues = False, sorted(self._heard)
                async with asyncio.timeout(ANSWER):
                    await connection.execute(statement("listening"), {"queues": queues})
                self._wake(queue for queue in queues if queue not in woken)
                woken = queues
                await self._pass_on(connection)

    def _wake(self, queues: Iterable[str]) -> None:
        for queue in queues:
            if queue in self._heard:
                self._heard[queue][0]()

    async def _pass_on(self, connection: Connection) -> None:
        """For ``SAY_AGAIN`` seconds, or until another queue wants to be told."""
        until = asyncio.get_running_loop().time() + SAY_AGAIN
        while not self._newcomer and asyncio.get_running_loop().time() < until:
            async for notice in connection.notifies(timeout=1.0):
                self._wake([notice.payload])


@asynccontextmanager
async def listening(database: Database, channel: str) -> AsyncIterator[tuple[Connection, bool]]:
    """A connection of its own that listens, and whether notices come through to it. What goes wrong is a SoloistError."""
    connection = await database.apart()
    try:
        await connection.execute(f"LISTEN {channel}".encode())
        yield connection, await _hears_itself(database, connection, channel)
    except TimeoutError:
        raise TransientError(f"{database.name} does not answer whoever listens to it.", sent=False) from None
    except psycopg.Error as error:
        raise translated(error, database.name) from error
    finally:
        await connection.close()


async def _hears_itself(database: Database, connection: Connection, channel: str) -> bool:
    """Behind a pooler in transaction mode nothing does."""
    nonce = secrets.token_hex(8)
    await database.fetch(b"SELECT pg_catalog.pg_notify(%s, %s)", (channel, nonce))
    async for notice in connection.notifies(timeout=ANSWER):
        if notice.payload == nonce:
            return True
    return False
