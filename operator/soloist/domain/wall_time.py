"""Times as people write and read them, in the zone of a job: the one place where a wall clock is turned into an instant.

A wall time may come twice or not at all. One that comes twice gives both instants, earliest first; one that is skipped
gives the instant at which the clock jumped over it, which is when Debian's rule runs such a job, and says so.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from soloist.domain.zones import Stretch, stretch_at

_MOMENT = timedelta(microseconds=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The instants that a text may mean, and what a person should know about that."""

    instants: tuple[datetime, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A text that is no time; ``message`` says what to write."""

    message: str


def read_time(text: str, zone: ZoneInfo, now: datetime) -> Asked | Unreadable:
    """``now``, RFC 3339, a date and time in ``zone``, or a time of day: the latest such that is not ahead."""
    wanted = text.strip()
    if wanted == "now":
        return Asked(instants=(now.replace(microsecond=0),))
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", wanted):
            return _latest(datetime.strptime(wanted, "%H:%M" if wanted.count(":") == 1 else "%H:%M:%S"), zone, now)  # noqa: DTZ007
        moment = datetime.fromisoformat(wanted).replace(microsecond=0)
        if not 1970 <= moment.year < 9000:
            raise ValueError(f"year {moment.year}")
    except (ValueError, OverflowError):
        example = now.astimezone(zone)
        remedy = f'write a time such as {example:%H:%M}, "{example:%Y-%m-%d %H:%M}" (both in {zone}), or {now:%Y-%m-%dT%H:%M:%SZ}.'
        return Unreadable(message=f'"{text}" is not a time: {remedy}')
    if moment.tzinfo is not None:
        return Asked(instants=(moment.astimezone(UTC),))
    return _instants(moment, zone)


def shown(moment: datetime, zone: ZoneInfo) -> str:
    """Such as "2026-10-25 02:00 CEST"; seconds where there are some. The abbreviation tells repeated hours apart."""
    local = moment.astimezone(zone)
    name = local.strftime("%Z")
    seconds = f":{local:%S}" if local.second else ""
    return f"{local:%Y-%m-%d %H:%M}{seconds} {'UTC' if name[:1] in '+-' else ''}{name}"


def span(length: timedelta) -> str:
    """Such as 40ms, 2.5s, 90s, 5m20s, 3h10m or 12d: as kubectl does, and finer below ten seconds."""
    seconds = abs(length.total_seconds())
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = int(seconds)
    for size, unit, below, part, smaller in (
        (1, "s", 120, 0, ""),
        (60, "m", 600, 1, "s"),
        (60, "m", 3 * 3600, 0, ""),
        (3600, "h", 8 * 3600, 60, "m"),
        (3600, "h", 48 * 3600, 0, ""),
        (86400, "d", 8 * 86400, 3600, "h"),
    ):
        if whole < below:
            rest = whole % size // part if part else 0
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole // 86400}d"


def away(moment: datetime, now: datetime) -> str:
    """Such as "3m ago" or "in 22h"."""
    return f"in {span(moment - now)}" if moment > now else f"{span(now - moment)} ago"


def _latest(time_of_day: datetime, zone: ZoneInfo, now: datetime) -> Asked:
    today = now.astimezone(zone).replace(tzinfo=None)
    for back in range(3):
        wall = (today - back * _DAY).replace(
            hour=time_of_day.hour, minute=time_of_day.minute, second=time_of_day.second
        )
        asked = _instants(wall.replace(microsecond=0), zone)
        past = tuple(instant for instant in asked.instants if instant <= now)
        if past:
            return Asked(instants=past, note=asked.note)
    raise AssertionError("every time of day has come within two days")


def _instants(wall: datetime, zone: ZoneInfo) -> Asked:
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return Asked(instants=(first,))
    if first.astimezone(zone).replace(tzinfo=None) == wall:
        note = f"{wall:%H:%M} came twice on {wall:%Y-%m-%d}: {shown(first, zone)} and {shown(second, zone)}."
        return Asked(instants=(first, second), note=note)
    change = change_before(zone, first)
    note = f"{wall:%H:%M} did not exist on {wall:%Y-%m-%d}: the clock jumped over it, to {shown(change.start, zone)}."
    return Asked(instants=(change.start,), note=note)


def change_before(zone: ZoneInfo, instant: datetime) -> Stretch:
    """The stretch that began with the last change of the clock at or before ``instant``, which must have one."""
    stretch = stretch_at(zone, instant)
    while stretch.before == stretch.offset:
        stretch = stretch_at(zone, stretch.start - _MOMENT)
    return stretch
