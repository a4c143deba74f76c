"""One gate for every launch: scheduled, missed, manual, backfilled and retried runs alike.

Who stands in the way, and what the policy makes of it. A run of one's own that is recorded but not yet launched blocks
nobody: such runs are settled in order, each at its own instant. A waiting retry blocks later runs, but is itself blocked
only by an action that is going on and by *earlier* runs; else two waiting ones would block each other for ever.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from soloist.domain.instants import CLOCKS_DIFFER
from soloist.domain.runs import Job, Run
from soloist.domain.spec import ConcurrencyPolicy, Spec
from soloist.domain.ticks import Reason
from soloist.domain.told import told

MOST_ACTIVE = 50
"""Runs of one job at one time, under Allow too: one job must not take the connections of all, nor outgrow its status."""


class Standing(StrEnum):
    """How a run in ``active`` counts for the others."""

    UNLAUNCHED = "unlaunched"
    GOING = "going"
    WAITING = "waiting"
    HELD = "held"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A run in ``active``, or an entry whose object is gone (``run`` is None); ``mine``: this process can cancel it."""

    uid: str
    run: Run | None
    standing: Standing
    mine: bool = False


class Verdict(StrEnum):
    """What the gate says."""

    GO = "go"
    WAIT = "wait"
    CANCEL_FIRST = "cancel first"
    SKIP = "skip"


def closed(job: Job, spec: Spec, fleet_paused: bool, now: datetime, *, person: bool = False) -> Reason | None:
    """Why nothing may start at all. What a person starts ignores the job's own suspend and pause, not the fleet's."""
    if fleet_paused:
        return Reason.FLEET_PAUSED
    if person:
        return None
    if spec.suspend:
        return Reason.SUSPENDED
    if job.paused is not None or still_auto_paused(job, now):
        return Reason.PAUSED
    return None


def told_closed(job: Job, lease: str) -> Reason | None:
    """Paused or FleetPaused where the job's status says so, be it over by now; of the fleet that ``lease`` leads."""
    said = told(job.status, "Scheduled")
    if said.get("reason") == Reason.PAUSED:
        return Reason.PAUSED
    if said.get("reason") == Reason.FLEET_PAUSED and said.get("message") == fleet_pause_of(lease):
        return Reason.FLEET_PAUSED
    return None


def fleet_pause_of(lease: str) -> str:
    """The sentence of the condition ``Scheduled``."""
    return f"All jobs of this installation are paused, by an annotation on its Lease {lease}."


def still_auto_paused(job: Job, now: datetime) -> bool:
    """pauseAfterFailures struck, and nobody has resumed the job since: a resume names the pause's own time, or a later one."""
    if job.auto_paused is None or job.resumed_at == job.auto_paused:
        return False
    resumed = resumed_by(job, now)
    return resumed is None or resumed < job.auto_paused


def resumed_by(job: Job, now: datetime) -> datetime | None:
    """When a person last resumed it, if that time has come, or is near: it may be of a clock that is ahead."""
    return job.resumed_at if job.resumed_at is not None and job.resumed_at <= now + CLOCKS_DIFFER else None


def blockers(occupants: Iterable[Occupant], run: Run | None) -> tuple[Occupant, ...]:
    """Who is in the way of a first launch of ``run`` (None: of a tick that has no run yet)."""
    uid = run.uid if run is not None else None
    counts = (Standing.GOING, Standing.WAITING, Standing.HELD)
    return tuple(other for other in occupants if other.uid != uid and other.standing in counts)


def retry_blockers(occupants: Iterable[Occupant], run: Run) -> tuple[Occupant, ...]:
    """Who is in the way of a further attempt: what is going on or may be, and earlier runs that wait as well."""
    return tuple(
        other
        for other in occupants
        if other.uid != run.uid
        and (
            other.standing in (Standing.GOING, Standing.HELD)
            or (other.standing is Standing.WAITING and other.run is not None and other.run.order < run.order)
        )
    )


def judge(spec: Spec, blocking: tuple[Occupant, ...], *, patient: bool = False) -> Verdict:
    """concurrencyPolicy. ``patient``: a missed tick under RunAll waits for its turn where an ordinary one is skipped."""
    if not blocking:
        return Verdict.GO
    if spec.concurrency is ConcurrencyPolicy.ALLOW:
        return Verdict.GO if len(blocking) < MOST_ACTIVE else Verdict.SKIP
    match spec.concurrency:
        case ConcurrencyPolicy.FORBID:
            return Verdict.WAIT if patient else Verdict.SKIP
        case ConcurrencyPolicy.QUEUE:
            return Verdict.WAIT
        case ConcurrencyPolicy.REPLACE:
            cancellable = all(other.mine or other.standing is Standing.WAITING for other in blocking)
            return Verdict.CANCEL_FIRST if cancellable else Verdict.WAIT
    return Verdict.GO
