"""Slots are granted in order, each once and none early, by whichever terms and clocks; and those that were not have reasons."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.every import Every
from soloist.domain.lease_writes import CLOCK_TOLERANCE
from soloist.domain.slot_memory import MOST_LINES, SLOTS, Memory, newest, remembered, with_memories
from soloist.domain.slots import Grant, Refused, SlotReason, Tenure, Timer, decide, not_granted, until_next

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = Timer(name="sweep", every=Every(period=timedelta(minutes=1)))
TERM = Tenure(epoch=7, began=NOON - timedelta(hours=1), before=None)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def memory(last: float, *, epoch: int = 7, token: str = "a") -> Memory:
    return Memory(last=at(last), epoch=epoch, token=token)


def asked(now: float, known: Memory | None, tenure: Tenure = TERM, token: str = "mine") -> Grant | Refused:
    return decide(MINUTE, tenure, known, now=at(now), token=token, notes={})


def reason(found: Grant | Refused) -> str:
    return "" if isinstance(found, Grant) else found.reason


def test_a_slot_lasts_from_its_time_until_the_next_one() -> None:
    assert [asked(now, memory(-60)).slot for now in (0, 59.999, 60)] == [at(0), at(0), at(60)]
    assert until_next(MINUTE, at(59)) == SECOND


def test_a_slot_is_granted_once() -> None:
    assert isinstance(asked(1, memory(-60)), Grant)
    assert reason(asked(1, memory(0))) == SlotReason.ALREADY_GRANTED
    assert reason(asked(1, memory(60))) == SlotReason.ALREADY_GRANTED


def test_a_grant_that_nobody_was_told_of_is_the_next_askers() -> None:
    found = asked(1, memory(0, token="mine"))
    assert isinstance(found, Grant)
    assert found.memory == memory(0, token="mine")
    assert reason(asked(1, memory(0, token="mine", epoch=6))) == SlotReason.ALREADY_GRANTED


def test_a_grant_that_nobody_was_told_of_in_time_was_not_one() -> None:
    found = asked(125, memory(0, token="mine"))
    assert isinstance(found, Grant)
    assert [(line.reason, line.first, line.last, line.count) for line in found.memory.missed] == [
        ("NotRecorded", at(0), at(0), 1),
        ("NotAsked", at(60), at(60), 1),
    ]


@pytest.mark.parametrize(("began", "first"), [(-1, 60), (0, 60), (-4, 60), (-4.001, 0), (-61, 0)])
def test_without_memory_a_slot_must_have_begun_in_this_term_by_any_clock(began: float, first: float) -> None:
    tenure = Tenure(epoch=7, began=at(began), before=None)
    granted = [found for now in range(0, 120, 60) if isinstance(found := asked(now, None, tenure), Grant)]
    assert granted[0].slot == at(first)
    assert granted[0].memory.missed == ()


def test_slots_that_nobody_got_have_reasons() -> None:
    tenure = Tenure(epoch=8, began=at(310), before=at(121))
    found = decide(MINUTE, tenure, memory(0), now=at(480), token="b", notes={at(420): SlotReason.NOT_RECORDED})
    assert isinstance(found, Grant)
    assert [(line.reason, line.first, line.last, line.count) for line in found.memory.missed] == [
        ("NotAsked", at(60), at(120), 2),  # the term before ended a second after the second one began
        ("NoHolder", at(180), at(240), 2),
        ("NotAsked", at(300), at(360), 2),  # this term began while the first one lasted
        ("NotRecorded", at(420), at(420), 1),
    ]


def test_a_timer_that_was_forgotten_for_years_is_folded() -> None:
    every_second = Timer(name="1s", every=Every(period=SECOND))
    long_ago = Memory(last=NOON - timedelta(days=3650), epoch=1, token="a")
    found = decide(every_second, TERM, long_ago, now=NOON, token="b", notes={})
    assert isinstance(found, Grant)
    assert [(line.reason, line.count) for line in found.memory.missed] == [("NotAsked", 3650 * 86400 - 1)]


@given(
    st.integers(0, 50),
    st.integers(0, 50),
    st.none() | st.floats(-100, 4000, allow_nan=False),
    st.floats(-100, 4000, allow_nan=False),
    st.sets(st.integers(-5, 60), max_size=6),
)
def test_every_slot_of_a_gap_is_in_one_line(
    first: int, count: int, before: float | None, began: float, noted: set[int]
) -> None:
    base = MINUTE.number(NOON)
    tenure = Tenure(epoch=7, began=at(began), before=at(before) if before is not None else None)
    notes = {MINUTE.time(base + number): SlotReason.NOT_RECORDED for number in noted}
    numbers = range(base + first, base + first + count)
    lines = not_granted(MINUTE, tenure, numbers, notes)
    told = {}
    for line in lines:
        covered = range(MINUTE.number(line.first), MINUTE.number(line.last) + 1)
        assert len(covered) == line.count > 0
        told |= dict.fromkeys(covered, line.reason)
    assert list(told) == list(numbers)
    assert all(one.reason != other.reason for one, other in pairwise(lines))
    for number, why in told.items():
        begins, ends = MINUTE.time(number), MINUTE.time(number + 1)
        alone = before is not None and begins >= at(before) and ends <= at(began)
        assert why == ("NotRecorded" if begins in notes else "NoHolder" if alone else "NotAsked")


Step = tuple[float, float, bool, bool, list[float]]
terms = st.lists(
    st.tuples(
        st.floats(0, 5),  # seconds that nobody holds the Lease before it
        st.floats(-CLOCK_TOLERANCE.total_seconds(), CLOCK_TOLERANCE.total_seconds()),  # how far its clock is off
        st.booleans(),  # whether the Lease was deleted before it
        st.booleans(),  # whether it records and is gone before it can hand out its last grant
        st.lists(st.floats(0, 3), max_size=12),  # seconds between what it is asked
    ),
    max_size=8,
)


@given(terms, st.integers(1, 4))
def test_no_slot_twice_and_none_early_whatever_terms_and_clocks(plan: list[Step], period: int) -> None:
    timer = Timer(name="x", every=Every(period=timedelta(seconds=period)))
    true, known, handed = NOON, None, []
    end: datetime | None = None
    for epoch, (gap, off, deleted, dies, asks) in enumerate(plan, start=1):
        true += timedelta(seconds=gap)
        skew = timedelta(seconds=off)
        tenure = Tenure(epoch=epoch, began=true + skew, before=None if deleted else end)
        known = None if deleted else known
        for number, wait in enumerate(asks):
            true += timedelta(seconds=wait)
            found = decide(timer, tenure, known, now=true + skew, token=f"{epoch}-{number}", notes={})
            if isinstance(found, Refused):
                continue
            known = found.memory
            if not (dies and number == len(asks) - 1):
                handed.append(found.slot)
                assert found.slot <= true + CLOCK_TOLERANCE
        end = true + skew
    assert len(set(handed)) == len(handed)


def test_a_memory_is_read_back_as_it_was_written_beside_what_others_keep() -> None:
    kept = decide(MINUTE, TERM, memory(-300), now=at(1), token="b", notes={})
    assert isinstance(kept, Grant)
    raw = {"metadata": {"annotations": {"example.org/note": "kept"}}, "spec": {"holderIdentity": "x"}}
    written = with_memories(raw, {"sweep": kept.memory})
    assert remembered(written) == {"sweep": kept.memory}
    assert written["metadata"]["annotations"]["example.org/note"] == "kept"
    assert written["spec"] == raw["spec"]
    assert SLOTS not in raw["metadata"]["annotations"]


@pytest.mark.parametrize(
    "said",
    [
        *("", "{", "[]", "7", '{"x": 7}', "[" * 100_000),
        '{"x": {"last": "noon", "epoch": 1, "token": "a"}}',
        '{"x": {"last": "2026-03-01T12:00:00Z", "epoch": "1", "token": "a"}}',
    ],
)
def test_what_cannot_be_read_is_not_remembered(said: str) -> None:
    assert remembered({"metadata": {"annotations": {SLOTS: said}}}) == {}
    assert remembered({}) == {}


def test_a_memory_does_not_grow_without_end() -> None:
    known: Memory | None = memory(0)
    for minute in range(2, 500, 2):
        found = asked(60 * minute, known)
        assert isinstance(found, Grant)
        known = found.memory
    assert known is not None
    assert len(known.missed) == MOST_LINES
    assert known.missed[-1].last == known.last - timedelta(minutes=1)


def test_of_two_memories_the_later_slot_counts() -> None:
    assert newest(memory(0), memory(60)) == newest(memory(60), memory(0)) == memory(60)
    assert newest(None, memory(0)) == newest(memory(0), None) == memory(0)
    assert newest(None, None) is None
