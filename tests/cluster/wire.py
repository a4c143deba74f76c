"""The bytes of one proxied connection, and what becomes of them while a fault holds.

Bytes are read as they come and kept in order, also while nothing is delivered: whoever sent them may be gone by then,
and what it sent must not be gone with it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

PIECE = 65_536
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
# An API server that sees its client go abandons the request. A late request is to take effect, so its end is later still.
LATE_END = 1.0


class Bytes(Enum):
    PASS = "pass"
    HOLD = "hold"
    DROP = "drop"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    listening: bool = True
    to_server: Bytes = Bytes.PASS
    to_client: Bytes = Bytes.PASS
    delay: float = 0.0
    close_after: int | None = None


class Switch:
    """The fault that holds now, and a way to wait for the next."""

    def __init__(self) -> None:
        self.fault = Fault()
        self._changed = asyncio.Event()

    def set(self, fault: Fault) -> None:
        self.fault = fault
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        await self._changed.wait()


class Arriving:
    """What one side has sent: pieces, then b"" for its end, or ConnectionResetError."""

    def __init__(self, source: asyncio.StreamReader) -> None:
        self._source = source
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def collect(self) -> None:
        try:
            while piece := await self._source.read(PIECE):
                self._pieces.put_nowait(piece)
        except OSError:
            self._pieces.put_nowait(None)
        else:
            self._pieces.put_nowait(b"")

    async def next(self) -> bytes:
        piece = await self._pieces.get()
        if piece is None:
            raise ConnectionResetError
        return piece


class Connection:
    """One client's connection and its own to the server."""

    def __init__(self, switch: Switch, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.doomed = False
        self._switch = switch
        self._client, self._from_client = writer, Arriving(reader)
        self._writers = [writer]
        self._late = False
        self._replied = 0

    async def run(self, target: int) -> None:
        """Until either side ends. The server hears of the connection when the first bytes are let through to it."""
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._from_client.collect())
            first = await self._next(self._from_client, lambda: self._switch.fault.to_server)
            if first:
                reader, writer = await asyncio.open_connection("127.0.0.1", target)
                self._writers.append(writer)
                writer.write(first)
                from_server = Arriving(reader)
                tasks.create_task(from_server.collect())
                tasks.create_task(self._to_client(from_server))
                await self._to_server(writer)
            else:
                reading.cancel()

    async def _to_server(self, sink: asyncio.StreamWriter) -> None:
        try:
            while piece := await self._next(self._from_client, lambda: self._switch.fault.to_server):
                sink.write(piece)
                await sink.drain()
        except ConnectionError:
            if not self._late:
                raise
        if self._late:
            await asyncio.sleep(LATE_END)
        sink.write_eof()

    async def _to_client(self, arriving: Arriving) -> None:
        while piece := await self._next(arriving, lambda: self._switch.fault.to_client):
            if not self._client.is_closing():
                self._client.write(piece)
                await self._client.drain()
            self._replied += len(piece)
            limit = self._switch.fault.close_after
            if limit is not None and self._replied >= limit:
                raise ConnectionResetError
        if not self._client.is_closing():
            self._client.write_eof()

    async def _next(self, arriving: Arriving, fate: Callable[[], Bytes]) -> bytes:
        """The next piece that may pass; an end passes as pieces do."""
        while True:
            piece = await arriving.next()
            if self._switch.fault.delay:
                await asyncio.sleep(self._switch.fault.delay)
            while fate() is Bytes.HOLD:
                self._late = True
                await self._switch.changed()
            if fate() is Bytes.RESET:
                raise ConnectionResetError
            if fate() is Bytes.PASS:
                return piece
            self.doomed = True

    def reset(self) -> None:
        for writer in self._writers:
            reset_transport(writer.transport)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def reset_transport(transport: asyncio.BaseTransport | None) -> None:
    """Ends a connection with RST, not FIN: what a crashed peer's kernel sends."""
    if not isinstance(transport, asyncio.Transport):
        return
    raw = transport.get_extra_info("socket")
    if raw is not None and not transport.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    transport.abort()
