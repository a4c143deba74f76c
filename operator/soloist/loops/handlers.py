"""Runs one handler for each claim, and sees to it that every claim leaves with an outcome, or is known to be lost.

Each handler is a task: one that hangs holds up its own slot, and one that breaks ends its own row's attempt. A handler is
ended when its claim is lost, when its time is over, and when the worker goes away; only in the last case there is something
to write. What was claimed and may not start (the queue closes, the claim's answer came too late, its key has enough) is put
back without using an attempt.
"""

import asyncio
from contextlib import suppress

from soloist.domain.claims import Claim, PutBack, Settled
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.unfinished import faulty, over_limit, stopped, untried
from soloist.loops.completions import Completions
from soloist.loops.in_hand import Held, Place
from soloist.loops.row_ports import Deliverer
from soloist.loops.worked_queue import WorkedQueue

STOPPING = 1.0
"""Seconds for a handler to end that was told to."""


class Handlers:
    """The handlers of one queue."""

    def __init__(self, queue: WorkedQueue, spec: QueueSpec, deliverer: Deliverer, completions: Completions) -> None:
        self._spec, self._deliverer, self._completions = spec, deliverer, completions
        self._name, self._hand = queue.name, queue.hand
        self._clock, self._report, self._drawn = queue.clock, queue.report, queue.drawn
        self._closing = False
        self._idle = asyncio.Event()
        self._idle.set()

    def take(self, claim: Claim, sent: float) -> bool:
        """Start a new claim, or have it wait for its key; False where it goes back. ``sent``: when it was asked for."""
        held = self._hand.take(claim, sent)
        if self._closing or self._hand.lease.over(sent, self._clock.boottime()):
            self._completions.offer(held, untried(claim))
            return False
        place = self._hand.place(held)
        if place is Place.GOES_BACK:
            self._completions.offer(held, over_limit(claim, self._drawn()))
        elif place is Place.RUNS:
            self._start(held)
        return place is not Place.GOES_BACK

    def close(self) -> None:
        """Start nothing more; what has not started goes back at once."""
        self._closing = True
        for held in self._hand.take_waiting():
            self._completions.offer(held, untried(held.claim))

    async def idle(self) -> None:
        """Returns when no handler runs."""
        await self._idle.wait()

    async def stop(self) -> None:
        """End what still runs, and put it back; one that does not let itself be ended is waited for no longer."""
        for held in self._hand:
            if held.runs and held.task is not None:
                held.task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOPPING):
                await self.idle()
        for held in self._hand:
            if held.outcome is None:
                self._completions.offer(held, stopped(self._spec, held.claim))

    def give_up(self, held: Held, sentence: str) -> None:
        """The claim is not ours any more, or may not be: its handler ends, and nothing is written."""
        if held.outcome is not None:
            return
        held.given_up = True
        self._hand.drop(held)
        if held.task is not None:
            held.task.cancel()
        self._report.lost(self._name, held.claim, sentence)

    def _start(self, held: Held) -> None:
        self._idle.clear()
        began = self._clock.boottime()
        task = asyncio.create_task(self._work(held.claim))
        self._hand.start(held, task)
        # Not at the end of the task itself: one that is cancelled before its first step never gets there.
        task.add_done_callback(lambda _: self._over(held, task, self._clock.boottime() - began))

    async def _work(self, claim: Claim) -> Settled:
        try:
            return await self._deliverer.deliver(claim)
        except Exception as error:  # noqa: BLE001 - a handler's fault is one row's, and never the queue's
            self._report.failed(self._name, "deliver", error)
            return faulty(self._spec, claim, error, self._drawn())

    def _over(self, held: Held, task: "asyncio.Task[Settled]", seconds: float) -> None:
        following = self._hand.ended(held)
        broke = task.cancelled() or task.exception() is not None
        self._rest_or_rouse(held, None if broke else task.result())
        if not held.given_up and held.outcome is None:
            if broke:
                self._completions.offer(held, stopped(self._spec, held.claim))
            else:
                self._report.delivered(self._name, task.result(), seconds)
                self._completions.offer(held, task.result())
        if following is not None:
            self._start(following)
        if not self._hand.running:
            self._idle.set()

    def _rest_or_rouse(self, held: Held, outcome: Settled | None) -> None:
        if not isinstance(outcome, PutBack):
            self._hand.rouse(held)
        elif outcome.shut_for:
            until = self._clock.boottime() + outcome.shut_for.total_seconds()
            self._hand.rest(held, until, for_all=outcome.for_all)
