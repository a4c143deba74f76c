"""Keeps the leases of what is in hand, for as long as the claim loop proves that it goes on, and no longer.

A renewal says "whoever holds this is at work", so it is not made for a loop that hangs: its claims then run out, and are
taken by a worker that does not. All that are old enough go in one statement. An answer that leaves a fence out means a lost
claim; no answer means nothing at all, and the deadline, counted from the send of the last good one, comes nearer. Deadlines
are kept by a loop of their own, which waits for no database.
"""

import asyncio
from collections.abc import Callable, Sequence

from soloist.domain.errors import TransientError
from soloist.loops.handlers import Handlers
from soloist.loops.in_hand import Held
from soloist.loops.worked_queue import WorkedQueue

GLANCE = 0.25
"""Seconds between two looks at the deadlines at the most: a machine that slept finds on waking what is over."""


class Renewals:
    """The leases of one queue. ``progressed`` is the CLOCK_BOOTTIME at which the claim loop last went round."""

    def __init__(self, queue: WorkedQueue, handlers: Handlers, *, progressed: Callable[[], float]) -> None:
        self._queue, self._handlers, self._progressed = queue, handlers, progressed
        self._name, self._hand, self._clock, self._report = queue.name, queue.hand, queue.clock, queue.report
        self._told = False

    async def run(self) -> None:
        while True:
            wait = await self.step()
            await asyncio.sleep(wait)

    async def watch_deadlines(self) -> None:
        while True:
            wait = self.stop_what_is_over()
            await asyncio.sleep(wait)

    async def step(self) -> float:
        """Renew what is old enough; gives the seconds until the next look."""
        now, lease = self._clock.boottime(), self._hand.lease
        if not self._proven(now):
            return lease.retry_after
        ages = {held: now - held.sent for held in self._hand}
        if max(ages.values(), default=0.0) >= lease.renew_after:
            try:
                await self._renew([held for held, age in ages.items() if age >= lease.rides_along])
            except Exception as error:  # noqa: BLE001 - an unknown answer moves nothing; the deadlines hold
                self._report.failed(self._name, "renew", error)
                return lease.retry_after
        oldest = min((held.sent for held in self._hand), default=now)
        # Whatever is claimed meanwhile is younger than this wait.
        return max(lease.retry_after / 4, oldest + lease.renew_after - self._clock.boottime())

    def stop_what_is_over(self) -> float:
        """Give up the claims whose time is over; gives the seconds until the next look."""
        now, lease = self._clock.boottime(), self._hand.lease
        for held in self._hand:
            if lease.over(held.sent, now):
                self._handlers.give_up(held, "no renewal was confirmed in time, so it may be another worker's by now")
        nearest = min((lease.deadline(held.sent) for held in self._hand if held.outcome is None), default=now + GLANCE)
        return min(GLANCE, max(0.001, nearest - now))

    def _proven(self, now: float) -> bool:
        silent = now - self._progressed()
        alive = silent < self._hand.lease.longest_silence
        if not alive and not self._told and len(self._hand):
            sentence = f"the claim loop has not gone round for {silent:.1f} s: its leases are renewed no more"
            self._report.failed(self._name, "renew", TransientError(sentence, sent=False))
        self._told = not alive
        return alive

    async def _renew(self, helds: Sequence[Held]) -> None:
        sent, renewal = self._clock.boottime(), self._queue.rows.renew([held.claim for held in helds])
        still = await self._queue.in_time(renewal, "the database did not answer a renewal")
        for held in helds:
            if held.claim.fence in still:
                held.sent = max(held.sent, sent)
            else:
                self._handlers.give_up(held, "another worker has the row now, or it was cancelled")
