"""The walk against a brute-force oracle that knows nothing of it.

The oracle reads every UTC minute on the zone's clock and asks whether it matches, by sets that the test made itself. For a fixed-time job
under Shift it keeps Debian cron's virtual clock: minutes that the clock leapt over are tried at the leap, minutes it shows again are not.
"""

import calendar
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from soloist.domain.schedule import DaylightSaving, Schedule, parse_schedule

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour of daylight saving
    "Asia/Kathmandu",  # +05:45
    "Africa/Casablanca",  # Ramadan, beyond 2037 by single dates
    "Pacific/Apia",  # skipped 30 December 2011
    "Pacific/Chatham",  # +12:45, +13:45
    "Antarctica/Troll",  # two hours of daylight saving
    "America/Sao_Paulo",  # the gap was at midnight
    "Asia/Gaza",
    "Africa/Cairo",
    "Pacific/Kiritimati",  # skipped 31 December 1994
    "Europe/Dublin",  # negative daylight saving in winter
    "America/Caracas",  # moved by half an hour, twice
)
FIRST, LAST = datetime(1990, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Expression:
    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    on_day: Callable[[date], bool]

    @property
    def fixed(self) -> bool:
        minute, hour, *_ = self.text.split()
        return minute[0] != "*" and hour[0] != "*"

    def matches(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.on_day(wall.date())


def oracle(
    wanted: Expression, zone: ZoneInfo, policy: DaylightSaving, start: datetime, end: datetime
) -> Iterator[datetime]:
    """Ticks in [start, end), minute by minute; the virtual clock starts a good while earlier."""
    shifting = wanted.fixed and policy is DaylightSaving.SHIFT
    utc = start - timedelta(hours=4)
    virtual = utc.astimezone(zone).replace(tzinfo=None) - MINUTE
    while utc < end:
        wall = utc.astimezone(zone).replace(tzinfo=None)
        if not shifting:
            hit = wanted.matches(wall)
        else:
            hit = False
            while virtual < wall:
                virtual += MINUTE
                hit = hit or wanted.matches(virtual)
        if hit and utc >= start:
            yield utc
        utc += MINUTE


@cache
def transitions(zone_name: str, first: datetime = FIRST, last: datetime = LAST) -> tuple[datetime, ...]:
    zone = ZoneInfo(zone_name)
    found = []
    days = [first + n * DAY for n in range((last - first) // DAY)]
    for before, after in pairwise(days):
        if before.astimezone(zone).utcoffset() == after.astimezone(zone).utcoffset():
            continue
        while after - before > MINUTE:
            middle = before + (after - before) // MINUTE // 2 * MINUTE
            if middle.astimezone(zone).utcoffset() == before.astimezone(zone).utcoffset():
                before = middle
            else:
                after = middle
        found.append(after)
    return tuple(found)


def field(low: int, high: int, favourites: tuple[int, ...]) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    numbers = st.one_of(st.sampled_from(favourites), st.integers(low, high))
    steps = st.integers(1, high)
    everything = range(low, high + 1)
    star = st.just(("*", frozenset(everything)))
    starred = steps.map(lambda n: (f"*/{n}", frozenset(everything[::n])))
    listed = st.lists(numbers, min_size=1, max_size=4).map(lambda some: (",".join(map(str, some)), frozenset(some)))
    spans = st.tuples(numbers, numbers).map(sorted)
    ranged = spans.map(lambda s: (f"{s[0]}-{s[1]}", frozenset(range(s[0], s[1] + 1))))
    # A step in a range of one number is refused.
    stepped = st.tuples(spans.filter(lambda s: s[0] < s[1]), steps).map(
        lambda s: (f"{s[0][0]}-{s[0][1]}/{s[1]}", frozenset(range(s[0][0], s[0][1] + 1, s[1])))
    )
    opened = st.tuples(numbers, steps).map(lambda s: (f"{s[0]}/{s[1]}", frozenset(range(s[0], high + 1, s[1]))))
    return st.one_of(star, starred, listed, listed, ranged, stepped, opened)


def _length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _last_working_day(day: date) -> int:
    last = day.replace(day=_length(day))
    while last.isoweekday() > 5:
        last -= DAY
    return last.day


DAYS: dict[str, Callable[[date], bool]] = {
    "*": lambda d: True,
    "*/2": lambda d: d.day % 2 == 1,
    "1,15": lambda d: d.day in (1, 15),
    "25-31": lambda d: d.day >= 25,
    "L": lambda d: d.day == _length(d),
    "LW": lambda d: d.day == _last_working_day(d),
    "1,L": lambda d: d.day in (1, _length(d)),
}
WEEKDAYS: dict[str, Callable[[date], bool]] = {
    "*": lambda d: True,
    "0": lambda d: d.isoweekday() == 7,
    "7": lambda d: d.isoweekday() == 7,
    "*/2": lambda d: d.isoweekday() % 7 in (0, 2, 4, 6),
    "SAT,SUN": lambda d: d.isoweekday() > 5,
    "mon-fri": lambda d: d.isoweekday() <= 5,
    "SUN#2": lambda d: d.isoweekday() == 7 and 8 <= d.day <= 14,
    "7L": lambda d: d.isoweekday() == 7 and d.day > _length(d) - 7,
    "5L,MON#1": lambda d: (d.isoweekday() == 5 and d.day > _length(d) - 7) or (d.isoweekday() == 1 and d.day <= 7),
}
MONTHS: dict[str, frozenset[int]] = {
    "*": frozenset(range(1, 13)),
    "mar-oct": frozenset(range(3, 11)),
    "3,4,9-12": frozenset({3, 4, 9, 10, 11, 12}),
}


def _on_day(day: str, month: str, weekday: str) -> Callable[[date], bool]:
    both = day[0] == "*" or weekday[0] == "*"

    def on_day(d: date) -> bool:
        by_date, by_weekday = DAYS[day](d), WEEKDAYS[weekday](d)
        return d.month in MONTHS[month] and ((by_date and by_weekday) if both else (by_date or by_weekday))

    return on_day


def expression(
    minute: tuple[str, frozenset[int]], hour: tuple[str, frozenset[int]], day: str, month: str, weekday: str
) -> Expression:
    text = f"{minute[0]} {hour[0]} {day} {month} {weekday}"
    return Expression(text=text, minutes=minute[1], hours=hour[1], on_day=_on_day(day, month, weekday))


def mostly_star(table: dict[str, object]) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), st.just("*"), st.sampled_from(sorted(table)))


EXPRESSIONS = st.builds(
    expression,
    field(0, 59, (0, 15, 30, 45)),
    field(0, 23, (0, 1, 2, 3, 23)),
    mostly_star(DAYS),
    mostly_star(MONTHS),
    mostly_star(WEEKDAYS),
)
MOMENTS = st.timedeltas(min_value=timedelta(0), max_value=timedelta(hours=20))


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone, and a whole minute: mostly a few hours before a change of its clock, else anywhere in 50 years."""
    zone = draw(st.sampled_from(ZONES))
    if transitions(zone) and draw(st.integers(0, 4)):
        start = draw(st.sampled_from(transitions(zone))) - draw(MOMENTS) * 0.5
    else:
        start = FIRST + draw(st.timedeltas(min_value=timedelta(0), max_value=LAST - FIRST))
    return zone, start.replace(second=0, microsecond=0)


def ticks_between(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    found = []
    tick = schedule.next_after(start - timedelta(microseconds=1))
    while tick is not None and tick < end:
        found.append(tick)
        tick = schedule.next_after(tick)
    return found


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EXPRESSIONS, windows(), st.sampled_from(DaylightSaving), st.lists(MOMENTS, min_size=1, max_size=5))
@example(
    expression(("45", frozenset({45})), ("*", frozenset(range(24))), "*", "*", "*"),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 10, tzinfo=UTC)),
    DaylightSaving.SHIFT,
    [timedelta(hours=5, seconds=1)],
)
@example(
    expression(("30", frozenset({30})), ("2", frozenset({2})), "*", "*", "*"),
    ("Pacific/Apia", datetime(2011, 12, 30, 0, tzinfo=UTC)),
    DaylightSaving.SHIFT,
    [timedelta(hours=10)],
)
def test_the_walk_finds_what_reading_every_minute_finds(
    wanted: Expression, window: tuple[str, datetime], policy: DaylightSaving, bases: list[timedelta]
) -> None:
    zone, start = window
    end = start + timedelta(hours=20)
    schedule = parse_schedule(wanted.text, zone, policy)
    expected = list(oracle(wanted, ZoneInfo(zone), policy, start, end))
    assert ticks_between(schedule, start, end) == expected
    before_start, last = start - MINUTE / 2, end - MINUTE
    assert schedule.newest(after=before_start, until=last, limit=2000) == expected
    assert schedule.newest(after=before_start, until=last, limit=3) == expected[-3:]
    for offset in bases:
        base = start + offset
        later = [tick for tick in expected if tick > base]
        following = schedule.next_after(base)
        assert following is not None
        assert following > base
        assert following == later[0] if later else following >= end
        assert schedule.newest(after=before_start, until=base, limit=1) == [t for t in expected if t <= base][-1:]


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, windows(), st.sampled_from(DaylightSaving))
def test_looking_back_from_the_next_tick_finds_the_same_tick_and_none_between(
    wanted: Expression, window: tuple[str, datetime], policy: DaylightSaving
) -> None:
    zone, base = window
    schedule = parse_schedule(wanted.text, zone, policy)
    tick = schedule.next_after(base)
    assert tick is not None
    assert schedule.newest(after=base, until=tick, limit=10) == [tick]
    assert schedule.newest(after=base, until=tick - timedelta(microseconds=1), limit=10) == []
    (previous,) = schedule.newest(after=FIRST - 3650 * DAY, until=base, limit=1)
    assert schedule.next_after(previous) == tick


@settings(max_examples=200, deadline=None)
@given(
    windows(),
    field(0, 59, (0, 15, 30, 45)),
    st.sampled_from([("1-3", frozenset({1, 2, 3})), ("0,2", frozenset({0, 2})), ("*", frozenset(range(24)))]),
    st.sampled_from(DaylightSaving),
    MOMENTS,
)
def test_a_job_of_one_day_in_the_year_keeps_its_second_pass_and_its_gap(
    window: tuple[str, datetime],
    minute: tuple[str, frozenset[int]],
    hour: tuple[str, frozenset[int]],
    policy: DaylightSaving,
    base: timedelta,
) -> None:
    zone, start = window
    day = (start + timedelta(hours=8)).astimezone(ZoneInfo(zone)).date()
    text = f"{minute[0]} {hour[0]} {day.day} {day.month} *"
    wanted = Expression(text, minute[1], hour[1], lambda d: (d.month, d.day) == (day.month, day.day))
    schedule = parse_schedule(text, zone, policy)
    end = start + timedelta(hours=20)
    expected = list(oracle(wanted, ZoneInfo(zone), policy, start, end))
    assert ticks_between(schedule, start, end) == expected
    assert schedule.newest(after=start - MINUTE / 2, until=end - MINUTE, limit=2000) == expected
    later = [tick for tick in expected if tick >= start + base]
    assert ticks_between(schedule, start + base, end) == later


SWEPT = (
    expression(
        ("7-59/13", frozenset(range(7, 60, 13))),
        ("0-5,21-23", frozenset({0, 1, 2, 3, 4, 5, 21, 22, 23})),
        "*",
        "*",
        "*",
    ),
    expression(("*/20", frozenset({0, 20, 40})), ("0-3,21-23", frozenset({0, 1, 2, 3, 21, 22, 23})), "*", "*", "*"),
    expression(("17", frozenset({17})), ("*/1", frozenset(range(24))), "*", "*", "*"),
)


@pytest.mark.parametrize("policy", DaylightSaving)
def test_every_change_of_every_zone_for_two_years_agrees_with_reading_every_minute(policy: DaylightSaving) -> None:
    """nomad #5410, #7289, #3392."""
    swept: set[tuple[str, ...]] = set()
    for name in sorted(available_timezones() - {"localtime", "Factory"}):
        changes = transitions(name, datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC))
        nature = tuple(change.astimezone(ZoneInfo(name)).isoformat() for change in changes)
        if nature in swept:
            continue
        swept.add(nature)
        for change in changes:
            start, end = change - timedelta(hours=2), change + timedelta(hours=4)
            for wanted in SWEPT:
                expected = list(oracle(wanted, ZoneInfo(name), policy, start, end))
                assert ticks_between(parse_schedule(wanted.text, name, policy), start, end) == expected, (name, change)
    assert len(swept) > 20
