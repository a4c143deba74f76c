"""What this process saw of a run, onto the run: its outcome, that it was cancelled, or that a person deleted it.

A known failure with attempts left becomes a wait for the next one, written at once, so that a hand-over during the
back-off keeps it known. What nobody knows goes the way of every unknown outcome (``adoption``).

What leads to the next launch comes before all of that, but not for ever: a job whose next tick is always due already would write
no outcome at all, and have no attempt made again.
"""

from soloist.domain import adoption
from soloist.domain.actions import FailedKnown, Succeeded, UnknownOutcome
from soloist.domain.gate import Standing
from soloist.domain.runs import Memory, Phase, Run
from soloist.domain.steps import Cancel, Step, WriteRun
from soloist.domain.ticks import Reason
from soloist.domain.view import View, a_job_tells, attempts_left, retries_unknown, standing


def write_overdue(view: View) -> Step | None:
    """The one that was seen first, once it has waited for long enough.

    One that cannot be written makes those behind it wait as well, twice as long each time, so that launches go on.
    """
    first, since = None, view.boot
    for entry in view.job.active:
        known = view.remembered(entry.uid)
        if (known.outcome is not None or known.cancelled is not None) and known.seen_boot < since:
            run = view.run(entry.uid)
            if run is not None and not run.phase.final:
                first, since = run, known.seen_boot
    if first is None or view.boot - since < view.remembered(first.uid).patience:
        return None
    return _written(view, first)


def write_outcome(view: View) -> Step | None:
    """What this process saw, onto the run."""
    for run in sorted(view.runs, key=lambda r: r.order):
        step = _written(view, run)
        if step is not None:
            return step
    return _gone(view)


def _written(view: View, run: Run) -> Step | None:
    known = view.remembered(run.uid)
    if known.running and run.deleting:
        return Cancel(uid=run.uid, reason=Reason.CANCELLED)
    if run.phase.final or known.running:
        return None
    if known.cancelled is not None:
        return WriteRun(run=run, phase=Phase.CANCELLED, reason=known.cancelled, attempt=known.launched)
    return _outcome(view, run, known) if known.outcome is not None else None


def _gone(view: View) -> Step | None:
    """A run that a person deleted: the call that this process has going is given up, the Job is stopped."""
    present = {run.uid for run in view.runs}
    for entry in view.job.active:
        if entry.uid in present or entry.lease != view.lease:
            continue
        going = standing(view, entry, None) is Standing.HELD and a_job_tells(entry)
        known = view.remembered(entry.uid)
        if known.running or known.inspecting or going:
            return Cancel(uid=entry.uid, reason=Reason.CANCELLED)
    return None


def _outcome(view: View, run: Run, known: Memory) -> WriteRun:
    attempt = max(1, known.launched or run.attempt)
    match known.outcome:
        case FailedKnown() as failed if failed.retryable and attempts_left(view, run.uid, attempt):
            at = view.now + view.spec.retry.delay_after(attempt, failed.retry_after)
            return WriteRun(
                run=run,
                phase=Phase.RETRYING,
                reason=failed.reason,
                message=failed.message,
                attempt=attempt,
                next_attempt=at,
            )
        case FailedKnown() as failed:
            return WriteRun(run=run, phase=Phase.FAILED, reason=failed.reason, message=failed.message, attempt=attempt)
        case UnknownOutcome() as unknown:
            if retries_unknown(view, run.uid, attempt):
                return adoption.nobody_knows(view, run, unknown.message)
            phase = Phase.UNKNOWN
            return WriteRun(run=run, phase=phase, reason=unknown.reason, message=unknown.message, attempt=attempt)
        case Succeeded() | None:
            said = known.outcome.message if known.outcome is not None else ""
            return WriteRun(run=run, phase=Phase.SUCCEEDED, reason="", message=said, attempt=attempt)
