"""A TCP proxy in front of the API server whose faults are switched on and off by the test. TLS passes through unread.

What a fault does to bytes is what a network does to them. Held bytes are delivered late, as a partition that heals
delivers what was retransmitted: a request whose sender gave up long ago still arrives. A TLS connection that lost bytes
cannot go on, so `drop` dooms it and the next mode resets it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.cluster.free_ports import free_ports
from tests.cluster.loop_thread import LoopThread

T = TypeVar("T")
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


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


class Connection:
    """One client's connection and its own to the server."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.writers = [client]
        self.replied = 0
        self.doomed = False

    def reset(self) -> None:
        for writer in self.writers:
            reset_transport(writer.transport)


def reset_transport(transport: asyncio.Transport | asyncio.WriteTransport | None) -> None:
    """Ends a connection with RST, not FIN: what a crashed peer's kernel sends."""
    if transport is None:
        return
    raw = transport.get_extra_info("socket")
    if raw is not None and not transport.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    transport.abort()


class TcpProxy:
    """`with TcpProxy(port) as proxy:` …; its methods may be called from any thread and return when the mode holds."""

    def __init__(self, target: int, *, port: int = 0) -> None:
        self.target, self.port = target, port or free_ports(1)[0]
        self._fault = Fault()
        self._changed = asyncio.Event()
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._loop = LoopThread("tcp-proxy")

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._loop.start()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._end())
        self._loop.stop()

    # Modes

    def forward(self) -> None:
        """No fault; what was held goes on its way, late."""
        self.set(Fault())

    def refuse(self) -> None:
        """New connections are refused by the kernel. Those that are open stay: `cut` them if they should not."""
        self.set(Fault(listening=False))

    def reset(self) -> None:
        """RST as soon as the client has sent anything, on open connections too."""
        self.set(Fault(to_server=Bytes.RESET))

    def blackhole(self) -> None:
        """Accepts and never answers: both directions are held, on open connections too."""
        self.set(Fault(to_server=Bytes.HOLD, to_client=Bytes.HOLD))

    def hold_requests(self) -> None:
        self.set(Fault(to_server=Bytes.HOLD))

    def hold_replies(self) -> None:
        """Requests reach the server and take effect; nobody hears of it."""
        self.set(Fault(to_client=Bytes.HOLD))

    def drop(self) -> None:
        """As `blackhole`, but the bytes are lost for good."""
        self.set(Fault(to_server=Bytes.DROP, to_client=Bytes.DROP))

    def drop_replies(self) -> None:
        self.set(Fault(to_client=Bytes.DROP))

    def delay(self, seconds: float) -> None:
        """Each piece of bytes is that late, in both directions."""
        self.set(Fault(delay=seconds))

    def close_after(self, count: int) -> None:
        """Each connection is reset once it has brought `count` bytes from the server, counted from its beginning."""
        self.set(Fault(close_after=count))

    def cut(self) -> int:
        """RST on every open connection; says how many. New ones are served by the mode that holds."""
        return self._do(self._cut(list(self._connections)))

    def set(self, fault: Fault) -> None:
        self._do(self._set(fault))

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    # The loop's side

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.do(work)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024)

    async def _set(self, fault: Fault) -> None:
        self._fault = fault
        self._changed.set()
        self._changed = asyncio.Event()
        await self._cut([each for each in self._connections if each.doomed])
        if self._server is not None and not fault.listening:
            self._server.close()
            self._server = None
        elif self._server is None and fault.listening:
            await self._listen()

    async def _cut(self, connections: list[Connection]) -> int:
        for connection in connections:
            connection.reset()
        return len(connections)

    async def _end(self) -> None:
        await self._set(Fault(listening=False))
        await self._cut(list(self._connections))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(writer)
        self._connections.add(connection)
        try:
            first = await reader.read(65536)
            while first and not await self._let_through(connection, "to_server"):
                first = await reader.read(65536)
            if not first:
                return
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
            connection.writers.append(server_writer)
            server_writer.write(first)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(connection, reader, server_writer, "to_server"))
                pumps.create_task(self._pump(connection, server_reader, writer, "to_client"))
        except* (OSError, asyncio.CancelledError):
            connection.reset()
        finally:
            for each in connection.writers:
                each.close()
            self._connections.discard(connection)

    async def _pump(
        self, connection: Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: str
    ) -> None:
        while piece := await source.read(65536):
            if not await self._let_through(connection, way):
                continue
            sink.write(piece)
            await sink.drain()
            if way == "to_client":
                connection.replied += len(piece)
                limit = self._fault.close_after
                if limit is not None and connection.replied >= limit:
                    raise ConnectionResetError
        if await self._let_through(connection, way) and sink.can_write_eof():
            sink.write_eof()

    async def _let_through(self, connection: Connection, way: str) -> bool:
        """Waits while bytes of this direction are held; False says that these are lost."""
        if self._fault.delay:
            await asyncio.sleep(self._fault.delay)
        while (fate := getattr(self._fault, way)) is Bytes.HOLD:
            await self._changed.wait()
        if fate is Bytes.RESET:
            raise ConnectionResetError
        connection.doomed |= fate is Bytes.DROP
        return fate is Bytes.PASS
