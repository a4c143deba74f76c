"""One queue from its opening to its end: the loops that work it, and how they part without leaving anything behind.

Opening is tried again for ever, so a database that is down, a Secret that is missing and a table that does not fit stop this
queue and no other, and say so. The same way a queue whose claims have failed for long is opened anew once nothing of it is
in hand: a password may have changed, or the schema. To end: no more claims; what runs may finish; what does not is put
back; outcomes are written; and leases are renewed until the very last.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from soloist.domain.claim_lease import ClaimLease
from soloist.domain.errors import sentence_of
from soloist.domain.polling import Pace
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import QueueSpec
from soloist.loops.completions import Completions
from soloist.loops.handlers import Handlers
from soloist.loops.in_hand import InHand
from soloist.loops.queue_ports import OpenQueue, QueueOpener, QueueReport
from soloist.loops.queue_worker import QueueWorker
from soloist.loops.renewals import Renewals
from soloist.loops.worked_queue import WorkedQueue
from soloist.ports import Clock

REOPEN_AFTER = 30.0
"""Seconds of failing claims after which a queue is opened anew."""

LETTING_GO = 2.0
"""Seconds for the connections of a queue to be closed."""


class Loops:
    """Everything that goes on for one opened queue."""

    def __init__(
        self,
        name: QueueName,
        spec: QueueSpec,
        opened: OpenQueue,
        *,
        clock: Clock,
        report: QueueReport,
        drawn: Callable[[], float],
    ) -> None:
        self._clock = clock
        self.hand = InHand(
            ClaimLease(seconds=spec.lease.total_seconds()), spec.concurrency, changed=lambda: self.worker.stir()
        )
        queue = WorkedQueue(name=name, rows=opened.rows, hand=self.hand, clock=clock, report=report, drawn=drawn)
        self._completions = Completions(queue)
        self._handlers = Handlers(queue, spec, opened.deliverer, self._completions)
        self.worker = QueueWorker(queue, spec.poll, self._handlers)
        self._renewals = Renewals(queue, self._handlers, progressed=lambda: self.worker.progressed)

    async def run(self) -> None:
        """Until cancelled, or until claims have failed for so long that the queue is better opened anew."""
        async with asyncio.TaskGroup() as group:
            forever = (
                self.worker.run(),
                self._completions.run(),
                self._renewals.run(),
                self._renewals.watch_deadlines(),
            )
            tasks = [group.create_task(each) for each in forever]
            await self._becomes_useless()
            for task in tasks:
                task.cancel()

    def abandon(self) -> None:
        """Nothing is written any more, so nothing may run any more."""
        for held in self.hand:
            self._handlers.give_up(held, "the queue's loops ended")

    async def drain(self, seconds: float) -> None:
        """Bring everything in hand to its end within ``seconds``, while ``run`` goes on."""
        until = self._clock.boottime() + seconds
        self.worker.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds - min(4.0, seconds / 2)):
                await self.worker.at_rest()
                await self._handlers.idle()
        await self._handlers.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - self._clock.boottime())):
                await self.worker.at_rest()
                await self._completions.flushed()

    async def _becomes_useless(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            since = self.worker.failing_since
            if since is not None and not len(self.hand) and self._clock.boottime() - since > REOPEN_AFTER:
                return


class QueueUnit:
    """Works one queue by one spec until it is drained."""

    def __init__(
        self,
        name: QueueName,
        spec: QueueSpec,
        opener: QueueOpener,
        *,
        clock: Clock,
        report: QueueReport,
        drawn: Callable[[], float],
    ) -> None:
        self.spec = spec
        self._name, self._opener = name, opener
        self._clock, self._report, self._drawn = clock, report, drawn
        self._loops: Loops | None = None
        self._trouble = "it is being opened"
        self._task = asyncio.create_task(self._run())

    @property
    def progressed(self) -> float:
        """CLOCK_BOOTTIME at which its claim loop last went round. One that waits for its database is not hung."""
        return self._loops.worker.progressed if self._loops is not None else self._clock.boottime()

    @property
    def trouble(self) -> str:
        """Why no row of it can be claimed, a sentence for people; empty while they can."""
        return self._loops.worker.trouble if self._loops is not None else self._trouble

    @property
    def running(self) -> int:
        return self._loops.hand.running if self._loops is not None else 0

    @property
    def in_hand(self) -> int:
        return len(self._loops.hand) if self._loops is not None else 0

    async def drain(self, seconds: float) -> None:
        """Within ``seconds`` and a little more. A database that does not answer is not waited for."""
        if self._loops is not None:
            await self._loops.drain(seconds)
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=LETTING_GO)

    async def _run(self) -> None:
        pace = Pace()
        while True:
            try:
                await self._live()
            except Exception as error:  # noqa: BLE001 - whatever ended this queue, it is tried again, and the others go on
                fault = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
                self._report.failed(self._name, "queue", fault)
                self._trouble = sentence_of(fault)
            pace = pace.after_error()
            await asyncio.sleep(pace.wait(full=False, drawn=self._drawn()))

    async def _live(self) -> None:
        opened = await self._opener.open(self._name, self.spec, self._wake)
        try:
            self._loops = Loops(
                self._name, self.spec, opened, clock=self._clock, report=self._report, drawn=self._drawn
            )
            self._report.started(self._name)
            await self._loops.run()
        finally:
            loops, self._loops = self._loops, None
            if loops is not None:
                self._trouble = loops.worker.trouble
                loops.abandon()
            self._report.stopped(self._name)
            await opened.close()

    def _wake(self) -> None:
        if self._loops is not None:
            self._loops.worker.wake()
