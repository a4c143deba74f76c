"""Runs that an earlier term of this Lease recorded and left without an outcome.

A Job tells what became of it; whoever is told that it was not started has taken it from its former launcher. A ledger tells
whether a transaction was committed, once the earlier term can commit no more; what was not is launched again, as the same
attempt, since nothing of it is left. Of an HTTP call nobody can tell, unless its instant lies strictly after the end of the
term that recorded it: then it was not launched. It is recorded anew before anything else, so that its former launcher, should
it still live, has lost the right. Everything else is Unknown, and ``onUnknown`` says whether another attempt is wanted;
that attempt comes only when the former one can no longer be going on.

A run of another installation (another Lease) is left alone.
"""

from dataclasses import replace

from soloist.domain.recording import unprepared
from soloist.domain.retry import OnUnknown
from soloist.domain.runs import Entry, Phase, Run
from soloist.domain.steps import Inspect, Prepare, Step, TakeOver, WriteAttempt, WriteJob, WriteRun
from soloist.domain.ticks import Reason
from soloist.domain.view import (
    OUTCOME_UNKNOWN,
    View,
    a_job_tells,
    not_launched,
    ours_alone,
    retries_unknown,
    the_ledger_tells,
)


def adopt(view: View) -> Step | None:
    """The first run in ``active`` that this term must make up its mind about."""
    for entry in view.job.active:
        run = view.run(entry.uid)
        if run is None or run.phase.final or not view.inherited(entry) or _in_hand(view, run):
            continue
        step = _decide_one(view, entry, run)
        if step is not None:
            return step
    return None


def let_go(view: View) -> Step | None:
    """Runs that wait for a launch which cannot come, the spec being what it is: each ends, with that reason."""
    for entry in view.job.active:
        run = view.run(entry.uid)
        if run is None or run.phase.final or entry.lease != view.lease:
            continue
        ahead = run.phase is Phase.RUNNING and run.attempt_epoch == view.epoch
        if _busy(view, run) or (ahead and view.remembered(run.uid).launched >= run.attempt):
            continue
        if run.phase is Phase.RETRYING or ahead:
            phase = Phase.UNKNOWN if run.reason == OUTCOME_UNKNOWN else Phase.FAILED
            return WriteRun(run=run, phase=phase, reason=Reason.INVALID)
        known = view.remembered(run.uid)
        mine = (view.mine(entry) and not known.launched) or known.not_launched
        if run.phase is Phase.PENDING and (mine or not_launched(view, entry, run)):
            return WriteRun(run=run, phase=Phase.SKIPPED, reason=Reason.INVALID)
    for run in view.runs:
        if not run.scheduled and run.phase is Phase.PENDING and view.job.entry(run.uid) is None and not run.deleting:
            return WriteRun(run=run, phase=Phase.SKIPPED, reason=Reason.INVALID)
    return None


def _in_hand(view: View, run: Run) -> bool:
    """This process is at it already: launched, written ahead, cancelled, or waiting for what the world says."""
    return _busy(view, run) or (run.attempt >= 2 and run.attempt_epoch == view.epoch)


def _busy(view: View, run: Run) -> bool:
    known = view.remembered(run.uid)
    return known.running or known.outcome is not None or known.cancelled is not None or known.inspecting


def _decide_one(view: View, entry: Entry, run: Run) -> Step | None:
    if run.phase is Phase.RETRYING:
        return None
    undone = view.remembered(run.uid).not_launched
    if run.phase is Phase.PENDING and (undone or not_launched(view, entry, run)):
        return record_anew(view, entry, run)
    if undone and the_ledger_tells(entry):
        return WriteAttempt(run=run, attempt=run.attempt)
    if not undone and (a_job_tells(entry) or the_ledger_tells(entry)):
        return Inspect(run=run)
    return nobody_knows(
        view, run, "The process that recorded this run ended, and whether it made the call is not known."
    )


def record_anew(view: View, entry: Entry, run: Run) -> Step:
    """Take the right to launch from whoever had it: the same entry under this epoch, with the Job that it names, if any."""
    if not ours_alone(view, run):
        return TakeOver(run=run)
    if a_job_tells(entry) and not entry.prepared and unprepared(view, run):
        return Prepare(run=run)
    prepared = entry.prepared or view.remembered(run.uid).made
    return WriteJob(add=(replace(entry, epoch=view.epoch, lease=view.lease, prepared=prepared),), books_only=True)


def nobody_knows(view: View, run: Run, message: str) -> WriteRun:
    """Unknown for good, or, if another attempt is wanted and left, waiting for the day when the last one must be over."""
    attempt = max(1, run.attempt)
    if retries_unknown(view, run.uid, attempt):
        return WriteRun(run=run, phase=Phase.RETRYING, reason=OUTCOME_UNKNOWN, message=message, attempt=attempt)
    used_up = attempt >= view.spec.retry.max_attempts
    wanted = view.spec.retry.on_unknown is OnUnknown.RETRY
    phase = Phase.INTERRUPTED if used_up and (wanted or attempt > 1) else Phase.UNKNOWN
    return WriteRun(run=run, phase=phase, reason=OUTCOME_UNKNOWN, message=message, attempt=attempt)
