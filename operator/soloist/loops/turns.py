"""Whose turn it is: one task a job at a time, begun when something about the job changed or its alarm rings.

No job is worked on twice at once, so its gate is never passed by two; what changes meanwhile is noted, and looked at by the
next step or by a turn of its own. No fault ends more than the turn it came in, and each that is followed by another makes
its job wait longer. An alarm that is set wakes whoever sleeps until a later one.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from soloist.domain.errors import SoloistError, TransientError
from soloist.domain.term import Term
from soloist.loops.alarm import Alarms
from soloist.loops.cache import Key
from soloist.ports import Clock, Report

AT_ONCE = 16
"""Jobs that are woken before the loop turns: of a thousand that are due together the first have their requests out, and the
server has work, while the last are still being thought about."""

FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0

MOST_STEPS = 500
"""Steps of one job in a row, before others get their turn."""

BACKLOG = 20
"""So many full turns in a row may be honest work (runs to trim). After them somebody is told, and the job waits long: no
fault may spin."""


class Turns:
    """``step`` says whether it took one; ``recover`` is told of the error of a step, and says ``come_back_after`` it.

    ``at_once`` does without waiting what a job is woken for by its alarm, and says whether that was all.
    """

    def __init__(
        self,
        *,
        report: Report,
        clock: Clock,
        term: Callable[[], Term | None],
        step: Callable[[Key], Awaitable[bool]],
        recover: Callable[[Key, SoloistError], Awaitable[None]],
        at_once: Callable[[Key], bool] = lambda _: False,
    ) -> None:
        self._report, self._clock, self._term, self._step, self._recover = report, clock, term, step, recover
        self._at_once = at_once
        self.working: dict[Key, asyncio.Task[None]] = {}
        self.open = False
        self._alarms: Alarms[Key] = Alarms()
        self._again: set[Key] = set()
        self._failures: Counter[Key] = Counter()
        self._full: Counter[Key] = Counter()
        self._changed = asyncio.Event()

    def wake(self, key: Key) -> None:
        """Something about this job has changed: look at it now."""
        if not self.open or self._term() is None:
            return
        if key in self.working:
            self._again.add(key)
            return
        self._alarms.clear(key)
        task = asyncio.create_task(self._work(key), name=f"job {key[0]}/{key[1]}")
        self.working[key] = task
        task.add_done_callback(lambda _: self._worked(key))

    def _worked(self, key: Key) -> None:
        del self.working[key]
        self._changed.set()
        if key in self._again:
            self._again.discard(key)
            self.wake(key)

    async def run(self) -> None:
        """For ever: wake the jobs whose time has come."""
        while True:
            for number, key in enumerate(self._alarms.due(self._clock.boottime()), 1):
                if key in self.working or not self._done_at_once(key):
                    self.wake(key)
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
            following = self._alarms.next()
            self._changed.clear()
            left = following - self._clock.boottime() if following is not None else None
            if left is not None and left <= 0:
                continue
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _done_at_once(self, key: Key) -> bool:
        """Nobody else is at this job, and nobody comes in between: no task is needed for it."""
        try:
            return self.open and self._at_once(key)
        except Exception as error:  # noqa: BLE001 - one job's fault must not stop the others
            self._report.failed("scheduler", error)
            return False

    async def _work(self, key: Key) -> None:
        """Steps until there is none to take. An error is survived: read again, and come back after a wait that grows."""
        try:
            for _ in range(MOST_STEPS):
                self._again.discard(key)
                if not await self._step(key):
                    self._failures.pop(key, None)
                    self._full.pop(key, None)
                    return
            self._give_way(key)
        except SoloistError as error:
            self._report.failed("scheduler", error)
            await self._recover(key, error)
        except Exception as error:  # noqa: BLE001 - one job's fault must not stop the others
            self._report.failed("scheduler", error)
            self.come_back(key, LONGEST_WAIT)

    def _give_way(self, key: Key) -> None:
        self._full[key] += 1
        if self._full[key] < BACKLOG:
            self.come_back(key, FIRST_WAIT)
            return
        steps = self._full[key] * MOST_STEPS
        self._report.failed("scheduler", RuntimeError(f"{key} asked for {steps} steps in a row"))
        self.come_back(key, LONGEST_WAIT)

    def come_back(self, key: Key, seconds: float) -> None:
        self._alarms.set(key, self._clock.boottime() + seconds)
        self._changed.set()

    def come_back_after(self, key: Key, error: SoloistError) -> None:
        self._failures[key] += 1
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self._failures[key] - 1, 10))
        if isinstance(error, TransientError) and error.retry_after is not None:
            wait = min(LONGEST_WAIT, max(wait, error.retry_after))
        self.come_back(key, wait)

    def forget(self, key: Key) -> None:
        self._alarms.clear(key)
        self._failures.pop(key, None)
        self._full.pop(key, None)
