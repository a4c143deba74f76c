"""The loop that claims the due rows of one queue.

Why nothing is claimed that cannot be worked: a claim asks for no more rows than there are free slots and places for their
outcomes. Why nothing runs on a claim that is not good: its time counts from before it was asked for. Why it does not stop:
whatever the database says is reported, and the next round comes after a wait that grows; other queues have loops of their
own. ``progressed`` is when the loop last went round: renewals and ``/healthz`` take it for a sign of life.
"""

import asyncio
from contextlib import suppress

from soloist.domain.claims import Claim
from soloist.domain.errors import sentence_of
from soloist.domain.polling import Pace, enough, how_many
from soloist.domain.queue_spec import Poll
from soloist.loops.handlers import Handlers
from soloist.loops.worked_queue import WorkedQueue

TURN = 1.0
"""Seconds after which a loop that only waits for a slot shows that it is alive."""


class QueueWorker:
    """One queue's."""

    def __init__(self, queue: WorkedQueue, poll: Poll, handlers: Handlers) -> None:
        self._queue, self._hand, self._handlers = queue, queue.hand, handlers
        self._name, self._clock, self._report, self._drawn = queue.name, queue.clock, queue.report, queue.drawn
        self._pace = Pace(least=poll.least.total_seconds(), most=poll.most.total_seconds())
        self._next = float("-inf")
        self._woken = self._closing = False
        self._stirred = asyncio.Event()
        self._claiming = asyncio.Lock()
        self._failing_since: float | None = None
        self.trouble = "its first claim is not answered yet"
        """Why nothing can be claimed, a sentence for people; empty where the last claim was answered."""
        self.progressed = queue.clock.boottime()

    def stir(self) -> None:
        """There may be room for another row."""
        self._stirred.set()

    def wake(self) -> None:
        """Something was enqueued: look at once."""
        self._woken = True
        self._stirred.set()

    def close(self) -> None:
        """Claim nothing more; a claim that is under way puts back what it brings."""
        self._closing = True
        self._handlers.close()

    async def at_rest(self) -> None:
        """Returns when no claim is under way."""
        async with self._claiming:
            return

    @property
    def failing_since(self) -> float | None:
        """CLOCK_BOOTTIME of the first of the claims in a row that failed, up to the last one."""
        return self._failing_since

    async def run(self) -> None:
        """Until cancelled; once closed it only shows that it is alive, for the leases of what still runs."""
        while True:
            await self.step()

    async def step(self) -> None:
        """Wait until it is time and there is room, then claim once and hand over what came."""
        asked = await self._turn()
        if not asked:
            return
        async with self._claiming:
            full = await self._claim_and_hand_over(asked)
        self._next = self._clock.boottime() + self._pace.wait(full=full, drawn=self._drawn())

    async def _claim_and_hand_over(self, asked: int) -> bool:
        """Whether there may be more."""
        sent = self._clock.boottime()
        try:
            claims = await self._claim(asked)
        except Exception as error:  # noqa: BLE001 - a queue that cannot be asked is asked again
            self._report.failed(self._name, "claim", error)
            self._pace = self._pace.after_error()
            self._failing_since = sent if self._failing_since is None else self._failing_since
            self.trouble = sentence_of(error)
            return False
        self._failing_since, self.trouble = None, ""
        if claims:
            self._report.claimed(self._name, len(claims), sum(claim.reclaims > 0 for claim in claims))
        taken = sum(self._handlers.take(claim, sent) for claim in claims)
        self._pace = self._pace.after_claim(asked=asked, taken=taken)
        return len(claims) >= asked and taken > 0

    async def _turn(self) -> int:
        """How many rows to ask for now; 0 when a turn has passed in which there was nothing to do."""
        now = self.progressed = self._clock.boottime()
        until, patience = now + TURN, now + self._pace.least
        while now < until:
            asked = 0 if self._closing else how_many(free=self._hand.free, room=self._hand.room)
            moment = max(float("-inf") if self._woken else self._next, self._hand.rests_until)
            if not enough(asked, slots=self._hand.slots):
                moment = max(moment, patience)
            if asked and moment <= now:
                self._pace, self._woken = self._pace.woken() if self._woken else self._pace, False
                return asked
            self._stirred.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout((min(moment, until) if asked else until) - now):
                    await self._stirred.wait()
            now = self._clock.boottime()
        return 0

    async def _claim(self, asked: int) -> list[Claim]:
        claim = self._queue.rows.claim(asked, without=self._hand.full_keys(self._clock.boottime()))
        return await self._queue.in_time(claim, "the database did not answer a claim")
