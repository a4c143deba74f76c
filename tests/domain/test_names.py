"""Names and keys of runs: valid, short enough, the same everywhere, and never the same for two ticks."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.names import backfill_name, label_value, manual_name, run_key, run_name, scheduled_key

DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
UID = "5f0c8f6e-6f0b-4f0e-9f53-0a6f3f3b2c11"
TICK = datetime(2026, 11, 29, 2, 0, 0, tzinfo=UTC)

# What the API server takes as a name: a DNS subdomain of up to 253 characters.
LABELS = st.text("abcxyz0189-", min_size=1, max_size=63).map(lambda text: f"j{text}".rstrip("-")[:63])
JOB_NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join).map(lambda name: name[:253].rstrip(".-"))
UIDS = st.uuids().map(str)
TICKS = st.integers(0, 2 * 10**11).map(lambda seconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds))
IDENTITIES = st.tuples(JOB_NAMES, UIDS, TICKS)


def test_a_name_is_read_by_people_and_does_not_change_between_versions() -> None:
    assert run_name("overdue-invoices", UID, TICK) == "overdue-invoices-lx2puj4ao6-20261129-020000"


def test_a_long_name_is_cut_and_what_was_cut_still_counts() -> None:
    """k8s #50850, #63171, #52733."""
    first, second = (run_name("a" * 200 + end, UID, TICK) for end in "xy")
    assert len(first) == len(second) == 63
    assert first != second


def test_a_dot_in_the_name_of_a_job_becomes_a_hyphen_and_still_counts() -> None:
    dotted, hyphened = run_name("a.b", UID, TICK), run_name("a-b", UID, TICK)
    assert dotted.startswith("a-b-")
    assert hyphened.startswith("a-b-")
    assert dotted != hyphened


def test_a_job_that_was_deleted_and_made_again_has_other_names() -> None:
    assert run_name("job", UID, TICK) != run_name("job", UID.replace("5", "6"), TICK)


def test_the_zone_that_a_tick_is_written_in_does_not_matter() -> None:
    berlin = TICK.astimezone(timezone(timedelta(hours=1)))
    assert run_name("job", UID, berlin) == run_name("job", UID, TICK)
    assert scheduled_key(UID, berlin) == scheduled_key(UID, TICK) == f"{UID}/2026-11-29T02:00:00Z"


def test_a_run_that_has_no_tick_of_the_schedule_has_its_own_uid_as_key() -> None:
    assert run_key(run_uid="r", job_uid=UID, scheduled=None) == "r"
    assert run_key(run_uid="r", job_uid=UID, scheduled=TICK) == scheduled_key(UID, TICK)


def test_a_backfilled_run_never_has_the_name_of_the_scheduled_one() -> None:
    assert backfill_name("job", UID, TICK) != run_name("job", UID, TICK)
    assert backfill_name("job", UID, TICK) == backfill_name("job", UID, TICK)


def test_two_runs_that_people_start_in_one_second_are_two() -> None:
    """temporal #3614."""
    assert manual_name("job", "one") != manual_name("job", "other")
    assert run_key(run_uid="one", job_uid=UID, scheduled=None) != run_key(run_uid="other", job_uid=UID, scheduled=None)


@pytest.mark.parametrize("tick", [TICK.replace(microsecond=1), TICK.replace(tzinfo=None)], ids=["fraction", "naive"])
def test_what_is_not_a_tick_is_refused(tick: datetime) -> None:
    with pytest.raises(ValueError, match="not a tick"):
        run_name("job", UID, tick)
    with pytest.raises(ValueError, match="not a tick"):
        scheduled_key(UID, tick)


def test_a_name_too_long_for_a_label_is_left_out() -> None:
    assert label_value("a" * 63) == "a" * 63
    assert label_value("a" * 64) is None


@given(JOB_NAMES, UIDS, TICKS, st.text(max_size=80))
def test_every_name_is_a_dns_label(job: str, uid: str, tick: datetime, nonce: str) -> None:
    for name in (run_name(job, uid, tick), backfill_name(job, uid, tick), manual_name(job, nonce)):
        assert len(name) <= 63
        assert DNS_LABEL.fullmatch(name)


@given(IDENTITIES, IDENTITIES)
def test_two_ticks_never_share_a_name(one: tuple[str, str, datetime], other: tuple[str, str, datetime]) -> None:
    """db-scheduler #189."""
    assert (run_name(*one) == run_name(*other)) == (one == other)


@given(JOB_NAMES, UIDS, TICKS, st.integers(1, 10_000))
def test_neighbouring_ticks_of_one_job_have_names_of_their_own(
    job: str, uid: str, tick: datetime, seconds: int
) -> None:
    later = tick + timedelta(seconds=seconds)
    assert run_name(job, uid, tick) < run_name(job, uid, later)
    assert scheduled_key(uid, tick) != scheduled_key(uid, later)


def test_twenty_thousand_jobs_of_the_longest_names_have_as_many_names() -> None:
    names = {run_name("n" * 250, f"{UID[:-6]}{number:06d}", TICK) for number in range(20_000)}
    assert len(names) == 20_000
