"""Grants on a Lease in memory: lost replies, late writes, successors, a frozen holder; each slot is handed out once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.every import Every
from soloist.domain.lease import Clash
from soloist.domain.slot_memory import MOST_TIMERS, SLOTS, remembered
from soloist.domain.slots import SlotReason, Timer
from soloist.loops.elector import Elector
from soloist.loops.granting import Granted, Granter
from tests.loops.election_stage import Stage

MINUTE = Timer(name="60s", every=Every(period=timedelta(minutes=1)))
LOST = TransientError("no answer")


class Holder:
    """An elector that leads, and what grants slots under its term."""

    def __init__(self, stage: Stage, name: str = "a") -> None:
        self.stage, self.name = stage, name
        self.elector: Elector = stage.elector(name)
        waited = 0
        while (first := self.elector.term()) is None:
            stage.run(self.elector, seconds=0.1)
            waited += 1
            assert waited < 150, "it does not come to lead"
        numbers = itertools.count()
        self.granter = Granter(
            stage.api,
            stage.clock,
            first=first,
            term=self.elector.term,
            timeout=2.0,
            drawn=lambda: f"{name}-{next(numbers)}",
        )

    def run(self, seconds: float) -> None:
        self.stage.run(self.elector, seconds=seconds)

    def ask(self, timer: Timer = MINUTE) -> str:
        found = self.granter.grant(timer)
        return f"{found.slot:%H:%M}" if isinstance(found, Granted) else str(found.reason)


@pytest.fixture
def holder(stage: Stage) -> Holder:
    """It has granted its first slot, and the next one has just begun."""
    made = Holder(stage)
    made.run(60)
    assert made.ask() == "12:01"
    made.run(60)
    return made


def at_replace(stage: Stage, *faults: Callable[[], Exception | None]) -> None:
    left = list(faults)
    stage.api.fault = lambda verb: left.pop(0)() if verb == "replace" and left else None


def raised(error: Exception) -> Callable[[], Exception | None]:
    """Before the write has any effect."""

    def fault() -> Exception | None:
        raise error

    return fault


def test_a_slot_is_granted_once_and_none_of_before_the_term(stage: Stage) -> None:
    made = Holder(stage)
    assert made.ask() == SlotReason.NO_MEMORY
    made.run(60)
    assert [made.ask(), made.ask()] == ["12:01", "AlreadyGranted"]
    made.run(60)
    assert [made.ask(), made.ask()] == ["12:02", "AlreadyGranted"]


def test_a_slot_that_is_known_to_be_granted_costs_no_request(holder: Holder) -> None:
    holder.ask()
    before = len(holder.stage.api.asked)
    assert holder.ask() == SlotReason.ALREADY_GRANTED
    assert len(holder.stage.api.asked) == before


def test_the_elector_goes_on_beside_the_grants(holder: Holder) -> None:
    for minute in range(2, 8):
        assert holder.ask() == f"12:0{minute}"
        holder.run(60)
    assert holder.elector.term() is not None
    assert holder.stage.words().count("a lost") == 0


def test_timers_of_other_names_have_slots_of_their_own(holder: Holder) -> None:
    other = Timer(name="other", every=MINUTE.every)
    assert [holder.ask(), holder.ask(other), holder.ask(other)] == ["12:02", "12:02", "AlreadyGranted"]


def test_a_lost_reply_is_found_in_the_next_reading(holder: Holder) -> None:
    at_replace(holder.stage, lambda: LOST)
    assert [holder.ask(), holder.ask()] == ["12:02", "AlreadyGranted"]


def test_a_write_that_did_not_land_is_made_again(holder: Holder) -> None:
    at_replace(holder.stage, raised(LOST), raised(LOST))
    assert [holder.ask(), holder.ask()] == ["12:02", "AlreadyGranted"]


def test_a_grant_that_cannot_be_recorded_is_none_and_has_its_reason_in_the_next_memory(holder: Holder) -> None:
    refusal = PermanentError("you may not")
    at_replace(holder.stage, *(raised(refusal) for _ in range(4)))
    assert holder.ask() == SlotReason.NOT_RECORDED
    holder.run(60)
    assert holder.ask() == "12:03"
    (line,) = remembered(holder.stage.lease)["60s"].missed
    assert (line.reason, f"{line.first:%H:%M}", line.count) == ("NotRecorded", "12:02", 1)


def test_a_write_that_lands_when_its_caller_has_gone_is_handed_out_to_whoever_asks_next(holder: Holder) -> None:
    stage, body = holder.stage, {}
    replace = stage.api.replace

    def held_back(what: dict[str, Any], *, timeout: float) -> Any:
        body.update(what)
        raise LOST

    stage.api.replace = held_back  # type: ignore[method-assign]
    assert holder.ask() == SlotReason.NOT_RECORDED
    stage.api.replace = replace  # type: ignore[method-assign]
    assert not isinstance(replace(body, timeout=1), Clash)
    assert [holder.ask(), holder.ask()] == ["12:02", "AlreadyGranted"]


def test_a_late_write_does_not_land_on_a_successors_memory(holder: Holder) -> None:
    stage, body = holder.stage, {}
    replace = stage.api.replace

    def held_back(what: dict[str, Any], *, timeout: float) -> Any:
        body.update(what)
        raise LOST

    stage.api.replace = held_back  # type: ignore[method-assign]
    holder.ask()
    stage.api.replace = replace  # type: ignore[method-assign]
    stage.clock.boot += 12
    Holder(stage, "b")
    assert replace(body, timeout=1) == Clash()


def test_a_successor_remembers_what_was_granted(holder: Holder) -> None:
    assert holder.ask() == "12:02"
    drained = threading.Event()
    drained.set()
    holder.elector.stop(drained)
    holder.run(0.2)
    successor = Holder(holder.stage, "b")
    assert successor.ask() == SlotReason.ALREADY_GRANTED
    assert holder.ask() == SlotReason.NOT_HOLDER
    successor.run(60)
    assert successor.ask() == "12:03"
    assert remembered(holder.stage.lease)["60s"].missed == ()


def test_a_frozen_holder_grants_nothing_when_it_wakes(holder: Holder) -> None:
    stage, successor = holder.stage, []
    read = stage.api.read

    def frozen(*, timeout: float) -> Any:
        answer = read(timeout=timeout)
        stage.api.read = read  # type: ignore[method-assign]
        other = stage.elector("b")
        stage.run(other, seconds=15)
        assert other.term() is not None
        successor.append(other)
        return answer

    stage.api.read = frozen  # type: ignore[method-assign]
    assert holder.ask() in (SlotReason.TERM_ENDED, SlotReason.NOT_HOLDER)
    assert remembered(stage.lease)["60s"].last.minute == 1


def test_a_holder_whose_trust_ends_during_the_write_hands_out_nothing(holder: Holder) -> None:
    def slow() -> Exception | None:
        holder.stage.clock.boot += 10
        return None

    at_replace(holder.stage, slow)
    assert holder.ask() == SlotReason.TERM_ENDED


def test_a_memory_that_somebody_removed_is_known_to_this_term(holder: Holder) -> None:
    assert holder.ask() == "12:02"
    lease = holder.stage.lease
    del lease["metadata"]["annotations"][SLOTS]
    holder.stage.api.write(lease)
    holder.run(30)
    assert holder.ask() == SlotReason.ALREADY_GRANTED
    holder.run(30)
    assert holder.ask() == "12:03"


def test_a_lease_has_room_for_so_many_timers(holder: Holder) -> None:
    timers = [Timer(name=f"t{number}", every=MINUTE.every) for number in range(MOST_TIMERS)]
    assert [holder.ask(timer) for timer in timers].count("12:02") == MOST_TIMERS - 1
    assert holder.ask(timers[-1]) == SlotReason.TOO_MANY_TIMERS
