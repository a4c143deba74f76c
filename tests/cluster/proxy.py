"""A TCP proxy in front of the API server whose faults are switched on and off by the test. TLS passes through unread.

What a fault does to bytes is what a network does to them. Held bytes are delivered late, as a partition that heals
delivers what was retransmitted: a request whose sender gave up long ago still arrives. A TLS connection that lost bytes
cannot go on, so `drop` dooms it and the next mode resets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.cluster.free_ports import free_ports
from tests.cluster.loop_thread import LoopThread
from tests.cluster.wire import Bytes, Connection, Fault, Switch

T = TypeVar("T")


class TcpProxy:
    """`with TcpProxy(port) as proxy:` …; its methods may be called from any thread and return when the mode holds."""

    def __init__(self, target: int, *, port: int = 0) -> None:
        self.target, self.port = target, port or free_ports(1)[0]
        self._switch = Switch()
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
        self._switch.set(fault)
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
        connection = Connection(self._switch, reader, writer)
        self._connections.add(connection)
        try:
            await connection.run(self.target)
        except* (OSError, asyncio.CancelledError):
            connection.reset()
        finally:
            connection.close()
            self._connections.discard(connection)
