"""ScheduledJobs and JobRuns as the rules see them: parsed once per resourceVersion, then only read.

``Entry`` is one line of ``status.active``: the right to launch, and who holds it. "In active" means that very uid.
``Memory`` is what this process alone knows of a run; it dies with the process, and nothing that must survive is in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from soloist.domain.actions import Outcome
from soloist.domain.instants import stamp
from soloist.domain.spec import Invalid, Spec

Raw = Mapping[str, Any]


class Phase(StrEnum):
    """Where a run stands. The first three are unfinished; the rest are final."""

    PENDING = "Pending"
    RUNNING = "Running"
    RETRYING = "Retrying"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    INTERRUPTED = "Interrupted"
    SUPERSEDED = "Superseded"
    SKIPPED = "Skipped"
    CANCELLED = "Cancelled"

    @property
    def final(self) -> bool:
        return self not in (Phase.PENDING, Phase.RUNNING, Phase.RETRYING)

    @property
    def held(self) -> bool:
        """Its action may still be going on somewhere, so it counts as running until its time-out has passed."""
        return self in (Phase.UNKNOWN, Phase.INTERRUPTED)


class Trigger(StrEnum):
    """Why a run exists. Only ``SCHEDULE`` has a tick that the watermark knows."""

    SCHEDULE = "Schedule"
    MANUAL = "Manual"
    BACKFILL = "Backfill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded run in ``status.active``; ``tick`` is None where the run is not of the schedule.

    ``launch_at``, ``timeout`` and ``action`` are as they were when it was recorded: an edit since then changes neither when
    its launcher could act at the earliest, nor for how long, nor what kind of thing it may have started.
    ``ledger`` is where a transaction of it is recorded, empty for other actions; an edit that moves it is recorded before
    anything is launched there. ``prepared`` is the uid of the Job that stood ready for it before it was recorded.
    ``result`` is set once the run has ended and been counted, where it must stay all the same (Unknown, Interrupted).
    """

    run: str
    uid: str
    tick: datetime | None
    epoch: int
    lease: str
    launch_at: datetime | None = None
    timeout: timedelta | None = None
    action: str = "http"
    ledger: str = ""
    prepared: str = ""
    result: str = ""

    def to_raw(self) -> dict[str, Any]:
        raw: dict[str, Any] = {"run": self.run, "uid": self.uid, "epoch": self.epoch, "lease": self.lease}
        raw["action"] = self.action
        if self.launch_at is not None:
            raw["launchTime"] = stamp(self.launch_at)
        if self.timeout is not None:
            raw["timeoutSeconds"] = int(self.timeout.total_seconds())
        if self.ledger:
            raw["ledger"] = self.ledger
        if self.prepared:
            raw["prepared"] = self.prepared
        if self.result:
            raw["result"] = self.result
        if self.tick is not None:
            raw["scheduledTime"] = stamp(self.tick)
        return raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The schedule as it was last looked at, and since when it has been so. No tick at or before ``since`` ever runs."""

    schedule: str
    time_zone: str
    daylight_saving: str
    suspend: bool
    since: datetime

    def same_as(self, spec: Spec) -> bool:
        return (self.schedule, self.time_zone, self.daylight_saving, self.suspend) == (
            spec.schedule_text,
            spec.time_zone,
            str(spec.daylight_saving),
            spec.suspend,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A ScheduledJob. ``edited`` is the latest time at which anybody wrote its spec or metadata, where that is known."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    created: datetime
    edited: datetime | None = None
    deleting: bool = False
    paused: str | None = None
    resumed_at: datetime | None = None
    spec: Spec | Invalid
    observed: Observed | None = None
    watermark: datetime | None = None
    active: tuple[Entry, ...] = ()
    auto_paused: datetime | None = None
    status: Raw = field(default_factory=dict)

    def entry(self, uid: str) -> Entry | None:
        return next((entry for entry in self.active if entry.uid == uid), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A JobRun. ``lease`` is "namespace/name" of the installation that made it, None for one that a person made."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    job_uid: str | None
    job_name: str
    trigger: Trigger
    tick: datetime | None
    lease: str | None
    epoch: int | None
    created: datetime
    phase: Phase = Phase.PENDING
    reason: str = ""
    attempt: int = 0
    attempt_epoch: int = 0
    timeout: timedelta | None = None
    taken_by: int = 0
    next_attempt: datetime | None = None
    completed: datetime | None = None
    deleting: bool = False

    @property
    def scheduled(self) -> bool:
        return self.trigger is Trigger.SCHEDULE

    @property
    def order(self) -> tuple[int, datetime, datetime, str]:
        """Ticks in their order, then what people started, in theirs."""
        if self.scheduled and self.tick is not None:
            return (0, self.tick, self.created, self.uid)
        return (1, self.created, self.tick or self.created, self.uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What this process knows of a run of its own: the last attempt it launched, when, and what came of it.

    ``in_doubt``: a write of its own to the run may still arrive. ``prepared``: to make it ready was tried; ``made`` is the uid of
    what stands ready, where that is known.
    ``seen_boot``: when what came of it was seen; launches go before that for ``patience`` seconds.
    ``settled`` is the final phase that it wrote, should a person delete the run before it is accounted for.
    """

    launched: int = 0
    sent_boot: float = 0.0
    running: bool = False
    outcome: Outcome | None = None
    cancelled: str | None = None
    seen_boot: float = 0.0
    patience: float = 0.0
    not_launched: bool = False
    inspecting: bool = False
    prepared: bool = False
    made: str = ""
    settled: Phase | None = None
    in_doubt: bool = False


NOTHING = Memory()
