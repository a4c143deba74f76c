"""One worker whose handler does nothing: the loops of `soloist worker`, from the claim to the outcome that was accepted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from soloist.adapters.clock import SystemClock
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.url import database_url
from soloist.domain.claims import Claim, Done, Settled, Verdict
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import QueueSpec
from soloist.loops.queue_unit import Loops
from soloist.loops.row_ports import Rows
from soloist.shells.garbage import collect_seldom
from tests.postgres.server import Database as Place

SLOTS = 1000
"""As many as a WorkQueue may have in one worker; a handler that does nothing holds one for no time."""

OpenRows = Callable[[Database, Callable[[], float]], Awaitable[Rows]]


class Counting:
    """A ``QueueReport`` that only counts; anything that is not success ends the measurement."""

    def __init__(self, rows: int) -> None:
        self.left = rows
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settled(self, queue: QueueName, outcome: Settled, verdict: Verdict, *, unanswered: bool) -> None:
        if verdict is not Verdict.ACCEPTED or unanswered:
            self._failed(f"{outcome} was {verdict}")
        self.left -= 1
        if not self.left and not self.over.done():
            self.over.set_result(None)

    def lost(self, queue: QueueName, claim: Claim, sentence: str) -> None:
        self._failed(sentence)

    def failed(self, queue: QueueName, where: str, error: BaseException) -> None:
        self._failed(f"{where}: {error}")

    def claimed(self, queue: QueueName, claims: int, reclaimed: int) -> None: ...
    def delivered(self, queue: QueueName, outcome: Settled, seconds: float) -> None: ...
    def started(self, queue: QueueName) -> None: ...
    def stopped(self, queue: QueueName) -> None: ...

    def _failed(self, sentence: str) -> None:
        if not self.over.done():
            self.over.set_exception(RuntimeError(sentence))


class NoOp:
    """A ``Deliverer``; ``began`` is when the first row came."""

    began = 0.0

    async def deliver(self, claim: Claim) -> Settled:
        self.began = self.began or time.perf_counter()
        return Done(claim=claim)


@dataclass(frozen=True, slots=True)
class Opened:
    """The ``OpenQueue`` port."""

    rows: Rows
    deliverer: NoOp

    async def close(self) -> None: ...


def work(place: Place, spec: QueueSpec, open_rows: OpenRows, rows: int) -> float:
    """Until so many rows are done and their outcomes are written; when the first of them began, by ``perf_counter``."""
    spec = replace(spec, concurrency=replace(spec.concurrency, per_worker=SLOTS))

    handler = NoOp()

    async def until_done() -> None:
        clock, report = SystemClock(), Counting(rows)
        database = Database(database_url(place.dsn()), program="bench")
        opened = Opened(await open_rows(database, clock.boottime), handler)
        loops = Loops(QueueName("default", "q"), spec, opened, clock=clock, report=report, drawn=random.random)
        running = asyncio.create_task(loops.run())
        try:
            await report.over
        finally:
            running.cancel()
            await asyncio.wait({running})
            await database.close()

    collect_seldom()  # as a worker does
    asyncio.run(until_done())
    return handler.began
