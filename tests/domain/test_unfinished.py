"""What is written for a claim that its handler gave no outcome for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from soloist.domain.claims import Claim, Failed, Parked, PutBack
from soloist.domain.queue_spec import Column
from soloist.domain.unfinished import faulty, over_limit, stopped, untried
from tests.loops.queue_world import queue_spec

CLAIM = Claim(row=("7",), fence=1, attempt=1, tries=1)
RETRY, HOLD = queue_spec(), queue_spec(hold=True)


def test_what_has_not_begun_goes_back_at_once_and_unused() -> None:
    assert untried(CLAIM) == PutBack(claim=CLAIM)


@pytest.mark.parametrize("drawn", [0.0, 0.5, 0.999])
def test_a_row_whose_key_has_enough_is_left_alone_for_a_moment(drawn: float) -> None:
    outcome = over_limit(CLAIM, drawn)
    assert timedelta(seconds=0.5) <= outcome.retry_in <= timedelta(seconds=1.5)


def test_what_was_stopped_in_its_middle_is_sent_again_or_kept_for_a_person() -> None:
    assert stopped(RETRY, CLAIM) == PutBack(claim=CLAIM)
    outcome = stopped(HOLD, CLAIM)
    assert isinstance(outcome, Parked)
    assert "nobody knows whether it arrived" in outcome.error


@pytest.mark.parametrize(
    ("tries", "wait"), [(1, timedelta(seconds=5)), (2, timedelta(minutes=5)), (3, None), (9, None)]
)
def test_a_delivery_that_breaks_uses_an_attempt_and_ends_after_the_last(tries: int, wait: timedelta | None) -> None:
    outcome = faulty(RETRY, replace(CLAIM, tries=tries), KeyError("x"), 0.5)
    assert outcome == Failed(
        claim=replace(CLAIM, tries=tries), error="The delivery broke: KeyError: 'x'", retry_in=wait
    )


def test_the_limit_of_attempts_may_be_the_rows_own() -> None:
    spec = replace(RETRY, retry=replace(RETRY.retry, max_attempts=Column("maxAttempts")))
    assert faulty(spec, replace(CLAIM, columns={"maxAttempts": "1"}), KeyError(), 0.5).retry_in is None  # type: ignore[union-attr]
    assert faulty(spec, replace(CLAIM, columns={"maxAttempts": "2"}), KeyError(), 0.5).retry_in is not None  # type: ignore[union-attr]


def test_with_hold_a_delivery_that_breaks_is_kept_for_a_person() -> None:
    assert isinstance(faulty(HOLD, CLAIM, KeyError("x"), 0.5), Parked)
