"""Deciding ticks, strictly in order, and recording those that are to run.

The record is one status write, conditional on resourceVersion: it moves the watermark past the tick, puts the run into
``active`` under this epoch, and takes along the reasons of the ticks before it that do not run. A run must stand ready
under the name that its tick gives it before it can be recorded; it is created ahead of time while nothing is in the way.

So must its Job, late as it may be: the record names it. That very Job, not started, tells whoever comes next that the run was
never launched; another Job of the run tells nothing, since the one that was started may be gone.
"""

from datetime import datetime, timedelta

from soloist.domain import settling
from soloist.domain.actions import JobAction, kind_of, ledger_of
from soloist.domain.gate import Verdict, blockers, closed, judge
from soloist.domain.instants import stamp
from soloist.domain.launching import is_patient
from soloist.domain.orphaned import NO_SUCH_JOB
from soloist.domain.runs import Entry, Phase, Run
from soloist.domain.spec import ConcurrencyPolicy
from soloist.domain.steps import CreateRun, Prepare, Step, TakeOver, WriteJob, WriteRun
from soloist.domain.ticks import COUNTED, LATE, Reason, Tick, in_pause, left_behind
from soloist.domain.view import View, launch_at, ours_alone

TIME_AHEAD = "TimeAhead"
LAZY = timedelta(minutes=10)
"""Ticks that pass while a job is suspended or paused are written down this often, not one by one."""


def record(view: View) -> Step | None:
    """Decide ticks strictly in order: the first that is due is recorded, skipped or waited for, with all before it."""
    if view.job.deleting:
        return None
    found, shut = view.planned, view.shut
    decided = [*left_behind(view.job, view.observed), *found.decided]
    if view.paused_until is not None:
        decided += in_pause(view.job, view.spec, view.observed, *view.paused_until)
    due = list(found.due)
    if shut is None and found.upcoming is not None and view.now >= found.upcoming.launch_at - view.record_ahead:
        due.append(found.upcoming)
    while due:
        tick = due[0]
        if tick.at in view.taken:
            decided.append((tick.at, view.taken[tick.at]))
            del due[0]
            continue
        if theirs(view, tick):
            break
        verdict = judge(view.spec, blockers(view.occupants, None), patient=is_patient(view, tick.at))
        early = view.now < tick.launch_at
        if verdict is Verdict.GO or (verdict is Verdict.CANCEL_FIRST and not early):
            run = claimed_run(view, tick.at)
            if run is None:
                return CreateRun(tick=tick.at)
            return _record(view, run, tick, decided)
        if early:
            break
        if verdict is Verdict.SKIP:
            decided.append((tick.at, Reason.BLOCKED))
        elif view.spec.concurrency is not ConcurrencyPolicy.FORBID and len(due) > 1 and due[1].launch_at <= view.now:
            decided.append((tick.at, Reason.QUEUED_BEHIND_NEWER))
        else:
            break
        del due[0]
    return _only_decided(view, decided, due[0] if due else None, shut)


def _record(view: View, run: Run, tick: Tick, decided: list[tuple[datetime, Reason]]) -> Step:
    if not ours_alone(view, run):
        return TakeOver(run=run)
    if unprepared(view, run):
        return Prepare(run=run)
    before = tuple(sorted(pair for pair in decided if pair[0] < tick.at))
    return WriteJob(watermark=tick.at, add=(entry_for(view, run),), decided=before, **settling.riding(view))


def _only_decided(
    view: View, decided: list[tuple[datetime, Reason]], waiting: Tick | None, shut: Reason | None
) -> Step | None:
    """Ticks that are let go with nothing to launch. In a suspended or paused job that can wait for company."""
    pairs = tuple(sorted(pair for pair in decided if waiting is None or pair[0] < waiting.at))
    if not pairs:
        return None
    lazy = len(pairs) < COUNTED // 2 and not any(claimed_run(view, at) for at, _ in pairs)
    if shut is not None and lazy and view.now - pairs[0][0] < LAZY and view.job.observed == view.observed:
        return None
    return WriteJob(watermark=pairs[-1][0], decided=pairs, **settling.riding(view))


def entry_for(view: View, run: Run) -> Entry:
    tick = run.tick if run.scheduled else None
    return Entry(
        run=run.name,
        uid=run.uid,
        tick=tick,
        epoch=view.epoch,
        lease=view.lease,
        launch_at=launch_at(view, run),
        timeout=view.spec.timeout,
        action=kind_of(view.spec.action),
        ledger=ledger_of(view.spec.action),
        prepared=view.remembered(run.uid).made,
    )


def claimed_run(view: View, at: datetime) -> Run | None:
    """The run that stands ready for this tick: not recorded, not ended, above the watermark."""
    for run in view.runs:
        unrecorded = view.job.entry(run.uid) is None and not run.phase.final and not run.deleting
        if run.tick == at and unrecorded and view.expected(run):
            return run
    return None


def theirs(view: View, tick: Tick) -> bool:
    """Another installation (another Lease) has claimed this tick: it is left to record it, or to give its reason.

    For a while only: should that installation be gone, the name it has taken stays taken, and the tick is decided so.
    """
    return view.now < tick.launch_at + LATE and view.neighbour_of(tick.at) is not None


def record_person(view: View) -> Step | None:
    """Manual and backfilled runs: the same gate and the same record, past the watermark."""
    if view.job.deleting:
        return None
    waiting = (r for r in view.runs if not r.scheduled and not r.phase.final and view.job.entry(r.uid) is None)
    for run in sorted(waiting, key=lambda r: r.order):
        if run.deleting or run.phase is not Phase.PENDING:
            continue
        if run.job_uid not in (None, view.job.uid):
            message = f"It is for a ScheduledJob {run.job_name} that was deleted (uid {run.job_uid}); another has its name now."
            return WriteRun(run=run, phase=Phase.SKIPPED, reason=NO_SUCH_JOB, message=message)
        if run.tick is not None and run.tick > view.now:
            message = f"spec.scheduledTime is {stamp(run.tick)}, which has not come yet: a backfilled run is for a time in the past."
            return WriteRun(run=run, phase=Phase.SKIPPED, reason=TIME_AHEAD, message=message)
        shut = closed(view.job, view.spec, view.fleet_paused, view.now, person=True)
        if shut is not None:
            return WriteRun(run=run, phase=Phase.SKIPPED, reason=shut)
        match judge(view.spec, blockers(view.occupants, run)):
            case Verdict.SKIP:
                return WriteRun(run=run, phase=Phase.SKIPPED, reason=Reason.BLOCKED)
            case Verdict.GO | Verdict.CANCEL_FIRST if not ours_alone(view, run):
                return TakeOver(run=run)
            case Verdict.GO | Verdict.CANCEL_FIRST if unprepared(view, run):
                return Prepare(run=run)
            case Verdict.GO | Verdict.CANCEL_FIRST:
                return WriteJob(add=(entry_for(view, run),), **settling.riding(view))
    return None


def claim(view: View) -> Step | None:
    """Ahead of its time, while nothing is in the way: the run's object, and for a Job the suspended Job."""
    if view.job.deleting:
        return None
    found, shut = view.planned, view.shut
    tick = found.upcoming
    if tick is None or shut is not None or view.now < tick.launch_at - view.claim_ahead or tick.at in view.taken:
        return None
    if theirs(view, tick) or judge(view.spec, blockers(view.occupants, None)) is not Verdict.GO:
        return None
    run = claimed_run(view, tick.at)
    if run is None:
        return CreateRun(tick=tick.at)
    return Prepare(run=run) if unprepared(view, run) else None


def unprepared(view: View, run: Run) -> bool:
    """Its Job was not asked for yet. Once is enough: what fails then is tried again by the launch itself."""
    return isinstance(view.spec.action, JobAction) and not view.remembered(run.uid).prepared


def why_taken(view: View, run: Run, tick: datetime) -> Reason | None:
    """Why this object, found under the name of the tick's run, cannot be it. None: it is the run, or may yet be decided."""
    if run.tick == tick and view.of_neighbour(run) and view.now < launch_at(view, run) + LATE:
        return None
    if run.tick != tick or not view.expected(run) or view.job.entry(run.uid) is not None:
        return Reason.NAME_TAKEN
    if not run.phase.final and not run.deleting:
        return None
    return Reason(run.reason) if run.reason in set(Reason) else Reason.NAME_TAKEN
