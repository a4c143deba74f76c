"""The leader's loop: look at a job when something changed or its time has come, take the one step that is asked for, look again.

It decides nothing. Everything it knows of the world is in ``Cache``; everything it alone knows is in ``memory``. Before each
effect it asks the term whether it may still be believed, and whether the cache is fresh; if not, nothing starts. One task
a job at a time, so that the gate of a job is never passed by two.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from soloist.domain import protocol
from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.domain.runs import Job
from soloist.domain.spec import Invalid, Spec
from soloist.domain.steps import Stop, Wait
from soloist.domain.term import Term
from soloist.domain.view import View
from soloist.loops.acting import Acting, Stage
from soloist.loops.alarm import Alarms
from soloist.loops.cache import Cache, Key
from soloist.loops.crowd import Crowd
from soloist.loops.effects import Effects, NotNow
from soloist.loops.lanes import Lanes
from soloist.loops.neighbours import Neighbours
from soloist.loops.rereading import reread
from soloist.loops.specs import NOTHING_TO_RUN, runnable
from soloist.ports import Clock, Launcher, Report, Store

AT_ONCE = 16
"""Jobs that are woken before the loop turns: of a thousand that are due together the first have their requests out, and the
server has work, while the last are still being thought about."""

FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0

MOST_STEPS = 500
"""Steps of one job in a row, before others get their turn and somebody is told: no fault may spin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Settings of the scheduler, seconds."""

    claim_ahead: float = 10.0
    record_ahead: float = 2.0
    bookkeeping: int = 16


class Scheduler:
    """``term`` gives the term as of now, None when none is held; ``fresh`` whether the cache may be acted on."""

    def __init__(
        self,
        *,
        cache: Cache,
        store: Store,
        launcher: Launcher,
        report: Report,
        clock: Clock,
        term: Callable[[], Term | None],
        fresh: Callable[[], bool],
        on_stop: Callable[[str], None],
        stage: Stage,
        pace: Pace,
    ) -> None:
        self.cache, self.store, self.report, self.clock = cache, store, report, clock
        self.term, self._fresh, self._on_stop, self._pace = term, fresh, on_stop, pace
        lanes = Lanes(pace.bookkeeping)
        self.acting = Acting(launcher=launcher, report=report, clock=clock, wake=self.wake, lanes=lanes, stage=stage)
        self.effects = Effects(
            cache=cache, store=store, launcher=launcher, report=report, acting=self.acting, lanes=lanes, stage=stage
        )
        self._neighbours = Neighbours(report)
        self._alarms: Alarms[Key] = Alarms()
        self._working: dict[Key, asyncio.Task[None]] = {}
        self._again: set[Key] = set()
        self._failures: Counter[Key] = Counter()
        self._specs: dict[Key, tuple[str, Spec]] = {}
        self._crowd = Crowd(pace.record_ahead)
        self._changed = asyncio.Event()
        self._open, self._draining = False, False

    def start(self) -> None:
        """The term's lists are through: from now on jobs are looked at."""
        self._open = True
        self.wake_all()

    def wake(self, key: Key) -> None:
        """Something about this job has changed: look at it now."""
        if not self._open or self.term() is None:
            return
        if key in self._working:
            self._again.add(key)
            return
        self._alarms.clear(key)
        task = asyncio.create_task(self._work(key), name=f"job {key[0]}/{key[1]}")
        self._working[key] = task
        task.add_done_callback(lambda _: self._worked(key))

    def _worked(self, key: Key) -> None:
        del self._working[key]
        self._changed.set()
        if key in self._again:
            self._again.discard(key)
            self.wake(key)

    def wake_all(self) -> None:
        for key in self.cache:
            self.wake(key)

    async def run(self) -> None:
        """For ever: wake the jobs whose time has come."""
        while True:
            for number, key in enumerate(self._alarms.due(self.clock.boottime()), 1):
                self.wake(key)
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
            following = self._alarms.next()
            self._changed.clear()
            left = following - self.clock.boottime() if following is not None else None
            if left is not None and left <= 0:
                continue
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def close(self) -> None:
        """From now on nothing is launched."""
        self._draining = True

    async def drain(self, grace: float) -> None:
        """Let actions end, and write what came of them, within ``grace`` seconds."""
        self.close()
        self.acting.leave_jobs()
        deadline = self.clock.boottime() + grace
        self.wake_all()
        while self.acting.going or self._working or self._unwritten():
            left = deadline - self.clock.boottime()
            if left <= 0:
                return
            tasks = [*self.acting.going.values(), *self._working.values()]
            if tasks:
                await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(min(left, 0.05))

    def _unwritten(self) -> bool:
        known = {
            uid for uid, known in self.acting.memory.items() if known.outcome is not None or known.cancelled is not None
        }
        return not known.isdisjoint(self.cache.unfinished())

    def may_act(self) -> bool:
        """Asked just before each effect."""
        term = self.term()
        return term is not None and term.trusted(self.clock.boottime()) and self._fresh()

    async def _work(self, key: Key) -> None:
        """Steps until there is none to take. An error is survived: read again, and come back after a wait that grows."""
        try:
            for _ in range(MOST_STEPS):
                self._again.discard(key)
                if not await self._step(key):
                    self._failures.pop(key, None)
                    return
            self.report.failed("scheduler", RuntimeError(f"{key} asked for {MOST_STEPS} steps in a row"))
            self._come_back(key, 1.0)
        except SoloistError as error:
            self.report.failed("scheduler", error)
            await self._recover(key, error)
        except Exception as error:  # noqa: BLE001 - one job's fault must not stop the others
            self.report.failed("scheduler", error)
            self._come_back(key, LONGEST_WAIT)

    async def _recover(self, key: Key, error: SoloistError) -> None:
        """Nobody knows what that write did: read, and decide anew."""
        job = self.cache.job(key)
        if isinstance(error, PermanentError) and job is not None:
            self.report.stands_in_the_way(job, "Refused", str(error))
            try:
                await self._settle(key)
            except (SoloistError, NotNow) as problem:
                self.report.failed("settle", problem)
        self._failures[key] += 1
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self._failures[key] - 1, 10))
        if isinstance(error, TransientError) and error.retry_after is not None:
            wait = min(LONGEST_WAIT, max(wait, error.retry_after))
        self._come_back(key, wait)
        try:
            await reread(self.cache, self.store, key)
        except SoloistError as problem:
            self.report.failed("reread", problem)

    def _come_back(self, key: Key, seconds: float) -> None:
        self._alarms.set(key, self.clock.boottime() + seconds)
        self._changed.set()

    async def _step(self, key: Key) -> bool:
        """Take one step; False when there is nothing to do now."""
        job, term = self.cache.job(key), self.term()
        if job is None or term is None:
            self._forget(key)
            return False
        spec = runnable(job)
        if isinstance(spec, Invalid):
            if self.may_act() and await self.effects.refuse(job, spec, term.now(self.clock.boottime())):
                return True
            uid, last = self._specs.get(key, (job.uid, NOTHING_TO_RUN))
            view = self._view(key, job, last if uid == job.uid else NOTHING_TO_RUN, term)
            step = protocol.stand_by(view)
        else:
            self._specs[key] = (job.uid, spec)
            view = self._view(key, job, spec, term)
            self._neighbours.look(view)
            step = protocol.finish(view) if self._draining else protocol.decide(view)
        if isinstance(step, Wait):
            self._sleep(key, view, step)
            return False
        if not self.may_act():
            self._come_back(key, 5.0)
            return False
        if isinstance(step, Stop):
            self._on_stop(step.message)
            return False
        try:
            await self.effects.take(view, step, term.lease_uid)
        except NotNow as later:
            await self._settle(key)
            self._come_back(key, later.seconds)
            return False
        return True

    async def _settle(self, key: Key) -> None:
        """One write is refused: what has ended is written all the same, and what may go is trimmed."""
        for _ in range(MOST_STEPS):
            job, term = self.cache.job(key), self.term()
            spec = runnable(job) if job is not None else None
            if job is None or term is None or not isinstance(spec, Spec) or not self.may_act():
                return
            view = self._view(key, job, spec, term)
            step = protocol.settle(view)
            if isinstance(step, Wait | Stop):
                return
            await self.effects.take(view, step, term.lease_uid)

    def _sleep(self, key: Key, view: View, step: Wait) -> None:
        """Until the moment on the term clock that the rules name; and count who is due at the same instant."""
        upcoming = view.planned.upcoming if isinstance(view.job.spec, Spec) else None
        self._crowd.stand_at(key, upcoming.launch_at if upcoming is not None else None)
        if step.until is not None:
            self._come_back(key, (step.until - view.now).total_seconds())

    def _forget(self, key: Key) -> None:
        self._crowd.stand_at(key, None)
        self._alarms.clear(key)
        self._failures.pop(key, None)
        if self.cache.job(key) is None:
            uid, _ = self._specs.pop(key, ("", NOTHING_TO_RUN))
            self.effects.taken.pop(uid, None)
            self.acting.forget(run.uid for run in self.cache.runs(key))

    def _view(self, key: Key, job: Job, spec: Spec, term: Term) -> View:
        boot = self.clock.boottime()
        return View(
            job=job,
            spec=spec,
            runs=self.cache.runs(key),
            memory=self.acting.memory,
            epoch=term.epoch,
            lease=f"{term.lease_namespace}/{term.lease_name}",
            term_started=term.started_boot,
            past_ends=term.past_ends,
            fleet_paused=term.fleet_paused is not None,
            now=term.now(boot),
            boot=boot,
            claim_ahead=timedelta(seconds=self._pace.claim_ahead),
            record_ahead=timedelta(seconds=self._crowd.lead(key)),
            taken=self.effects.taken.get(job.uid, {}),
        )
