"""What a Service is to its callers, between processes: one address, behind which each connection goes to some replica that is ready.

Ready is who answered GET /healthz with 200 when last asked, as a readiness probe with a period of `PERIOD` has it. So one
that was killed is left out at once, as its port refuses, and one that is frozen after the next probe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.cluster.free_ports import free_ports
from tests.cluster.loop_thread import LoopThread

PERIOD = 0.3
PROBE = b"GET /healthz HTTP/1.1\r\nHost: service\r\nConnection: close\r\n\r\n"


class Service:
    """`with Service([port, …]) as service: … service.url`; whose ports are not known yet it `stands_for` later."""

    def __init__(self, targets: Sequence[int] = ()) -> None:
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self._first = targets
        self._targets: list[int] = []
        self._ready: set[int] = set()
        self._loop = LoopThread("service")
        self._server: asyncio.Server | None = None
        self._probes: list[asyncio.Task[None]] = []
        self._serving: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._loop.start()
        self._loop.do(self._open())
        self.stands_for(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.do(self._close())
        self._loop.stop()

    def stands_for(self, targets: Sequence[int]) -> None:
        """These are probed from now on, besides those before."""
        self._loop.do(self._add(targets))

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=256)

    async def _close(self) -> None:
        """Nothing stays open: what a collector finds later it complains of in the middle of something else."""
        assert self._server is not None
        self._server.close()
        serving = [*self._probes, *self._serving]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _add(self, targets: Sequence[int]) -> None:
        self._targets += targets
        self._probes += [asyncio.ensure_future(self._probe(port)) for port in targets]

    async def _probe(self, port: int) -> None:
        while True:
            ready = False
            with suppress(OSError, TimeoutError):
                ready = await asyncio.wait_for(_is_well(port), 2 * PERIOD)
            (self._ready.add if ready else self._ready.discard)(port)
            await asyncio.sleep(PERIOD)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """In turn, those that are ready; where none takes the connection it is closed, as kube-proxy rejects it."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            for port in [port for port in self._targets if port in self._ready]:
                try:
                    there, back = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    continue
                self._targets.remove(port)
                self._targets.append(port)
                try:
                    await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
                finally:
                    back.transport.abort()
                return
        except asyncio.CancelledError:
            return
        finally:
            writer.transport.abort()


async def _is_well(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(PROBE)
        return b" 200 " in await reader.readline()
    finally:
        writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()  # the other direction ends as well
