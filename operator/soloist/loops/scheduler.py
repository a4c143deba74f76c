"""The leader's loop: look at a job when something changed or its time has come, take the one step that is asked for, look again.

It decides nothing. Everything it knows of the world is in ``Cache``; everything it alone knows is in ``acting``. Before each
effect it asks the term whether it may still be believed, and whether the cache is fresh; if not, nothing starts. Whose turn
it is, and when, is kept by ``Turns``: one task a job at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from soloist.domain import protocol
from soloist.domain.errors import PermanentError, SoloistError
from soloist.domain.runs import Job
from soloist.domain.spec import Invalid, Spec
from soloist.domain.steps import Launch, Stop, Wait
from soloist.domain.term import Term
from soloist.loops.acting import Acting, Stage
from soloist.loops.cache import Cache, Key
from soloist.loops.draining import drained
from soloist.loops.effects import Effects
from soloist.loops.job_writes import JobWrites
from soloist.loops.lanes import Lanes
from soloist.loops.leisure import Leisure
from soloist.loops.neighbours import Neighbours
from soloist.loops.not_now import NotNow
from soloist.loops.orphans import Orphans
from soloist.loops.outlook import Outlook
from soloist.loops.rereading import reread
from soloist.loops.run_writes import RunWrites
from soloist.loops.specs import runnable
from soloist.loops.turns import MOST_STEPS, Turns
from soloist.ports import Clock, Launcher, Report, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Settings of the scheduler, seconds."""

    claim_ahead: float = 10.0
    record_ahead: float = 2.0
    bookkeeping: int = 16


class Scheduler:
    """``term`` gives the term as of now, None when none is held; ``fresh`` whether the cache may be acted on.

    ``spec_of``: what a job is to do here, or why it cannot.
    """

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
        spec_of: Callable[[Job], Spec | Invalid] = runnable,
    ) -> None:
        self._cache, self._store, self._report, self._clock = cache, store, report, clock
        self._term, self._fresh, self._on_stop, self._spec_of = term, fresh, on_stop, spec_of
        self._turns = Turns(
            report=report, clock=clock, term=term, step=self._step, recover=self._recover, at_once=self._launch_at_once
        )
        self.wake, self.run = self._turns.wake, self._turns.run
        lanes = Lanes(pace.bookkeeping)
        self._leisure = Leisure(lanes, self._turns)
        self._acting = Acting(
            launcher=launcher, report=report, clock=clock, ended=self._leisure.ended, lanes=lanes, stage=stage
        )
        self._jobs = JobWrites(cache, store, report, self._acting, stage)
        runs = RunWrites(cache, store, launcher, report, self._acting, stage)
        self._effects = Effects(self._acting, lanes, self._jobs, runs)
        self._outlook = Outlook(cache, clock, self._acting, pace.claim_ahead, pace.record_ahead)
        self._neighbours = Neighbours(report)
        self._orphans = Orphans(cache, store, report, clock, self._acting)
        self._draining = False

    def start(self) -> None:
        """The term's lists are through: from now on jobs are looked at."""
        self._turns.open = True
        self.wake_all()

    def wake_all(self) -> None:
        for key in self._cache:
            self.wake(key)

    def close(self) -> None:
        """From now on nothing is launched."""
        self._draining = True
        self._leisure.close()

    async def drain(self, grace: float) -> None:
        """Let actions end, and write what came of them, within ``grace`` seconds."""
        self.close()
        self._acting.leave_jobs()
        self.wake_all()
        await drained(self._acting, self._turns, self._cache, self._clock, grace)

    def may_act(self) -> bool:
        """Asked just before each effect."""
        term = self._term()
        return term is not None and term.trusted(self._clock.boottime()) and self._fresh()

    async def _step(self, key: Key) -> bool:
        """Take one step; False when there is nothing to do now."""
        self._leisure.looked_at(key)
        job, term = self._cache.job(key), self._term()
        if job is None or term is None:
            self._turns.forget(key)
            self._outlook.forget(key)
            return term is not None and await self._end_orphan(key, term)
        self._orphans.found(key)
        spec = self._spec_of(job)
        if isinstance(spec, Invalid):
            if self.may_act() and await self._jobs.refuse(job, spec, term.now(self._clock.boottime())):
                return True
            view = self._outlook.view(key, job, spec, term)
            step = protocol.stand_by(view)
        else:
            view = self._outlook.view(key, job, spec, term)
            self._neighbours.look(view)
            step = protocol.finish(view) if self._draining else protocol.decide(view)
        if isinstance(step, Wait):
            self._outlook.wait(key, view)
            if step.until is not None:
                self._turns.come_back(key, (step.until - view.now).total_seconds())
            return False
        if not self.may_act():
            self._turns.come_back(key, 5.0)
            return False
        if isinstance(step, Stop):
            self._on_stop(step.message)
            return False
        try:
            await self._effects.take(view, step, term.lease_uid)
        except NotNow as later:
            await self._settle(key)
            self._turns.come_back(key, later.seconds)
            return False
        return not (isinstance(step, Launch) and self._leisure.rests(key, view, step.run))

    def _launch_at_once(self, key: Key) -> bool:
        """The same step where it is a launch, of which thousands may be due. True: nothing more is wanted of that job."""
        job, term = self._cache.job(key), self._term()
        spec = self._spec_of(job) if job is not None and job.active else None
        if job is None or term is None or not isinstance(spec, Spec) or self._draining:
            return False
        view = self._outlook.view(key, job, spec, term)
        step = protocol.launch_now(view)
        if not isinstance(step, Launch) or not self.may_act():
            return False
        self._acting.launch(view, step)
        return self._leisure.rests(key, view, step.run)

    async def _end_orphan(self, key: Key, term: Term) -> bool:
        left = self._orphans.left(key, term)
        if left is None:
            return False
        if left > 0 or not self.may_act():
            self._turns.come_back(key, max(left, 1.0))
            return False
        await self._orphans.end_one(key, term)
        return True

    async def _settle(self, key: Key) -> None:
        """One write is refused: what has ended is written all the same, and what may go is trimmed."""
        for _ in range(MOST_STEPS):
            job, term = self._cache.job(key), self._term()
            spec = self._spec_of(job) if job is not None else None
            if job is None or term is None or not isinstance(spec, Spec) or not self.may_act():
                return
            view = self._outlook.view(key, job, spec, term)
            step = protocol.settle(view)
            if isinstance(step, Wait | Stop):
                return
            await self._effects.take(view, step, term.lease_uid)

    async def _recover(self, key: Key, error: SoloistError) -> None:
        """Nobody knows what that write did: read, and decide anew."""
        job = self._cache.job(key)
        if isinstance(error, PermanentError) and job is not None:
            self._report.stands_in_the_way(job, "Refused", str(error))
            try:
                await self._settle(key)
            except (SoloistError, NotNow) as problem:
                self._report.failed("settle", problem)
        self._turns.come_back_after(key, error)
        try:
            await reread(self._cache, self._store, key)
        except SoloistError as problem:
            self._report.failed("reread", problem)
