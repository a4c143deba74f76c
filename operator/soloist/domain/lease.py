"""What a Lease says, read out of the raw object.

What people or strangers wrote there is read as if it were absent where it makes no sense: it may cost a wait, never a crash.

``epoch`` numbers the terms and only ever rises. ``term-ends`` keeps (epoch, end) of terms that are over, the end being on
that term's own clock: as stamped by its release, else as late as its holder can have trusted itself.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from soloist.domain.term import MIN_MARGIN_SHARE

Raw = dict[str, Any]

EPOCH = "soloist.dev/epoch"
TERM_ENDS = "soloist.dev/term-ends"
NONCE = "soloist.dev/nonce"
HOLDER_POD = "soloist.dev/holder-pod"
RELEASED = "soloist.dev/released"
PAUSED = "soloist.dev/paused"

_MOST_EPOCH = int(datetime(9000, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The Lease as the server has it, None where it says that there is none; ``server_time`` is its Date, whole seconds."""

    lease: Raw | None
    server_time: datetime | None


@dataclass(frozen=True, slots=True)
class Clash:
    """409: somebody wrote in between, the name is taken, or the uid is another. What one's own write did is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """One reading of the Lease. ``holder`` is empty where nobody has it."""

    uid: str
    holder: str
    duration: float
    acquire_time: datetime | None
    renew_time: datetime | None
    transitions: int
    nonce: str | None
    epoch: int | None
    released_end: datetime | None
    term_ends: Mapping[int, datetime]
    fleet_paused: str | None
    raw: Raw = field(compare=False, repr=False)

    @property
    def released(self) -> bool:
        """Given back by its holder, or by the parent that saw the holder dead; a holder blanked by hand is not that."""
        return not self.holder and self.released_end is not None

    @property
    def own_words(self) -> bool:
        """Whether spec and epoch come from one hand: every identity of ours ends in the nonce, and a release names the epoch."""
        return self.released or (bool(self.holder) and self.nonce is not None and self.holder.endswith(self.nonce))

    @property
    def words(self) -> object:
        """What only a holder changes: a stranger's label or annotation is no sign of life."""
        spec = (self.holder, self.duration, self.acquire_time, self.renew_time)
        return (self.uid, self.nonce, self.epoch, spec)

    @property
    def highest_epoch(self) -> int:
        """The highest number that was ever given, as far as the Lease knows."""
        return max(self.epoch or 0, *self.term_ends, 0)

    def end(self, lease: float) -> datetime | None:
        """When the term of this record's epoch is over at the latest, on its own clock."""
        if self.released_end is not None or self.renew_time is None or not self.own_words:
            return self.released_end
        return self.renew_time + timedelta(seconds=max(lease, self.duration) * (1 - MIN_MARGIN_SHARE))


def parse(raw: Raw) -> LeaseRecord:
    """Read a Lease as the API server gave it."""
    metadata, spec = raw.get("metadata") or {}, raw.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    epoch = _epoch(annotations.get(EPOCH))
    return LeaseRecord(
        uid=str(metadata.get("uid", "")),
        holder=str(spec.get("holderIdentity") or ""),
        duration=float(spec.get("leaseDurationSeconds") or 0),
        acquire_time=instant(spec.get("acquireTime")),
        renew_time=instant(spec.get("renewTime")),
        transitions=int(spec.get("leaseTransitions") or 0),
        nonce=annotations.get(NONCE),
        epoch=epoch,
        released_end=_released_end(annotations.get(RELEASED), epoch),
        term_ends=_term_ends(annotations.get(TERM_ENDS)),
        fleet_paused=_paused(annotations.get(PAUSED)),
        raw=raw,
    )


def instant(text: object) -> datetime | None:
    """The aware time that ``text`` is; None where it is none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None and 1970 <= moment.year < 9000 else None


def _epoch(value: object) -> int | None:
    try:
        number = int(str(value))
    except ValueError:
        return None
    return number if 0 < number < _MOST_EPOCH else None


def _released_end(text: str | None, epoch: int | None) -> datetime | None:
    said = _json(text)
    if not isinstance(said, dict) or epoch is None or _epoch(said.get("epoch")) != epoch:
        return None
    return instant(said.get("end"))


def _term_ends(text: str | None) -> Mapping[int, datetime]:
    said = _json(text)
    pairs = [pair for pair in said if isinstance(pair, list) and len(pair) == 2] if isinstance(said, list) else []
    read = [(_epoch(epoch), instant(end)) for epoch, end in pairs]
    return {epoch: end for epoch, end in read if epoch is not None and end is not None}


def _paused(text: str | None) -> str | None:
    return None if text is None or text.strip().lower() == "false" else (text or "true")


def _json(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
