"""Which ticks of a schedule are still to be decided, and which of them are let go, with the reason.

Every tick up to ``watermark`` is decided. What lies between it and now is undecided: a tick that this term had claimed
before its time is simply due; the others were *missed* (nobody led, or the leader was late) and ``missedRunPolicy``
chooses among them. No tick at or before ``since`` is ever looked at, so an edit, a resume or a re-apply starts nothing
that lies before it (kubernetes/kubernetes#63371, #130838; furiko-io/furiko#50).

Each rule is one small function; ``plan`` puts them in order.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from soloist.domain.instants import CLOCKS_DIFFER
from soloist.domain.jitter import jitter
from soloist.domain.runs import Job, Observed
from soloist.domain.schedule import DaylightSaving, Schedule, parse_schedule
from soloist.domain.spec import MissedRunPolicy, Spec

LATE = timedelta(seconds=15)
"""How late the newest tick may be and still count as late, not missed: one hand-over after a crash, and some."""

COUNTED = 100
"""So many undecided ticks are looked at one by one, the newest; of more, only that they were."""


class Reason(StrEnum):
    """Why a tick has no launched run. Each is a word of the API, documented in the README."""

    SUSPENDED = "Suspended"
    PAUSED = "Paused"
    FLEET_PAUSED = "FleetPaused"
    MISSED = "Missed"
    TOO_MANY_MISSED = "TooManyMissed"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    BLOCKED = "Blocked"
    QUEUED_BEHIND_NEWER = "QueuedBehindNewer"
    NAME_TAKEN = "NameTaken"
    INVALID = "Invalid"
    SCHEDULE_CHANGED = "ScheduleChanged"
    SUPERSEDED = "Superseded"
    CANCELLED = "Cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One planned instant. ``launch_at`` is the tick and its jitter: nothing happens before it."""

    at: datetime
    launch_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Like ticks in a row that have no run, folded."""

    reason: Reason
    first: datetime
    last: datetime
    count: int = 1
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``due``: to be gated and launched, in order. ``decided``: let go, each with its reason, in order."""

    decided: tuple[tuple[datetime, Reason], ...] = ()
    due: tuple[Tick, ...] = ()
    upcoming: Tick | None = None


def observe(job: Job, spec: Spec, now: datetime) -> Observed:
    """What is observed now. ``since`` stays where it was unless schedule, zone, policy or suspend really changed."""
    spoiled = job.observed is not None and job.observed.since > now + CLOCKS_DIFFER
    if job.observed is not None and job.observed.same_as(spec) and not spoiled:
        return job.observed
    return Observed(
        schedule=spec.schedule_text,
        time_zone=spec.time_zone,
        daylight_saving=str(spec.daylight_saving),
        suspend=spec.suspend,
        since=now if spoiled else _changed_at(job, now),
    )


def _changed_at(job: Job, now: datetime) -> datetime:
    """When the schedule became what it is: at creation, at the last write that anybody made to the object, or now."""
    if job.observed is None and job.generation == 1:
        return min(job.created, now)
    known = job.edited if job.edited is not None else now
    floor = job.observed.since if job.observed is not None else job.created
    return max(min(known, now), floor)


def decided_ahead(job: Job, now: datetime) -> datetime | None:
    """The watermark, where it lies in the future: written by hand, or under a clock that was set back since.

    It never goes back by itself, so until its time comes nothing of the schedule runs, and people must be told.
    """
    return job.watermark if job.watermark is not None and job.watermark > now + CLOCKS_DIFFER else None


def base(job: Job, observed: Observed) -> datetime:
    """Ticks strictly after this are undecided."""
    return max(observed.since, job.watermark) if job.watermark is not None else observed.since


def newest(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    """The newest ``COUNTED`` ticks. Of more also the oldest: none of them is run, and the line that folds them spans all."""
    found = schedule.newest(after=after, until=until, limit=COUNTED)
    oldest = schedule.next_after(after) if len(found) == COUNTED else None
    return found if oldest is None or oldest == found[0] else [oldest, *found]


def left_behind(job: Job, observed: Observed) -> tuple[tuple[datetime, Reason], ...]:
    """Ticks of the former schedule that were undecided when it was changed: nobody will run them, so say so."""
    before = job.observed
    if before is None or before.since >= observed.since:
        return ()
    try:
        schedule = parse_schedule(before.schedule, before.time_zone, DaylightSaving(before.daylight_saving))
    except ValueError:
        return ()
    after = max(before.since, job.watermark) if job.watermark is not None else before.since
    reason = Reason.SUSPENDED if before.suspend else Reason.SCHEDULE_CHANGED
    return tuple((at, reason) for at in newest(schedule, after, observed.since))


def in_pause(
    job: Job, spec: Spec, observed: Observed, until: datetime, reason: Reason
) -> list[tuple[datetime, Reason]]:
    """Undecided ticks that passed while the job was paused, up to the end of the pause."""
    return [(at, reason) for at in newest(spec.schedule, base(job, observed), until)]


def tick_of(job: Job, spec: Spec, at: datetime) -> Tick:
    if not spec.jitter:
        return Tick(at=at, launch_at=at)
    return Tick(at=at, launch_at=at + jitter(job.uid, at, spec.jitter, spec.schedule.next_after(at)))


def still_wanted(spec: Spec, observed: Observed, at: datetime) -> bool:
    """``at`` is a tick of the schedule as it now is, and lies after the schedule became so."""
    return at > observed.since and spec.schedule.next_after(at - timedelta(seconds=1)) == at


def plan(
    job: Job,
    spec: Spec,
    observed: Observed,
    now: datetime,
    *,
    claimed: Collection[datetime] = (),
    waiting: bool = False,
    closed: Reason | None = None,
    after: datetime | None = None,
    queued_after: datetime | None = None,
) -> Plan:
    """Sort the undecided ticks. ``claimed``: those for which a run stood ready before their time; ``waiting``: something holds them up under
    Queue; ``closed``: nothing may start (suspended, paused), so that each is let go at its time; ``after``: those up to
    there are let go elsewhere; ``queued_after``: those after that which a newer one passes over waited for their turn.

    ``upcoming`` is the next tick whose time has not come.
    """
    start = max(base(job, observed), after) if after is not None else base(job, observed)
    undecided = [tick_of(job, spec, at) for at in newest(spec.schedule, start, now)]
    pending = [tick for tick in undecided if tick.launch_at > now]
    past = [tick for tick in undecided if tick.launch_at <= now]
    following = spec.schedule.next_after(max(now, start))
    upcoming = pending[0] if pending else (tick_of(job, spec, following) if following is not None else None)
    if closed is not None:
        return Plan(decided=tuple((tick.at, closed) for tick in past), upcoming=upcoming)
    kept, let_go = _choose(spec, past, now, claimed, waiting, queued_after)
    alive, expired = _within_deadline(spec, kept, now)
    decided = [*let_go, *((tick, Reason.DEADLINE_EXCEEDED) for tick in expired)]
    in_order = tuple(sorted((tick.at, reason) for tick, reason in decided))
    return Plan(decided=in_order, due=tuple(alive), upcoming=upcoming)


def _choose(
    spec: Spec,
    past: list[Tick],
    now: datetime,
    claimed: Collection[datetime],
    waiting: bool,
    queued_after: datetime | None,
) -> tuple[list[Tick], list[tuple[Tick, Reason]]]:
    """missedRunPolicy. A tick with a run standing ready was not missed; the newest of all is late, not missed, for a while."""
    ready = [tick for tick in past if tick.at in claimed]

    def passed_over(tick: Tick) -> Reason:
        queued = waiting or (queued_after is not None and tick.at > queued_after)
        return Reason.QUEUED_BEHIND_NEWER if queued else Reason.MISSED

    missed = [tick for tick in past if tick.at not in claimed]
    match spec.missed:
        case MissedRunPolicy.RUN_ALL:
            keep = missed[-spec.max_missed_runs :]
            return _in_order([*ready, *keep]), [(t, Reason.TOO_MANY_MISSED) for t in missed if t not in keep]
        case MissedRunPolicy.RUN_LATEST:
            keep = [tick for tick in missed[-1:] if tick is past[-1]]
        case MissedRunPolicy.SKIP:
            keep = [tick for tick in missed[-1:] if tick is past[-1] and (waiting or now - tick.launch_at <= LATE)]
    return _in_order([*ready, *keep]), [(t, passed_over(t)) for t in missed if t not in keep]


def _within_deadline(spec: Spec, ticks: list[Tick], now: datetime) -> tuple[list[Tick], list[Tick]]:
    """startingDeadlineSeconds, counted from the tick and its jitter."""
    if spec.starting_deadline is None:
        return ticks, []
    limit = spec.starting_deadline
    return [t for t in ticks if now - t.launch_at <= limit], [t for t in ticks if now - t.launch_at > limit]


def fold(decided: Iterable[tuple[datetime, Reason]]) -> tuple[Decided, ...]:
    """Like reasons in a row become one line."""
    result: list[Decided] = []
    for at, reason in decided:
        if result and result[-1].reason is reason:
            result[-1] = replace(result[-1], last=at, count=result[-1].count + 1)
        else:
            result.append(Decided(reason=reason, first=at, last=at))
    return tuple(result)


def _in_order(ticks: list[Tick]) -> list[Tick]:
    return sorted(ticks, key=lambda tick: tick.at)
