"""Time zones: which names are good, and the stretches of time in which a zone keeps one offset.

Within a stretch the wall clock runs as evenly as UTC, so walking it is plain arithmetic; everything that is odd about
daylight saving happens where one stretch meets the next. Stretches come in blocks of 32 days, found by asking the zone once a day
and bisecting where the answer changes: no zone has changed twice within a day, nor within four since 1939. A block's edge
may cut a stretch in two, which changes nothing, as both halves have one offset.
"""

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, available_timezones

from soloist.domain.cron_fields import InvalidSchedule

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BLOCK = timedelta(days=32)
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_NOT_PLACES = frozenset({"localtime", "Factory", "posixrules"})
_ABBREVIATIONS = {
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
    "MDT": "America/Denver",
    "CST": "America/Chicago",
    "CDT": "America/Chicago",
    "EDT": "America/New_York",
    "BST": "Europe/London",
    "CEST": "Europe/Berlin",
    "EEST": "Europe/Athens",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "AEST": "Australia/Sydney",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """From ``start`` up to, not including, ``end`` the wall clock is UTC + ``offset``; before ``start`` it was UTC + ``before``."""

    start: datetime
    end: datetime
    offset: timedelta
    before: timedelta


def find_zone(name: str) -> ZoneInfo:
    """The IANA zone of exactly this name; raises InvalidSchedule with the closest name that exists."""
    if name not in _names():
        raise InvalidSchedule("timeZone", "UnknownTimeZone", f'timeZone "{name[:60]}" {_remedy(name)}')
    return ZoneInfo(name)


def stretch_at(zone: ZoneInfo, instant: datetime) -> Stretch:
    """The stretch, or the part of it in this block, that holds ``instant``."""
    for stretch in _block(zone, (instant - _EPOCH) // _BLOCK):
        if instant < stretch.end:
            return stretch
    raise AssertionError("a block covers every instant in it")


@lru_cache(maxsize=4096)
def _block(zone: ZoneInfo, number: int) -> tuple[Stretch, ...]:
    edge = _EPOCH + number * _BLOCK
    stretches: list[Stretch] = []
    start, before, offset = edge, _offset(zone, edge - _SECOND), _offset(zone, edge)
    for day in range(1, _BLOCK // _DAY + 1):
        probe = edge + day * _DAY
        # The last probe is the next block's first instant; a change right there belongs to that block.
        now = _offset(zone, probe if probe < edge + _BLOCK else probe - _SECOND)
        if now != offset:
            change = _change(zone, probe - _DAY, probe)
            stretches.append(Stretch(start, change, offset, before))
            start, before, offset = change, offset, now
    stretches.append(Stretch(start, edge + _BLOCK, offset, before))
    return tuple(stretches)


def _change(zone: ZoneInfo, old: datetime, new: datetime) -> datetime:
    """The first second of the new offset, between an instant of the old one and one of the new."""
    offset = _offset(zone, old)
    low, high = 0, (new - old) // _SECOND
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, old + middle * _SECOND) == offset:
            low = middle
        else:
            high = middle
    return old + high * _SECOND


def _offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta(0)


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones()) - _NOT_PLACES


def _remedy(name: str) -> str:
    if not name.strip():
        return "is empty: write an IANA name such as Europe/Berlin, or UTC."
    if name.lower() in ("local", "localtime"):
        return "would mean the zone of whichever node we run on: write an IANA name such as Europe/Berlin, or UTC."
    if match := re.fullmatch(r"(?:UTC|GMT|Z)? ?([+-]) ?(\d{1,2})(?::?(\d{2}))?", name.strip(), re.IGNORECASE):
        fixed = f"Etc/GMT{'-' if match[1] == '+' else '+'}{int(match[2])}"
        known = fixed in _names() and int(match[3] or 0) == 0
        place = f"the place, such as Europe/Berlin{f', or {fixed} (its sign is turned round)' if known else ''}"
        return f"is an offset, which knows no daylight saving: write {place}."
    closest = _closest(name)
    if closest is None:
        return "is not an IANA zone: write a name such as Europe/Berlin, America/New_York or UTC (capitals count)."
    return f"is not an IANA zone (capitals count): did you mean {closest}?"


def _closest(name: str) -> str | None:
    wanted = name.strip().lower().replace(" ", "_")
    if wanted.upper() in _ABBREVIATIONS:
        return _ABBREVIATIONS[wanted.upper()]
    by_lower = {known.lower(): known for known in sorted(_names())}
    by_city = {known.rpartition("/")[2]: known for known in by_lower}
    for spelling in (wanted, by_city.get(wanted.rpartition("/")[2], "")):
        if spelling in by_lower:
            return by_lower[spelling]
    for close in difflib.get_close_matches(wanted, by_lower, n=1, cutoff=0.75):
        return by_lower[close]
    for close in difflib.get_close_matches(wanted, by_city, n=1, cutoff=0.75):
        return by_lower[by_city[close]]
    return None
