"""Grants slots of one Lease: reads it, decides, records the grant under this very term, and only then says so.

One at a time, and beside the elector, whose next renewal then finds a newer resourceVersion and reads again: that costs it
two requests and never the Lease. What may go wrong on the way:

* Another has the Lease, or claims it in between: the reading shows it, or the write does not hold.
* The reply to the write is lost: the next reading has this grant's mark exactly if the write landed. A mark stays with its
  timer until its grant is handed out, so one that lands late is found by whoever asks next.
* This process was frozen: the trust is asked again after the write. A slot that is on record by then is not handed out.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.instants import stamp
from soloist.domain.lease import Clash, Raw, parse
from soloist.domain.slot_memory import MOST_TIMERS, Memory, newest, remembered, with_memories
from soloist.domain.slots import Refused, SlotReason, Tenure, Timer, decide, refused
from soloist.domain.term import Term
from soloist.loops.election_ports import Clocks, LeaseApi

TRIES = 4
MOST_NOTES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """Recorded, and handed out to one caller. ``trust``: seconds for which the term may be believed in without a renewal."""

    slot: datetime
    term: Term
    trust: float


class Granter:
    """Of one term. ``term`` gives it while it may be used; ``began`` is the term clock at its claim."""

    def __init__(
        self,
        api: LeaseApi,
        clock: Clocks,
        *,
        first: Term,
        term: Callable[[], Term | None],
        timeout: float,
        drawn: Callable[[], str],
    ) -> None:
        self._api, self._clock, self._term, self._timeout, self._drawn = api, clock, term, timeout, drawn
        before = {epoch: end for epoch, end in first.past_ends.items() if epoch < first.epoch}
        self._tenure = Tenure(epoch=first.epoch, began=first.renew_time, before=before[max(before)] if before else None)
        self._alone = threading.Lock()
        self._marks: dict[str, str] = {}
        self._known: dict[str, Memory] = {}
        self._notes: dict[str, dict[datetime, SlotReason]] = {}

    def grant(self, timer: Timer) -> Granted | Refused:
        """The slot that lasts now, or why not. Takes until the trust ends at the most; for a thread of its own."""
        with self._alone:
            if (now := self._now()) is None:
                return refused(timer.slot(self._clock.now()), SlotReason.NOT_HOLDER)
            slot, known = timer.slot(now), self._known.get(timer.name)
            if known is not None and slot <= known.last:
                return refused(slot, SlotReason.ALREADY_GRANTED, stamp(known.last))
            trouble = "others wrote to the Lease again and again."
            for _ in range(TRIES):
                try:
                    if (found := self._try(timer, slot)) is not None:
                        return found
                except (TransientError, PermanentError) as error:
                    trouble = str(error)
            self._note(timer, slot)
            return refused(slot, SlotReason.NOT_RECORDED, trouble)

    def _try(self, timer: Timer, slot: datetime) -> Granted | Refused | None:
        """One reading and one write; None: read again."""
        if (now := self._now()) is None:
            return refused(slot, SlotReason.TERM_ENDED)
        lease = self._api.read(timeout=self._patience()).lease
        if lease is None or not self._is_ours(lease):
            return refused(slot, SlotReason.NOT_HOLDER, " any more")
        memories = remembered(lease)
        known = newest(memories.get(timer.name), self._known.get(timer.name))
        mark = self._marks.setdefault(timer.name, self._drawn())
        notes = self._notes.get(timer.name, {})
        decision = decide(timer, self._tenure, known, now=now, token=mark, notes=notes)
        if isinstance(decision, Refused):
            return decision
        if decision.memory != memories.get(timer.name):
            if timer.name not in memories and len(memories) >= MOST_TIMERS:
                return refused(slot, SlotReason.TOO_MANY_TIMERS, str(MOST_TIMERS))
            body = with_memories(lease, {**memories, timer.name: decision.memory})
            if isinstance(self._api.replace(body, timeout=self._patience()), Clash):
                return None
        return self._hand_out(timer, decision.memory)

    def _hand_out(self, timer: Timer, memory: Memory) -> Granted | Refused:
        self._known[timer.name] = memory
        self._notes.pop(timer.name, None)  # they are in the memory now
        term, boot = self._term(), self._clock.boottime()
        if term is None or not term.trusted(boot):
            return refused(memory.last, SlotReason.TERM_ENDED)
        del self._marks[timer.name]
        return Granted(slot=memory.last, term=term, trust=term.trusted_until - boot)

    def _note(self, timer: Timer, slot: datetime) -> None:
        notes = self._notes.setdefault(timer.name, {})
        notes[slot] = SlotReason.NOT_RECORDED
        if len(notes) > MOST_NOTES:
            del notes[min(notes)]

    def _is_ours(self, lease: Raw) -> bool:
        term, record = self._term(), parse(lease)
        found = (record.uid, record.holder, record.epoch)
        return term is not None and found == (term.lease_uid, term.identity, self._tenure.epoch)

    def _now(self) -> datetime | None:
        term, boot = self._term(), self._clock.boottime()
        return term.now(boot) if term is not None and term.trusted(boot) else None

    def _patience(self) -> float:
        term = self._term()
        left = term.trusted_until - self._clock.boottime() if term is not None else 0.0
        return min(self._timeout, max(left, 0.01))
