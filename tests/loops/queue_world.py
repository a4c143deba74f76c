"""One queue, its rows in memory, and workers over it, in virtual time: what the tests of the worker's loops share.

The table is the contract-tested fake; here it gets columns, and calls that hang. ``Scene.clean`` is asserted at every end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from soloist.domain.claims import Claim, Done, Settled, Verdict
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import (
    AfterCrash,
    Concurrency,
    DatabaseRef,
    FixedUrl,
    HttpDelivery,
    KeyPer,
    ManagedTable,
    Poll,
    QueueSpec,
    RetryRules,
)
from soloist.loops.queue_unit import Loops
from tests.contracts.fake_rows import FakeRow, FakeRows, FakeTable
from tests.loops.virtual_time import LoopClock

NOON = datetime(2026, 3, 2, 12, 0, 0, tzinfo=UTC)
NAME = QueueName("default", "webhooks")
LEASE = 60.0


def queue_spec(
    *, per_worker: int = 64, hold: bool = False, lease: float = LEASE, most: float = 0.25, **more: Any
) -> QueueSpec:
    made = QueueSpec(
        suspend=False,
        database=DatabaseRef(secret_name="db", key="uri"),
        table=ManagedTable(),
        after_crash=AfterCrash.HOLD if hold else AfterCrash.RETRY,
        max_reclaims=5,
        deliver=HttpDelivery(target=FixedUrl(url="http://backend/")),
        idempotency_key=KeyPer.MESSAGE,
        lease=timedelta(seconds=lease),
        poll=Poll(most=timedelta(seconds=most)),
        retry=RetryRules(
            schedule=(timedelta(seconds=5), timedelta(minutes=5)),
            jitter=0.2,
            max_attempts=3,
            retry_after_cap=timedelta(hours=1),
        ),
        concurrency=Concurrency(per_worker=per_worker),
        on_dead=None,
    )
    return replace(made, **more)


@dataclass
class Notes:
    """The ``QueueReport``, written down."""

    claims: list[tuple[float, int, int]] = field(default_factory=list)
    outcomes: list[Settled] = field(default_factory=list)
    verdicts: list[tuple[Settled, Verdict, bool]] = field(default_factory=list)
    losses: list[tuple[float, Claim, str]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    life: list[str] = field(default_factory=list)

    def claimed(self, queue: QueueName, claims: int, reclaimed: int) -> None:
        self.claims.append((now(), claims, reclaimed))

    def delivered(self, queue: QueueName, outcome: Settled, seconds: float) -> None:
        self.outcomes.append(outcome)

    def settled(self, queue: QueueName, outcome: Settled, verdict: Verdict, *, unanswered: bool) -> None:
        self.verdicts.append((outcome, verdict, unanswered))

    def lost(self, queue: QueueName, claim: Claim, sentence: str) -> None:
        self.losses.append((now(), claim, sentence))

    def failed(self, queue: QueueName, where: str, error: BaseException) -> None:
        self.failures.append((where, str(error)))

    def started(self, queue: QueueName) -> None:
        self.life.append(f"{queue} started")

    def stopped(self, queue: QueueName) -> None:
        self.life.append(f"{queue} stopped")


class Rows(FakeRows):
    """With the column ``endpoint`` out of the payload, and calls that hang while their name is in ``hangs``."""

    heeds = True
    stubborn = False

    def __init__(self, table: FakeTable, spec: QueueSpec) -> None:
        super().__init__(table, lease=spec.lease, hold=spec.after_crash is AfterCrash.HOLD)
        self.hangs: set[str] = set()
        self.calls: list[tuple[float, str, int]] = []

    async def claim(self, most: int, *, without: Collection[str] = ()) -> list[Claim]:
        await self._answer("claim", most)
        with self._hidden(without if self.heeds else ()):
            claims = await super().claim(most)
        columns = [{"endpoint": (claim.payload or {}).get("endpoint")} for claim in claims]
        return [replace(claim, columns=column) for claim, column in zip(claims, columns, strict=True)]

    async def renew(self, claims: Sequence[Claim]) -> set[int]:
        await self._answer("renew", len(claims))
        return await super().renew(claims)

    async def settle(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        await self._answer("settle", len(outcomes))
        return await super().settle(outcomes)

    async def _answer(self, call: str, many: int) -> None:
        self.calls.append((now(), call, many))
        await asyncio.sleep(0.001)
        while call in self.hangs:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise

    @contextmanager
    def _hidden(self, keys: Collection[str]) -> Iterator[None]:
        hidden = [row for row in self.table.rows.values() if row.state == "waiting" and endpoint(row) in keys]
        for row in hidden:
            row.state = "hidden"
        yield
        for row in hidden:
            row.state = "waiting"


@dataclass
class Handler:
    """The ``Deliverer``: notes what comes, then does as ``act`` says."""

    act: Callable[[Claim], Awaitable[Settled]]
    started: list[tuple[float, Claim]] = field(default_factory=list)
    cancelled: list[tuple[float, Claim]] = field(default_factory=list)
    running: dict[int, Claim] = field(default_factory=dict)
    most_at_once: int = 0

    async def deliver(self, claim: Claim) -> Settled:
        self.started.append((now(), claim))
        self.running[claim.fence] = claim
        self.most_at_once = max(self.most_at_once, len(self.running))
        try:
            return await self.act(claim)
        except asyncio.CancelledError:
            self.cancelled.append((now(), claim))
            raise
        finally:
            del self.running[claim.fence]

    @property
    def rows(self) -> list[str]:
        return [claim.row[0] for _, claim in self.started]


@dataclass(frozen=True)
class Opened:
    rows: Rows
    deliverer: Handler

    async def close(self) -> None: ...


class Worker:
    """One process's loops over the queue. They are running between ``start`` and ``kill``, or ``drain``."""

    def __init__(self, table: FakeTable, spec: QueueSpec, act: Callable[[Claim], Awaitable[Settled]]) -> None:
        self.rows, self.handler, self.notes, self.clock = Rows(table, spec), Handler(act), Notes(), LoopClock()
        opened = Opened(self.rows, self.handler)
        self.loops = Loops(NAME, spec, opened, clock=self.clock, report=self.notes, drawn=lambda: 0.5)

    def start(self) -> Worker:
        self.task = asyncio.create_task(self.loops.run())
        return self

    async def kill(self) -> None:
        """As SIGKILL: nothing more happens, nothing is written."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.rows.hangs |= {"claim", "renew", "settle"}
        for held in self.loops.hand:
            if held.task is not None:
                held.task.cancel()
        await asyncio.sleep(0)

    async def drain(self, seconds: float = 30.0) -> None:
        await self.loops.drain(seconds)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.loops.abandon()


class Scene:
    """A table whose clock is the loop's, and workers over it."""

    def __init__(self) -> None:
        self.table = FakeTable(lambda: NOON + timedelta(seconds=now()))
        self.workers: list[Worker] = []

    def add(self, count: int = 1, *, due_in: float = 0.0, **payload: Any) -> list[FakeRow]:
        due = self.table.now() + timedelta(seconds=due_in)
        return [self.table.add(due=due, payload=payload) for _ in range(count)]

    def worker(self, act: Callable[[Claim], Awaitable[Settled]] | None = None, spec: QueueSpec | None = None) -> Worker:
        self.workers.append(Worker(self.table, spec or queue_spec(), act or done))
        return self.workers[-1].start()

    def states(self) -> list[str]:
        return [row.state for row in self.table.rows.values()]

    async def until(self, probe: Callable[[], Any], seconds: float = 600.0) -> None:
        async with asyncio.timeout(seconds):
            while not probe():
                await asyncio.sleep(0.01)

    async def finished(self, seconds: float = 600.0) -> None:
        await self.until(lambda: set(self.states()) <= {"done", "dead"}, seconds)

    def clean(self) -> None:
        assert [row for row in self.table.rows.values() if row.fence is not None] == [], "no row is claimed"
        for worker in self.workers:
            assert len(worker.loops.hand) == 0, "nothing is in hand"
            assert worker.handler.running == {}, "no handler runs"


@asynccontextmanager
async def scene() -> Any:
    made = Scene()
    yield made
    for worker in made.workers:
        if not worker.task.done():
            await worker.drain()
    made.clean()


async def done(claim: Claim) -> Settled:
    return Done(claim=claim)


def lasting(seconds: float) -> Callable[[Claim], Awaitable[Settled]]:
    async def act(claim: Claim) -> Settled:
        await asyncio.sleep(seconds)
        return Done(claim=claim)

    return act


async def for_ever(claim: Claim) -> Settled:
    await asyncio.Event().wait()
    raise AssertionError("it was to be cancelled")


def endpoint(row: FakeRow) -> str | None:
    return (row.payload or {}).get("endpoint")


def now() -> float:
    return asyncio.get_running_loop().time()
