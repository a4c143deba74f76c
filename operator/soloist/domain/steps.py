"""The steps that the rules may ask for. One at a time: after each, the world is read again."""

from dataclasses import dataclass
from datetime import datetime

from soloist.domain.runs import Entry, Phase, Run
from soloist.domain.ticks import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A later term of our Lease has written here: this process no longer leads, whatever it believes."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRun:
    """Claim a tick: create its JobRun, Pending, under the name that the tick gives it."""

    tick: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """The one write on the ScheduledJob's status: move the watermark, change ``active``, account for what ended.

    ``add`` is the right to launch those runs. ``decided`` are ticks without a run. ``drop`` leave ``active``;
    ``count`` have ended but must stay. ``books_only``: the schedule was not looked at, so nothing is said of it.
    """

    watermark: datetime | None = None
    add: tuple[Entry, ...] = ()
    drop: tuple[str, ...] = ()
    count: tuple[str, ...] = ()
    decided: tuple[tuple[datetime, Reason], ...] = ()
    books_only: bool = False

    @property
    def ticks(self) -> int:
        """How many ticks it decides: those without a run, and the one whose run is recorded; a run recorded anew has had its tick."""
        recorded = sum(entry.tick is not None and entry.tick == self.watermark for entry in self.add)
        return len(self.decided) + recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Make ready, ahead of its time, what does nothing by itself."""

    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Start attempt ``attempt``, now. It is recorded (or written ahead), due and wanted."""

    run: Run
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAttempt:
    """Write attempt n >= 2 ahead: with its precondition, this is the right to launch it."""

    run: Run
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """One definite write to a run that somebody else, or a write of one's own whose reply was lost, may still write to.

    Whatever arrives after it fails by its precondition; so nobody's late "Skipped" ends a run that is under way.
    """

    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRun:
    """Write where a run stands, with its reason; ``attempt`` 0 leaves that as it is."""

    run: Run
    phase: Phase
    reason: str
    message: str = ""
    attempt: int = 0
    next_attempt: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """End an action that this process has going."""

    uid: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect:
    """Ask the world what became of a run that an earlier term recorded (a Job tells)."""

    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRun:
    """Trim a finished run that has left ``active``."""

    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do before this moment on the term clock, unless something changes. None: until something changes."""

    until: datetime | None


Step = (
    Stop
    | CreateRun
    | WriteJob
    | Prepare
    | Launch
    | WriteAttempt
    | TakeOver
    | WriteRun
    | Cancel
    | Inspect
    | DeleteRun
    | Wait
)
