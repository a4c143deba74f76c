"""Jitter is a fixed property of a job's tick, bounded by the window and by the next tick."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.jitter import jitter

MIDNIGHT = datetime(2026, 3, 29, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WINDOWS = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=2))
GAPS = st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=400))
UIDS = st.uuids().map(str)
TICKS = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(UIDS, TICKS, WINDOWS, GAPS)
def test_jitter_stays_in_its_window_and_before_the_next_tick(
    uid: str, tick: datetime, window: timedelta, gap: timedelta
) -> None:
    delay = jitter(uid, tick, window, tick + gap)
    assert timedelta(0) <= delay <= window
    assert tick + delay < tick + gap
    assert jitter(uid, tick, window, tick + gap) == delay


@given(UIDS, TICKS, WINDOWS)
def test_without_a_next_tick_only_the_window_bounds_it(uid: str, tick: datetime, window: timedelta) -> None:
    assert timedelta(0) <= jitter(uid, tick, window, None) <= window


@given(UIDS, TICKS, GAPS)
def test_no_window_means_no_jitter(uid: str, tick: datetime, gap: timedelta) -> None:
    assert jitter(uid, tick, timedelta(0), tick + gap) == timedelta(0)


def test_jitter_is_the_same_on_every_machine_and_in_every_release() -> None:
    assert jitter("0f2c", MIDNIGHT, MINUTE, None) == timedelta(milliseconds=50821)


def test_a_next_tick_that_is_not_later_leaves_no_room() -> None:
    assert jitter("0f2c", MIDNIGHT, MINUTE, MIDNIGHT) == timedelta(0)


def test_a_thousand_jobs_due_at_midnight_are_spread_evenly() -> None:
    """kubernetes/community #2440, kubernetes/test-infra #12148, dkron #866."""
    tenths = [0] * 10
    for number in range(1000):
        tenths[jitter(f"job-{number}", MIDNIGHT, MINUTE, None) // (MINUTE / 10)] += 1
    assert min(tenths) > 65
    assert max(tenths) < 135


def test_one_jobs_ticks_are_spread_evenly_too() -> None:
    tenths = [0] * 10
    for number in range(1000):
        tenths[jitter("0f2c", MIDNIGHT + number * MINUTE, MINUTE, None) // (MINUTE / 10)] += 1
    assert min(tenths) > 65
    assert max(tenths) < 135
