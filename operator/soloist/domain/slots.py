"""Slots of an application's own timer: which one may be granted now, and why others were not. Pure.

A slot is a multiple of the timer's period since the Unix epoch, so every replica agrees on them. It may be granted from its
time until the next one's. Why none is granted twice:

* A grant is recorded on the Lease before it is handed out, by a write that holds only if nothing was written since a
  reading in which this very term had the Lease. ``last`` in that record only rises, and a slot must be later than it.
* Where nothing is remembered (the timer is new, or the Lease was deleted with what it knew) a slot must have begun in this
  term, which would know. The clocks of two holders may be apart by twice the tolerance, and that much later it must be.

Everything is counted on the term clock, which neither steps nor goes back, so no slot is granted before its time but for
the tolerance of clocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from soloist.domain.every import Every
from soloist.domain.instants import stamp
from soloist.domain.lease_writes import CLOCK_TOLERANCE
from soloist.domain.slot_memory import MOST_LINES, Memory, Missed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DOUBT = 2 * CLOCK_TOLERANCE


class SlotReason(StrEnum):
    """Why a slot was not granted: to one who asks, or (the last three) to anybody."""

    NOT_HOLDER = "NotHolder"
    GIVEN_UP = "GivenUp"
    ALREADY_GRANTED = "AlreadyGranted"
    NO_MEMORY = "NoMemory"
    TERM_ENDED = "TermEnded"
    TOO_MANY_TIMERS = "TooManyTimers"
    NOT_RECORDED = "NotRecorded"
    NOT_ASKED = "NotAsked"
    NO_HOLDER = "NoHolder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """``name`` is what its memory is kept under: two timers of an application need two."""

    name: str
    every: Every

    def slot(self, now: datetime) -> datetime:
        """The one that has begun and not ended."""
        return self.time(self.number(now))

    def number(self, moment: datetime) -> int:
        """The number, counted from the epoch, of the slot in which ``moment`` lies."""
        return (moment - _EPOCH) // self.every.period

    def time(self, number: int) -> datetime:
        """When that slot begins."""
        return _EPOCH + number * self.every.period


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """The term under which slots are granted: from when, and when the one before it ended, where that is known."""

    epoch: int
    began: datetime
    before: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The slot may be handed out once ``memory`` is on record."""

    slot: datetime
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Not granted; ``message`` is a sentence for people."""

    slot: datetime
    reason: SlotReason
    message: str


_SENTENCES = {
    SlotReason.NOT_HOLDER: "This replica does not hold the Lease{detail}.",
    SlotReason.GIVEN_UP: "This replica takes no part now: {detail}.",
    SlotReason.ALREADY_GRANTED: "The slot {slot} is not later than {detail}, which was granted.",
    SlotReason.NO_MEMORY: (
        "The slot {slot} may have been granted before this term began ({detail}), of which nothing is remembered:"
        " the first one is a later slot."
    ),
    SlotReason.TERM_ENDED: "The term ended before the grant of {slot} could be handed out; it may be on record.",
    SlotReason.TOO_MANY_TIMERS: "The Lease remembers {detail} timers already: use another Lease.",
    SlotReason.NOT_RECORDED: "The grant of {slot} could not be recorded: {detail}",
}


def refused(slot: datetime, reason: SlotReason, detail: str = "") -> Refused:
    """With the sentence of that reason; ``detail`` is what it leaves open."""
    return Refused(slot=slot, reason=reason, message=_SENTENCES[reason].format(slot=stamp(slot), detail=detail))


def decide(
    timer: Timer,
    tenure: Tenure,
    memory: Memory | None,
    *,
    now: datetime,
    token: str,
    notes: Mapping[datetime, SlotReason],
) -> Grant | Refused:
    """Whether the slot that lasts ``now`` (term clock) may be granted. ``memory``: what the Lease, or this term, knows.

    ``token`` marks this grant; a memory that has it is a grant of ours that nobody was told of. ``notes``: slots that this
    process could not grant.
    """  # fmt: skip
    slot = timer.slot(now)
    unheard = memory is not None and memory.token == token and memory.epoch == tenure.epoch
    if memory is not None and (slot < memory.last or (slot == memory.last and not unheard)):
        return refused(slot, SlotReason.ALREADY_GRANTED, stamp(memory.last))
    if memory is None and slot <= tenure.began + DOUBT:
        return refused(slot, SlotReason.NO_MEMORY, stamp(tenure.began))
    missed = memory.missed if memory is not None else ()
    if memory is not None:
        if unheard and memory.last < slot:
            notes = {**notes, memory.last: SlotReason.NOT_RECORDED}
        first = timer.number(memory.last) + (0 if unheard else 1)
        missed = (*missed, *not_granted(timer, tenure, range(first, timer.number(slot)), notes))[-MOST_LINES:]
    return Grant(slot=slot, memory=Memory(last=slot, epoch=tenure.epoch, token=token, missed=missed))


def not_granted(
    timer: Timer, tenure: Tenure, numbers: range, notes: Mapping[datetime, SlotReason]
) -> tuple[Missed, ...]:
    """The slots of ``numbers``, none of which was granted, with their reasons; like ones in a row are one line."""
    if not numbers:
        return ()
    noted = {number: reason for moment, reason in notes.items() if (number := timer.number(moment)) in numbers}
    alone = _without_holder(timer, tenure)
    edges = {numbers.start, numbers.stop, *noted, *(number + 1 for number in noted)}
    edges |= {edge for edge in (alone.start, alone.stop) if alone and numbers.start < edge < numbers.stop}
    lines: list[Missed] = []
    for start, stop in pairwise(sorted(edges)):
        reason = noted.get(start) or (SlotReason.NO_HOLDER if start in alone else SlotReason.NOT_ASKED)
        line = Missed(reason=reason, first=timer.time(start), last=timer.time(stop - 1), count=stop - start)
        if lines and lines[-1].reason == reason:
            line = replace(line, first=lines[-1].first, count=lines[-1].count + line.count)
            lines.pop()
        lines.append(line)
    return tuple(lines)


def _without_holder(timer: Timer, tenure: Tenure) -> range:
    """The slots that began after the term before had ended, and were over before this one began."""
    if tenure.before is None:
        return range(0)
    period = timer.every.period
    first = -((_EPOCH - tenure.before) // period)
    return range(first, timer.number(tenure.began - period) + 1)


def until_next(timer: Timer, now: datetime) -> timedelta:
    """How long the slot that lasts ``now`` goes on."""
    return timer.time(timer.number(now) + 1) - now
