"""Writes what became of claims: many at once, none forgotten, each under its fence.

An outcome waits at most ``LINGER`` for others, and ``COMPANY`` of them for nothing. A write of which no answer came is sent again
as it was, with the same fences: the database takes each outcome once, so asking twice does no harm, and asking not at all
would deliver the row again. That goes on until the claims' own deadlines, which their
renewals move; whatever waits meanwhile takes up the room that new claims need, so a database that writes slowly is not
given more to write. An outcome is offered at least once, however late: the fence decides, and no clock.
"""

import asyncio
from collections import deque
from contextlib import suppress

from soloist.domain.claims import Settled, Verdict
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.polling import Pace
from soloist.loops.in_hand import Held
from soloist.loops.worked_queue import WorkedQueue

LINGER = 0.01
COMPANY, BATCH = 100, 500
"""Outcomes that wait for no others, and those that are written at once at the most."""


class Completions:
    """The outcomes of one queue."""

    def __init__(self, queue: WorkedQueue) -> None:
        self._queue, self._name, self._hand, self._report = queue, queue.name, queue.hand, queue.report
        self._buffer: deque[Held] = deque()
        self._stir = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def offer(self, held: Held, outcome: Settled) -> None:
        """Have it written. The claim stays in hand, and its lease renewed, until it is."""
        held.outcome = outcome
        self._buffer.append(held)
        self._empty.clear()
        self._stir.set()

    async def flushed(self) -> None:
        """Returns when nothing is left to write."""
        await self._empty.wait()

    async def run(self) -> None:
        while True:
            await self.step()

    async def step(self) -> None:
        """Write one batch, waiting for it first."""
        while not self._buffer:
            self._stir.clear()
            await self._stir.wait()
        await self._company()
        batch = [self._buffer.popleft() for _ in range(min(BATCH, len(self._buffer)))]
        await self._write(batch)
        if not self._buffer:
            self._empty.set()

    async def _company(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while len(self._buffer) < COMPANY:
                    self._stir.clear()
                    await self._stir.wait()

    async def _write(self, batch: list[Held]) -> None:
        pace, unanswered = Pace(), False
        while batch:
            try:
                verdicts = await self._settle(batch)
            except Exception as error:  # noqa: BLE001 - the outcomes are known, and must not be lost to a fault of ours
                self._report.failed(self._name, "settle", error)
                refused = isinstance(error, PermanentError) or (isinstance(error, TransientError) and not error.sent)
                unanswered = unanswered or not refused
            else:
                self._told(batch, verdicts, unanswered)
                return
            pace = pace.after_error()
            await asyncio.sleep(pace.wait(full=False, drawn=self._queue.drawn()))
            batch = self._without_lapsed(batch)

    async def _settle(self, batch: list[Held]) -> list[Verdict]:
        outcomes = [held.outcome for held in batch if held.outcome is not None]
        return await self._queue.in_time(self._queue.rows.settle(outcomes), "the database did not answer")

    def _told(self, batch: list[Held], verdicts: list[Verdict], unanswered: bool) -> None:
        for held, verdict in zip(batch, verdicts, strict=True):
            self._hand.drop(held)
            if held.outcome is not None:
                self._report.settled(self._name, held.outcome, verdict, unanswered=unanswered)

    def _without_lapsed(self, batch: list[Held]) -> list[Held]:
        now, lease = self._queue.clock.boottime(), self._hand.lease
        for held in batch:
            if lease.over(held.sent, now):
                self._hand.drop(held)
                self._report.lost(self._name, held.claim, "its outcome could not be written before the lease ended")
        return [held for held in batch if not lease.over(held.sent, now)]
