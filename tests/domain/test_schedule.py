"""What a schedule promises apart from daylight saving: bounds, sparse dates, intervals, sentences."""

import timeit
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soloist.domain.schedule import DaylightSaving, Schedule, parse_schedule

DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def first_ticks(schedule: Schedule, after: str, count: int) -> list[datetime]:
    ticks = []
    tick = schedule.next_after(at(after))
    while tick is not None and len(ticks) < count:
        ticks.append(tick)
        tick = schedule.next_after(tick)
    return ticks


@pytest.mark.parametrize(
    ("macro", "cron"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_a_macro_is_its_five_fields(macro: str, cron: str) -> None:
    expected = first_ticks(parse_schedule(cron, "Europe/Berlin"), "2026-01-05T13:00", 5)
    assert first_ticks(parse_schedule(macro, "Europe/Berlin"), "2026-01-05T13:00", 5) == expected


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("0 0 L * *", "2027-12-31T12:00", ["2028-01-31", "2028-02-29", "2028-03-31"]),
        ("0 0 LW * *", "2026-01-01T00:00", ["2026-01-30", "2026-02-27", "2026-03-31"]),
        ("0 0 * * 5L", "2026-01-01T00:00", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("0 0 * * MON#2", "2026-01-01T00:00", ["2026-01-12", "2026-02-09", "2026-03-09"]),
        ("0 0 13 * FRI", "2026-02-10T00:00", ["2026-02-13", "2026-02-20", "2026-02-27"]),
        ("0 0 */2 * MON", "2026-02-10T00:00", ["2026-02-23", "2026-03-09", "2026-03-23"]),
        ("0 0 30 2 FRI", "2026-02-10T00:00", ["2026-02-13", "2026-02-20", "2026-02-27"]),
    ],
)
def test_days_match_as_in_debians_cron(cron: str, after: str, expected: list[str]) -> None:
    assert first_ticks(parse_schedule(cron), after, 3) == [at(day) for day in expected]


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("0 0 29 2 *", "2026-01-01", "2028-02-29"),
        ("0 0 29 2 *", "2096-03-01", "2104-02-29"),
        ("0 0 * 2 MON#5", "2028-03-01", "2044-02-29"),
        ("0 0 * 2 MON#5", "2072-03-01", "2112-02-29"),
        ("59 23 * 2 SUN#5", "2032-03-01", "2060-02-29T23:59"),
    ],
)
@pytest.mark.parametrize("policy", DaylightSaving)
def test_a_date_that_comes_once_in_decades_is_found_both_ways(
    cron: str, after: str, expected: str, policy: DaylightSaving
) -> None:
    schedule = parse_schedule(cron, "UTC", policy)
    assert schedule.next_after(at(after)) == at(expected)
    assert schedule.newest(after=at(after), until=at(expected) + 1000 * DAY, limit=1)[-1:] == [at(expected)]


def test_every_weekday_of_29_february_is_found_from_every_year_of_four_centuries() -> None:
    longest = 0
    for weekday in range(7):
        schedule = parse_schedule(f"0 0 * 2 {weekday}#5")
        for year in range(1950, 2350, 3):
            tick = schedule.next_after(datetime(year, 3, 1, tzinfo=UTC))
            assert tick is not None
            assert (tick.month, tick.day, tick.isoweekday() % 7) == (2, 29, weekday)
            longest = max(longest, tick.year - year)
    assert longest == 40


@pytest.mark.parametrize("text", ["* * * * *", "30 2 * * *", "0 0 29 2 *", "@every 1s", "@every 365d"])
@pytest.mark.parametrize(
    "base", ["0001-01-01", "1899-12-31", "1901-01-01", "1969-12-31", "9899-12-31", "9999-12-31T23:59"]
)
def test_no_base_is_too_early_or_too_late(text: str, base: str) -> None:
    schedule = parse_schedule(text, "America/New_York")
    moment = at(base)
    following = schedule.next_after(moment)
    assert following is None or following > moment
    assert all(
        tick <= moment
        for tick in schedule.newest(after=moment - min(moment - at("0001-01-01"), 9 * DAY), until=moment, limit=3)
    )


def test_a_base_in_any_zone_is_the_same_instant() -> None:
    schedule = parse_schedule("0 12 * * *")
    noon_elsewhere = datetime(2026, 1, 1, 20, tzinfo=timezone(timedelta(hours=8)))
    assert schedule.next_after(noon_elsewhere) == at("2026-01-02T12:00")
    assert schedule.next_after(noon_elsewhere - timedelta(microseconds=1)) == at("2026-01-01T12:00")


def test_a_base_without_a_zone_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="has no zone"):
        parse_schedule("0 12 * * *").next_after(datetime(2026, 1, 1))  # noqa: DTZ001


def test_the_newest_ticks_are_those_of_the_half_open_interval_oldest_first() -> None:
    schedule = parse_schedule("0 * * * *")
    noon = at("2026-01-01T12:00")
    assert schedule.newest(after=at("2026-01-01T09:00"), until=noon, limit=10) == [
        at("2026-01-01T10:00"),
        at("2026-01-01T11:00"),
        noon,
    ]
    assert schedule.newest(after=at("2026-01-01T09:00"), until=noon, limit=2) == [at("2026-01-01T11:00"), noon]
    assert schedule.newest(after=noon, until=noon, limit=2) == []
    assert schedule.newest(after=noon, until=at("2026-01-01T09:00"), limit=2) == []
    assert schedule.newest(after=at("2026-01-01T09:00"), until=noon, limit=0) == []


def quickest_ms(call: object, *, repeat: int = 15) -> float:
    assert callable(call)
    return min(timeit.repeat(call, number=1, repeat=repeat)) * 1000


def test_the_newest_ticks_of_a_year_of_minutes_cost_less_than_a_millisecond() -> None:
    schedule = parse_schedule("* * * * *", "Europe/Berlin")
    year = {"after": at("2025-06-01"), "until": at("2026-06-01")}
    assert quickest_ms(lambda: schedule.newest(**year, limit=10)) < 1


def test_the_next_29_february_is_found_within_five_milliseconds() -> None:
    """temporal #7793."""
    schedule = parse_schedule("30 2 * 2 MON#5", "Europe/Berlin")
    assert quickest_ms(lambda: schedule.next_after(at("2072-03-01"))) < 5


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("@every 30s", "2026-01-01T00:00:29", "2026-01-01T00:00:30"),
        ("@every 30s", "2026-01-01T00:00:30", "2026-01-01T00:01:00"),
        ("@every 1h30m", "1970-01-01T00:00:00", "1970-01-01T01:30:00"),
        ("@every 1d", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("@every 7d", "1970-01-01T00:00:00", "1970-01-08T00:00:00"),
        ("@every  90s", "1970-01-01T00:00:00", "1970-01-01T00:01:30"),
    ],
)
def test_slots_of_an_interval_are_counted_from_the_epoch(text: str, after: str, expected: str) -> None:
    """ShedLock #6, #231, #870."""
    for zone in ("UTC", "Asia/Kathmandu"):
        for policy in DaylightSaving:
            assert parse_schedule(text, zone, policy).next_after(at(after)) == at(expected)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 86400 * 366), st.datetimes(min_value=datetime(1960, 1, 1), max_value=datetime(2090, 1, 1)))  # noqa: DTZ001
def test_an_interval_has_a_tick_at_each_multiple_of_its_period(seconds: int, base: datetime) -> None:
    schedule = parse_schedule(f"@every {seconds}s")
    moment = base.replace(tzinfo=UTC)
    tick = schedule.next_after(moment)
    assert tick is not None
    assert (tick - at("1970-01-01")) % timedelta(seconds=seconds) == timedelta(0)
    assert timedelta(0) < tick - moment <= timedelta(seconds=seconds)
    assert schedule.newest(after=moment, until=tick, limit=5) == [tick]
    assert schedule.newest(after=moment, until=tick - timedelta(microseconds=1), limit=5) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("30 2 * * *", "At 02:30 every day, in Europe/Berlin"),
        ("@hourly", "At the start of every hour, in Europe/Berlin"),
        (
            "*/15 9-17 * * MON-FRI",
            "Every 15th minute from 09:00 through 17:59 on Monday through Friday, in Europe/Berlin",
        ),
        ("0 0 L * *", "At 00:00 on the last day of every month, in Europe/Berlin"),
        ("@every 90s", "Every 1 minute 30 seconds, counted from 1970-01-01 00:00 UTC"),
        ("@every 1d12h", "Every 1 day 12 hours, counted from 1970-01-01 00:00 UTC"),
    ],
)
def test_a_schedule_says_what_it_means(text: str, sentence: str) -> None:
    assert parse_schedule(text, "Europe/Berlin").describe() == sentence


def test_equal_texts_give_equal_schedules() -> None:
    first = parse_schedule("0 2 * * *", "Europe/Berlin")
    parse_schedule.cache_clear()
    assert parse_schedule("0 2 * * *", "Europe/Berlin") == first
    assert parse_schedule("0 2 * * *", "Europe/Berlin", DaylightSaving.WALL_CLOCK) != first
