"""The life of a tick: claimed ahead -> recorded a moment before -> launched at its time -> outcome.

Why at most one run is launched per (ScheduledJob uid, tick), whatever crashes, freezes, partitions or clocks do:

1. *The record is the right to launch.* One status write, conditional on resourceVersion, moves the watermark past the
   tick and puts (run uid, epoch) into ``active``. Of two leaders that both believe in themselves one loses that write.
   Nothing is launched that its launcher has not recorded, under its own epoch, in this very term.
2. *The watermark never goes back*, and a tick at or below it is never created. A run that turns up there without being
   in ``active`` is somebody's late POST: Superseded, never launched.
3. *A run that an earlier term recorded* is launched again only where it certainly was not: a launcher is never early, so
   an instant that lies strictly after that term's end was not reached. It is then recorded anew, under this epoch, which
   takes the right from the former launcher. Everything else is Unknown, but where a Job or a ledger tells.
4. *Whoever may still be at work is in the way*: an Unknown run, and one that a person deleted, count as running until
   their time-out has passed.
5. *A further attempt is written ahead*, conditionally, before it is launched.

``decide`` looks at the world once and asks for one step; the caller takes it and looks again. What the rules of other
kinds of runs are stands in ``launching``, ``recording``, ``adoption``, ``outcomes`` and ``settling``.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from soloist.domain import adoption, launching, outcomes, recording, settling
from soloist.domain.gate import Standing
from soloist.domain.instants import CLOCKS_DIFFER
from soloist.domain.steps import Step, Stop, Wait
from soloist.domain.ticks import LATE
from soloist.domain.view import View, held_until, launch_at, standing


def decide(view: View) -> Step:
    """The one step that comes next. Launches come first, then what has waited for too long, what leads to launches, and the rest."""
    for rule in RULES:
        step = rule(view)
        if step is not None:
            return step
    return Wait(until=min(wakes(view), default=None))


def launch_now(view: View) -> Step | None:
    """The same step where it comes of one of ``LAUNCHES``; None where another rule has to be asked."""
    return next((step for rule in LAUNCHES if (step := rule(view)) is not None), None)


def finish(view: View) -> Step:
    """While the process goes away: nothing starts, what has ended is written."""
    for rule in (a_newer_term, outcomes.write_outcome, settling.keep_books_only):
        step = rule(view)
        if step is not None:
            return step
    return Wait(until=None)


def settle(view: View) -> Step:
    """While something that leads to a launch is refused: the rest of the job goes on, trimming above all."""
    for rule in (
        a_newer_term,
        outcomes.write_outcome,
        settling.settle_unrecorded,
        settling.say_what_is,
        settling.keep_books_only,
        settling.trim,
    ):
        step = rule(view)
        if step is not None:
            return step
    return Wait(until=None)


def stand_by(view: View) -> Step:
    """The spec cannot be run: nothing starts, and what is under way is settled all the same."""
    for rule in (a_newer_term, adoption.let_go, adoption.adopt, outcomes.write_outcome, settling.keep_books_only):
        step = rule(view)
        if step is not None:
            return step
    return Wait(until=None)


def a_newer_term(view: View) -> Step | None:
    """Evidence, not error: our Lease has passed on. Only a status tells, which few may write; JobRuns many may create."""
    newer = (e for e in view.job.active if e.epoch > view.epoch and e.lease == view.lease and not view.invented(e))
    newest = max((entry.epoch for entry in newer), default=None)
    return Stop(message=f"A run of the later term {newest} exists; this term is {view.epoch}.") if newest else None


def wakes(view: View) -> Iterator[datetime]:
    """The moments at which, nothing else changing, there is something to do."""
    found = view.planned
    moments: list[datetime] = []
    if found.upcoming is not None:
        at = found.upcoming.launch_at
        moments += [at - view.claim_ahead, at - view.record_ahead, at]
    if view.spec.starting_deadline is not None:
        moments += [tick.launch_at + view.spec.starting_deadline + timedelta(milliseconds=1) for tick in found.due]
    moments += [tick.launch_at + LATE for tick in found.due if recording.theirs(view, tick)]
    if found.decided:
        moments.append(found.decided[0][0] + recording.LAZY)
    moments += [launch_at(view, run) for run in launching.launchable(view)]
    moments += [launching.retry_due(view, run) for run in launching.retrying(view)]
    for entry in view.job.active:
        run = view.run(entry.uid)
        if standing(view, entry, run) is Standing.HELD:
            moments.append(view.now + timedelta(seconds=held_until(view, entry.uid) - view.boot))
            if run is not None and entry.lease != view.lease:
                moments.append(launch_at(view, run) + view.spec.timeout)
    if view.job.resumed_at is not None:
        moments.append(view.job.resumed_at - CLOCKS_DIFFER)
    moments += settling.wakes(view)
    return (moment for moment in moments if moment > view.now)


LAUNCHES = (a_newer_term, launching.launch)
"""The first of ``RULES``."""

RULES = (
    *LAUNCHES,
    adoption.adopt,
    outcomes.write_overdue,
    settling.trim_pile,
    launching.write_attempt,
    recording.record,
    recording.record_person,
    recording.claim,
    outcomes.write_outcome,
    settling.settle_unrecorded,
    settling.keep_books,
    settling.trim,
)
"""In this order. Each looks at the whole view and asks for one step, or has nothing to say."""
