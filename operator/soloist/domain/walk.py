"""Walking five cron fields through a zone's stretches, forwards and backwards.

The wall clock is walked by calendar arithmetic, from matching minute to matching minute; a stretch turns it into UTC. The two
daylight-saving policies differ in one number, the wall time at which a new stretch begins to count:

- as clocks show it: at its first instant. What a gap leaves out never comes, what is repeated comes twice;
- as Debian's cron counts for a fixed-time job: where the previous stretch stopped. Minutes of a gap count as its end, so
  they run right after it, and once; repeated minutes are not counted again.

So the two walks visit the same stretches and cannot disagree about where they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from soloist.domain.cron_fields import CronFields
from soloist.domain.zones import Stretch, stretch_at

_MINUTE = timedelta(minutes=1)
_MOMENT = timedelta(microseconds=1)
# Longer than any clock was ever set back, and shorter than any stretch has been since 1939.
_AROUND = timedelta(days=2)
# 29 February falls on a given weekday every 28 years, or every 40 where a century year is no leap year.
_MONTHS_AHEAD = 41 * 12
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(9900, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronWalk:
    """``shifting``: count the wall clock as Debian's cron does for a fixed-time job."""

    fields: CronFields
    zone: ZoneInfo
    shifting: bool

    def after(self, instant: datetime) -> datetime | None:
        """The first tick strictly later than ``instant``."""
        if instant >= LATEST:
            return None
        here = max(instant, EARLIEST)
        stretch = stretch_at(self.zone, here)
        wall = max(_wall(here, stretch) + _MOMENT, self._first_wall(stretch))
        while here < LATEST:
            found = wall_at_or_after(self.fields, wall)
            if found is None:
                return None
            tick = max(_instant(found, stretch), stretch.start)
            if tick < stretch.end:
                return tick
            here = stretch.end
            if here - instant > _AROUND:
                # No clock can be set back any more to a wall time before `instant`: nothing comes before `found`.
                here = max(here, tick - _AROUND)
            stretch = stretch_at(self.zone, here)
            wall = self._first_wall(stretch)
        return None

    def at_or_before(self, instant: datetime) -> datetime | None:
        """The last tick that is not later than ``instant``."""
        if instant <= EARLIEST:
            return None
        here = min(instant, LATEST)
        stretch = stretch_at(self.zone, here)
        wall = _wall(here, stretch)
        while here > EARLIEST:
            found = wall_at_or_before(self.fields, wall)
            if found is None:
                return None
            if found >= self._first_wall(stretch):
                return max(_instant(found, stretch), stretch.start)
            here = stretch.start - _MOMENT
            if instant - here > _AROUND:
                here = min(here, _instant(found, stretch) + _AROUND)
            stretch = stretch_at(self.zone, here)
            wall = _wall(stretch.end - _MOMENT, stretch)
        return None

    def _first_wall(self, stretch: Stretch) -> datetime:
        return stretch.start.replace(tzinfo=None) + (stretch.before if self.shifting else stretch.offset)


def _wall(instant: datetime, stretch: Stretch) -> datetime:
    return instant.replace(tzinfo=None) + stretch.offset


def _instant(wall: datetime, stretch: Stretch) -> datetime:
    return (wall - stretch.offset).replace(tzinfo=UTC)


def wall_at_or_after(fields: CronFields, wall: datetime) -> datetime | None:
    """The first matching minute from ``wall`` on, by the calendar alone."""
    minute = wall.replace(second=0, microsecond=0)
    if minute < wall:
        minute += _MINUTE
    if minute.day in fields.days_of(minute.year, minute.month):
        hour = minute.hour
        if hour in fields.hours:
            for candidate in fields.minutes:
                if candidate >= minute.minute:
                    return minute.replace(minute=candidate)
        for candidate in fields.hours:
            if candidate > hour:
                return minute.replace(hour=candidate, minute=fields.minutes[0])
    today = minute.day
    for year, month in _months(minute.year, minute.month, 1):
        for day in fields.days_of(year, month):
            if day > today:
                return datetime(year, month, day, fields.hours[0], fields.minutes[0])  # noqa: DTZ001
        today = 0
    return None


def wall_at_or_before(fields: CronFields, wall: datetime) -> datetime | None:
    """The last matching minute up to ``wall``, by the calendar alone."""
    minute = wall.replace(second=0, microsecond=0)
    if minute.day in fields.days_of(minute.year, minute.month):
        hour = minute.hour
        if hour in fields.hours:
            for candidate in reversed(fields.minutes):
                if candidate <= minute.minute:
                    return minute.replace(minute=candidate)
        for candidate in reversed(fields.hours):
            if candidate < hour:
                return minute.replace(hour=candidate, minute=fields.minutes[-1])
    today = minute.day
    for year, month in _months(minute.year, minute.month, -1):
        for day in reversed(fields.days_of(year, month)):
            if day < today:
                return datetime(year, month, day, fields.hours[-1], fields.minutes[-1])  # noqa: DTZ001
        today = 32
    return None


def _months(year: int, month: int, step: int) -> Iterator[tuple[int, int]]:
    """(year, month) from here, one after the other, as far as any expression needs."""
    number = year * 12 + month - 1
    for _ in range(_MONTHS_AHEAD):
        yield number // 12, number % 12 + 1
        number += step
