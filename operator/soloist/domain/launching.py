"""Launching what is recorded: at its instant, never early, if it is still wanted and the gate is open.

The right to launch is checked here and nowhere else (``has_right``): the entry in ``active`` is this term's, or the attempt
was written ahead by it, and this process has not launched it yet.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from soloist.domain.actions import kind_of, ledger_of
from soloist.domain.gate import Verdict, blockers, closed, judge, retry_blockers
from soloist.domain.runs import Entry, Phase, Run
from soloist.domain.spec import ConcurrencyPolicy, MissedRunPolicy
from soloist.domain.steps import Cancel, Launch, Step, TakeOver, WriteAttempt, WriteJob, WriteRun
from soloist.domain.ticks import LATE, Reason, base, still_wanted, tick_of
from soloist.domain.view import OUTCOME_UNKNOWN, View, attempts_left, held_until, launch_at, ours_alone, retries_unknown

IDLE = timedelta(seconds=2)
"""A job is looked at this often while it has an action under way."""


def has_right(view: View, entry: Entry, run: Run) -> bool:
    """This process recorded the run in this term, or wrote this attempt ahead, and has not launched it yet."""
    known = view.remembered(run.uid)
    if run.phase.final or known.running or known.outcome is not None or known.cancelled is not None:
        return False
    if run.phase is Phase.RUNNING and run.attempt >= 2:
        return run.attempt_epoch == view.epoch and known.launched < run.attempt
    return view.mine(entry) and run.phase is Phase.PENDING and known.launched == 0


def launchable(view: View) -> Iterator[Run]:
    """Runs that this process has the right to launch and has not launched, in their order."""
    runs = [(entry, run) for entry in view.job.active if (run := view.run(entry.uid)) is not None]
    yield from sorted((run for entry, run in runs if has_right(view, entry, run)), key=lambda run: run.order)


def is_imminent(view: View) -> bool:
    """A run is recorded and its instant is still to come: nothing may hold this job up meanwhile."""
    return any(view.now < launch_at(view, run) for run in launchable(view))


def idle_after(view: View, launched: Run) -> timedelta:
    """For how long nothing is wanted of a job of which that run has just been launched, unless something changes."""
    others = any(not run.phase.final and run.uid != launched.uid for run in view.runs)
    if others or len(view.job.active) > 1 or view.job.observed != view.observed:
        return timedelta(0)
    following = view.spec.schedule.next_after(base(view.job, view.observed))
    if following is None:
        return IDLE
    return max(timedelta(0), min(IDLE, following - view.now - view.record_ahead))


def launch(view: View) -> Step | None:
    """Recorded runs at their instants: still wanted, and the gate open."""
    for run in launchable(view):
        if view.now < launch_at(view, run) or view.job.deleting:
            continue
        if not ours_alone(view, run):
            return TakeOver(run=run)
        if run.attempt >= 2:
            return _further(view, run)
        unwanted = _unwanted(view, run)
        if unwanted is not None:
            return WriteRun(run=run, phase=Phase.SKIPPED, reason=unwanted)
        # Whoever is alone there has nobody in its way, and of thousands due at once each mostly is.
        blocking = blockers(view.occupants, run) if len(view.job.active) > 1 else ()
        match judge(view.spec, blocking, patient=is_patient(view, run.tick)):
            case Verdict.GO:
                return _go(view, run, attempt=1)
            case Verdict.SKIP:
                return WriteRun(run=run, phase=Phase.SKIPPED, reason=Reason.BLOCKED)
            case Verdict.CANCEL_FIRST:
                other = blocking[0]
                if other.mine:
                    return Cancel(uid=other.uid, reason="Replaced")
                if other.run is not None:
                    return WriteRun(run=other.run, phase=Phase.CANCELLED, reason="Replaced")
    return None


def _further(view: View, run: Run) -> Step:
    """An attempt that was written ahead, unless nothing may start by now, however that came about."""
    reason = closed(view.job, view.spec, view.fleet_paused, view.now, person=not run.scheduled)
    if reason is None and _another_action(view, run):
        reason = Reason.SCHEDULE_CHANGED
    if reason is None:
        return _go(view, run, attempt=run.attempt)
    phase = Phase.UNKNOWN if run.reason == OUTCOME_UNKNOWN else Phase.FAILED
    return WriteRun(run=run, phase=phase, reason=reason, message=f"Attempt {run.attempt} was not made.")


def _go(view: View, run: Run, *, attempt: int) -> Step:
    """Whoever comes next asks the ledger that is recorded; so what was recorded is what is launched."""
    entry, ledger = view.job.entry(run.uid), ledger_of(view.spec.action)
    if entry is not None and entry.ledger != ledger:
        return WriteJob(add=(replace(entry, ledger=ledger),), books_only=True)
    return Launch(run=run, attempt=attempt)


def _another_action(view: View, run: Run) -> bool:
    entry = view.job.entry(run.uid)
    return entry is not None and entry.action != kind_of(view.spec.action)


def _unwanted(view: View, run: Run) -> Reason | None:
    """Why a recorded run is not launched after all."""
    shut = closed(view.job, view.spec, view.fleet_paused, view.now, person=not run.scheduled)
    if shut is not None:
        return shut
    if _another_action(view, run):
        return Reason.SCHEDULE_CHANGED
    if not run.scheduled or run.tick is None:
        return None
    if not still_wanted(view.spec, view.observed, run.tick):
        return Reason.SCHEDULE_CHANGED
    deadline = view.spec.starting_deadline
    if deadline is not None and view.now - launch_at(view, run) > deadline:
        return Reason.DEADLINE_EXCEEDED
    return None


def is_patient(view: View, tick: datetime | None) -> bool:
    """Missed ticks under RunAll take turns, where Forbid would skip an ordinary one.

    Missed is what lies before this term, however short the hand-over was, and what this term itself is very late for.
    """
    if view.spec.missed is not MissedRunPolicy.RUN_ALL or tick is None:
        return False
    began = view.now - timedelta(seconds=view.boot - view.term_started)
    instant = tick_of(view.job, view.spec, tick).launch_at
    return instant < began or view.now - instant > LATE


def write_attempt(view: View) -> Step | None:
    """A further attempt whose time has come: the same gate, then written ahead."""
    if view.job.deleting:
        return None
    for run in retrying(view):
        unknown = run.reason == OUTCOME_UNKNOWN
        ended = Phase.UNKNOWN if unknown else Phase.FAILED
        allowed = retries_unknown(view, run.uid, run.attempt) if unknown else attempts_left(view, run.uid, run.attempt)
        if not allowed:
            message = "The spec was edited, and retry or the action of now allow no further attempt of this run."
            return WriteRun(run=run, phase=ended, reason="NoAttemptsLeft", message=message)
        if retry_due(view, run) > view.now:
            continue
        shut = closed(view.job, view.spec, view.fleet_paused, view.now, person=not run.scheduled)
        if shut is not None:
            message = f"Attempt {run.attempt} failed ({run.reason}), and another was due while the job was {shut}."
            return WriteRun(run=run, phase=ended, reason=shut, message=message)
        if view.spec.concurrency is ConcurrencyPolicy.ALLOW or not retry_blockers(view.occupants, run):
            return WriteAttempt(run=run, attempt=max(1, run.attempt) + 1)
    return None


def retrying(view: View) -> list[Run]:
    runs = (view.run(entry.uid) for entry in view.job.active if entry.lease == view.lease)
    waiting = [run for run in runs if run is not None and run.phase is Phase.RETRYING]
    idle = [r for r in waiting if not view.remembered(r.uid).running and view.remembered(r.uid).outcome is None]
    return sorted(idle, key=lambda run: run.order)


def retry_due(view: View, run: Run) -> datetime:
    """After a known failure, when its back-off ends; after an unknown one, when it can no longer be going on. Never early."""
    due = launch_at(view, run)
    if run.reason == OUTCOME_UNKNOWN:
        return max(due, view.now + timedelta(seconds=held_until(view, run.uid) - view.boot))
    return max(due, run.next_attempt) if run.next_attempt is not None else due
