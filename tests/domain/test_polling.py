"""When a queue is asked again: at once after a full claim, ever more rarely while it is empty, never later than its limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.polling import LONGEST_AFTER_ERROR, MOST_AT_ONCE, Pace, enough, how_many, how_many_next

PACE = Pace(least=0.005, most=0.25)


def test_after_a_full_claim_the_next_waits_for_nothing() -> None:
    assert PACE.after_claim(asked=64, taken=64).wait(full=True, drawn=0.0) == 0.0


def test_an_empty_queue_is_asked_ever_more_rarely_up_to_its_limit() -> None:
    pace, waits = PACE, []
    for _ in range(9):
        pace = pace.after_claim(asked=64, taken=0)
        waits.append(pace.wait(full=False, drawn=0.0))
    assert waits == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.25]


@pytest.mark.parametrize("something", ["a row", "a notification"])
def test_anything_that_comes_makes_the_next_wait_the_shortest(something: str) -> None:
    idle = PACE
    for _ in range(20):
        idle = idle.after_claim(asked=64, taken=0)
    stirred = idle.woken() if something == "a notification" else idle.after_claim(asked=64, taken=1)
    assert stirred.wait(full=False, drawn=0.0) == PACE.least


@given(empty=st.integers(0, 10_000), drawn=st.floats(0, 1, exclude_max=True))
def test_jitter_only_shortens_so_that_no_wait_is_longer_than_the_limit(empty: int, drawn: float) -> None:
    pace = Pace(least=0.005, most=0.25, empty=empty)
    assert 0 < pace.wait(full=False, drawn=drawn) <= pace.wait(full=False, drawn=0.0) <= 0.25


@given(failed=st.integers(1, 10_000), drawn=st.floats(0, 1, exclude_max=True))
def test_a_database_that_is_down_is_asked_rarely_but_for_ever(failed: int, drawn: float) -> None:
    pace = Pace(failed=failed)
    assert 0.05 < pace.wait(full=False, drawn=drawn) <= LONGEST_AFTER_ERROR
    assert pace.after_error().wait(full=True, drawn=drawn) >= pace.wait(full=True, drawn=drawn)


def test_the_first_claim_that_succeeds_ends_the_waits_after_errors() -> None:
    down = PACE.after_error().after_error().after_error()
    assert down.wait(full=False, drawn=0.0) == pytest.approx(0.4)
    assert down.after_claim(asked=64, taken=0).wait(full=False, drawn=0.0) == PACE.least


@pytest.mark.parametrize(
    ("free", "room", "asked"),
    [(64, 256, 64), (64, 10, 10), (0, 256, 0), (64, 0, 0), (-3, 5, 0), (5, -1, 0), (5000, 5000, MOST_AT_ONCE)],
)
def test_no_more_is_asked_for_than_can_be_worked_and_settled(free: int, room: int, asked: int) -> None:
    assert how_many(free=free, room=room) == asked


def test_a_claim_is_worth_it_when_a_quarter_of_the_slots_is_free() -> None:
    assert [enough(asked, slots=64) for asked in (0, 1, 15, 16, 64)] == [False, False, False, True, True]
    assert enough(1, slots=1)
    assert enough(MOST_AT_ONCE // 4, slots=5000)


@pytest.mark.parametrize(
    ("asked", "seconds", "following"),
    [(1, 0.0, 8), (1, 0.001, 8), (64, 0.01, MOST_AT_ONCE), (8, 0.04, 40), (40, 0.2, 40), (40, 0.4, 20), (1, 0.21, 0)],
)
def test_a_batch_that_nobody_waits_for_grows_while_it_is_quick_and_shrinks_when_it_is_slow(
    asked: int, seconds: float, following: int
) -> None:
    assert how_many_next(asked, seconds=seconds) == following
