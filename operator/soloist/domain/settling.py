"""What happens to a run once nothing more will be launched for it: the books that account for it, and its place in history.

An entry leaves ``active`` only after its outcome is confirmed, that is, read back on the run itself; the same write
accounts for it (counters, last times, ``recent``). An Unknown or Interrupted run is counted at once but stays, since its
action may still be going on, until its time-out has passed.

Good news rides along with the next record if that is near, so that a run costs three writes; bad news is written at once.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TypedDict

from soloist.domain import conditions, launching
from soloist.domain.gate import Standing
from soloist.domain.instants import parse_time
from soloist.domain.runs import Entry, Phase, Run
from soloist.domain.steps import DeleteRun, Step, WriteJob, WriteRun
from soloist.domain.ticks import Reason, base, still_wanted
from soloist.domain.view import View, standing

RIDES_FOR = timedelta(seconds=61)
"""A success is written together with the next record if there is to be one within this time."""

SETTLES_IN = timedelta(seconds=2)
"""Otherwise this long after it, so that runs which end together share a write."""


SPARE = 10
"""Finished runs above a history limit that may wait until the next launch is through."""

PILE = 100
"""And for as long as launches go on: no limit may be higher, so that no edit of one makes so many at once."""


class Riding(TypedDict):
    """The part of a status write that any other write takes along."""

    drop: tuple[str, ...]
    count: tuple[str, ...]


def settle_unrecorded(view: View) -> Step | None:
    """Runs of the schedule that are not in ``active`` and must never be launched."""
    if view.job.deleting:
        return None
    for run in view.runs:
        if run.phase.final or run.deleting or not run.scheduled or run.tick is None:
            continue
        if run.epoch is not None and run.epoch > view.epoch:
            continue  # a later term's; this one may just not know yet that it is over
        if view.job.entry(run.uid) is not None or run.lease != view.lease:
            continue
        if is_superseded(view, run):
            reason = reason_of(view, run.tick) or Reason.SUPERSEDED
            phase = Phase.SUPERSEDED if reason is Reason.SUPERSEDED else Phase.SKIPPED
            return WriteRun(run=run, phase=phase, reason=reason)
        if not view.expected(run) or not still_wanted(view.spec, view.observed, run.tick):
            return WriteRun(run=run, phase=Phase.SKIPPED, reason=Reason.SCHEDULE_CHANGED)
    return None


def is_superseded(view: View, run: Run) -> bool:
    """Its tick is decided and it was not the one recorded for it: the late POST of somebody who no longer leads."""
    return run.tick is not None and view.job.watermark is not None and run.tick <= view.job.watermark


def reason_of(view: View, tick: datetime) -> Reason | None:
    """Why this tick was decided without a run, as far as ``recent`` still says."""
    for line in reversed(view.job.status.get("recent") or ()):
        first, last = parse_time(line.get("first")), parse_time(line.get("last"))
        if first is not None and last is not None and first <= tick <= last and line.get("result") in set(Reason):
            return Reason(line["result"])
    return None


def droppable(view: View, entry: Entry) -> bool:
    """Its outcome is confirmed (or its object gone), and it can no longer be going on."""
    run = view.run(entry.uid)
    ended = run is None or run.phase.final
    return ended and standing(view, entry, run) is Standing.OVER


def countable(view: View, entry: Entry) -> bool:
    """It has ended and must be counted, though it has to stay."""
    run = view.run(entry.uid)
    return not entry.result and run is not None and run.phase.held and not droppable(view, entry)


def riding(view: View) -> Riding:
    return Riding(
        drop=tuple(entry.uid for entry in view.job.active if droppable(view, entry)),
        count=tuple(entry.uid for entry in view.job.active if countable(view, entry)),
    )


def keep_books(view: View) -> Step | None:
    """A status write of its own, where nothing is due soon that it could ride with, or the news is bad or new."""
    books = riding(view)
    unseen = view.job.observed != view.observed or view.job.status.get("observedGeneration") != view.job.generation
    if unseen and not view.job.deleting:
        start = base(view.job, view.observed)
        return WriteJob(watermark=start if view.job.watermark is not None else None, **books)
    moments = list(_flush_moments(view))
    return say_what_is(view) or (WriteJob(**books) if moments and min(moments) <= view.now else None)


def say_what_is(view: View) -> Step | None:
    """The condition ``Scheduled``, as soon as it is another."""
    return WriteJob(**riding(view)) if not conditions.says_what_is(view) and not view.job.deleting else None


def keep_books_only(view: View) -> Step | None:
    """The same for a process that goes away, or a spec that cannot be run: what ended is counted, no tick is looked at."""
    moments = list(_flush_moments(view))
    return WriteJob(books_only=True, **riding(view)) if moments and min(moments) <= view.now else None


def _flush_moments(view: View) -> Iterator[datetime]:
    """When each entry that can go wants to be written."""
    following = view.spec.schedule.next_after(view.now) if view.shut is None else None
    for entry in view.job.active:
        run = view.run(entry.uid)
        if countable(view, entry):
            yield view.now
        elif droppable(view, entry):
            good = run is not None and run.phase is Phase.SUCCEEDED
            if not good or run is None or run.completed is None:
                yield view.now
            elif following is None or following - run.completed > RIDES_FOR or not run.scheduled:
                yield run.completed + SETTLES_IN


def trim(view: View) -> Step | None:
    """History limits: the oldest finished runs that have left ``active``. The watermark remembers them.

    Runs that were never launched are counted by themselves, so that no failure gives way to them. The moment before a launch
    is no time for it, but a job that is always about to launch is trimmed all the same.
    """
    return _oldest(view, spare=SPARE if launching.is_imminent(view) else 0)


def trim_pile(view: View) -> Step | None:
    """Before what leads to the next launch, which would never end where it always comes too late."""
    return _oldest(view, spare=PILE) if len(view.runs) > PILE else None


def _oldest(view: View, *, spare: int) -> Step | None:
    finished = [r for r in view.runs if r.phase.final and view.job.entry(r.uid) is None and not r.deleting]
    ours = sorted(
        (r for r in finished if r.lease in (None, view.lease)), key=lambda r: (r.completed or r.created, r.uid)
    )
    good = [run for run in ours if run.phase is Phase.SUCCEEDED]
    idle = [run for run in ours if run.phase in (Phase.SKIPPED, Phase.SUPERSEDED)]
    bad = [run for run in ours if run.phase is not Phase.SUCCEEDED and run not in idle]
    limits = ((good, view.spec.successful_history), (bad, view.spec.failed_history), (idle, view.spec.failed_history))
    return next((DeleteRun(run=runs[0]) for runs, limit in limits if len(runs) - limit > spare), None)


def wakes(view: View) -> Iterator[datetime]:
    yield from _flush_moments(view)
