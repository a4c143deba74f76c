"""As shortly before its time as the burst allows: how long before it a run is recorded, by how many are due with it."""

from datetime import UTC, datetime

import pytest

from soloist.loops.crowd import Crowd

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def crowd(many: int) -> Crowd:
    made = Crowd(2.0)
    for number in range(many):
        made.stand_at(("n", f"job-{number}"), NOON)
    return made


@pytest.mark.parametrize(
    ("many", "least", "most"), [(1, 0.0, 0.1), (100, 0.2, 0.5), (1000, 1.0, 2.0), (10_000, 10, 20)]
)
def test_a_record_lies_two_seconds_ahead_at_the_most_for_each_thousand(many: int, least: float, most: float) -> None:
    assert least <= crowd(many).lead(("n", "job-0")) <= most


def test_who_is_due_at_another_instant_is_not_counted() -> None:
    made = crowd(500)
    made.stand_at(("n", "job-0"), NOON.replace(hour=13))
    made.stand_at(("n", "job-1"), None)
    assert made.lead(("n", "job-0")) == made.lead(("n", "unknown")) < 0.1
    assert made.lead(("n", "job-2")) == crowd(498).lead(("n", "job-2"))
