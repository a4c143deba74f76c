"""What a delivery's idempotency key is made of, and what it is not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.claims import Claim
from soloist.domain.delivery_key import delivery_key
from soloist.domain.queue_spec import KeyPer

DUE = datetime(2026, 3, 29, 2, 0, 0, 123456, tzinfo=UTC)
CLAIM = Claim(row=("42",), fence=7, attempt=3, tries=2, due=DUE, due_key="2026-03-29 02:00:00.123456+00")
SOURCE = "db/public.deliveries"


def key(per: KeyPer, **changes: object) -> str:
    return delivery_key(per, SOURCE, replace(CLAIM, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("per", KeyPer)
def test_a_claim_that_another_replica_took_over_keeps_its_key(per: KeyPer) -> None:
    assert key(per, fence=8_000_000_000_000_000, reclaims=3) == key(per)


@pytest.mark.parametrize("per", KeyPer)
def test_another_row_and_another_table_have_another_key(per: KeyPer) -> None:
    others = {key(per), key(per, row=("43",)), key(per, row=("42", "")), delivery_key(per, "other", CLAIM)}
    assert len(others) == 4


def test_a_key_per_message_is_stable_over_attempts_payloads_and_due_times() -> None:
    later = key(KeyPer.MESSAGE, attempt=9, tries=1, due=DUE + timedelta(days=1), payload={"other": True})
    assert later == key(KeyPer.MESSAGE)


def test_a_key_per_attempt_changes_with_the_attempt_alone() -> None:
    assert key(KeyPer.ATTEMPT, attempt=4) != key(KeyPer.ATTEMPT)
    assert key(KeyPer.ATTEMPT, due=DUE + timedelta(days=1), tries=1) == key(KeyPer.ATTEMPT)


def test_a_key_per_due_time_changes_with_the_instant_and_not_with_its_spelling() -> None:
    elsewhere = DUE.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert key(KeyPer.DUE, due=elsewhere, due_key="spelt otherwise", attempt=9) == key(KeyPer.DUE)
    assert key(KeyPer.DUE, due=DUE + timedelta(microseconds=1)) != key(KeyPer.DUE)


def test_a_due_time_that_is_no_instant_counts_as_the_database_writes_it() -> None:
    assert key(KeyPer.DUE, due=None, due_key="infinity") != key(KeyPer.DUE, due=None, due_key="")


def test_the_three_kinds_never_meet() -> None:
    assert len({key(per) for per in KeyPer}) == 3


def test_the_key_of_a_release_is_the_key_of_the_next() -> None:
    """Rows wait for days: a key that an upgrade changes would deliver them twice."""
    assert [key(per) for per in KeyPer] == PINNED


PINNED = [
    "b726ebce-f5f1-5acc-a576-06e681712373",
    "1aa98c42-ea63-5bd4-9410-2ca0e50c9f38",
    "c0a0c30b-d4c7-5c3b-bea7-ba5f454ee60c",
]


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_no_two_rows_share_a_key_whatever_they_are_called(one: list[str], other: list[str]) -> None:
    keys = {key(KeyPer.MESSAGE, row=tuple(one)), key(KeyPer.MESSAGE, row=tuple(other))}
    assert len(keys) == len({tuple(one), tuple(other)})
    assert all(str(UUID(each)) == each and each.isascii() for each in keys)
