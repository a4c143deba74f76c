"""When a job is due: ``parse_schedule`` reads what a person wrote, ``Schedule`` tells its ticks.

A tick is a UTC instant and nothing else, so that one time has one name whatever the zone does. ``next_after`` and ``newest`` are
pure: from any base, on any replica, at any later time they name the same ticks, and no search is unbounded.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from soloist.domain.cron_fields import InvalidSchedule, parse_cron, refusal
from soloist.domain.every import Every, parse_every
from soloist.domain.walk import CronWalk
from soloist.domain.zones import find_zone

__all__ = ["DaylightSaving", "InvalidSchedule", "Schedule", "parse_schedule"]

_MOMENT = timedelta(microseconds=1)
_LONGEST_TEXT = 256
_SPANS = 4
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class DaylightSaving(StrEnum):
    """What a clock that is set forward or back does to a job.

    ``SHIFT`` is Debian's rule: a job with a fixed time whose time is skipped runs right after the gap, once, and in a repeated hour
    runs in the first pass only; a job whose minute or hour begins with a star follows real time.
    ``WALL_CLOCK`` is CronJob's: a skipped time never comes, a repeated one comes twice.
    """

    SHIFT = "Shift"
    WALL_CLOCK = "WallClock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The ticks of one schedule in one zone; made by ``parse_schedule``."""

    text: str
    time_zone: str
    daylight_saving: DaylightSaving
    ticks: CronWalk | Every
    spans: list[tuple[datetime, datetime]] = field(default_factory=list, compare=False, repr=False)
    """Stretches without a tick, each to the tick at its end: where the walk has been lately it need not go again."""

    def next_after(self, t: datetime) -> datetime | None:
        """The first tick strictly later than ``t``, in UTC; None only past the year 9900."""
        here = _utc(t)
        for since, tick in self.spans:
            if since <= here < tick:
                return tick
        found = self.ticks.after(here)
        if found is not None:
            self.spans[:] = [(here, found), *self.spans[: _SPANS - 1]]
        return found

    def newest(self, *, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The newest ``limit`` ticks in (after, until], oldest first; costs by ``limit``, not by the length of the interval."""
        oldest, here = _utc(after), _utc(until)
        found: list[datetime] = []
        first = self.next_after(oldest)
        if first is None or first > here:
            return found
        while len(found) < limit and here > oldest:
            tick = self.ticks.at_or_before(here)
            if tick is None or tick <= oldest:
                break
            found.append(tick)
            here = tick - _MOMENT
        found.reverse()
        return found

    def describe(self) -> str:
        """A sentence for people, such as "At 02:30 every day, in Europe/Berlin"."""
        if isinstance(self.ticks, Every):
            return self.ticks.sentence
        return f"{self.ticks.fields.sentence}, in {self.time_zone}"


@lru_cache(maxsize=4096)
def parse_schedule(text: str, zone: str = "UTC", policy: DaylightSaving = DaylightSaving.SHIFT) -> Schedule:
    """Read a schedule and its zone, or raise InvalidSchedule with a sentence that says what to write."""
    wanted = text.strip()
    if not wanted:
        raise refusal(text, "EmptySchedule", 'is empty: write five fields, such as "0 2 * * *", or "@every 30s".')
    if len(text) > _LONGEST_TEXT:
        remedy = f"is {len(text)} characters long: write at most {_LONGEST_TEXT}, or split it into several jobs."
        raise refusal(text, "ScheduleTooLong", remedy)
    if match := re.match(r"(?:CRON_)?TZ\s*=\s*(\S*)\s*(.*)", wanted, re.IGNORECASE | re.DOTALL):
        remedy = f'has its zone inside: write schedule "{match[2]}" and timeZone "{match[1]}".'
        raise refusal(text, "ZoneInSchedule", remedy)
    place = find_zone(zone)
    if wanted.split()[0] == "@every":
        return Schedule(text=wanted, time_zone=zone, daylight_saving=policy, ticks=parse_every(wanted))
    fields = parse_cron(_expanded(wanted))
    # A zone without changes needs no policy; both walks are then the same.
    walk = CronWalk(fields=fields, zone=place, shifting=fields.fixed and policy == DaylightSaving.SHIFT)
    return Schedule(text=wanted, time_zone=zone, daylight_saving=policy, ticks=walk)


def _expanded(text: str) -> str:
    if not text.startswith("@"):
        return text
    if text == "@reboot":
        raise refusal(
            text, "UnsupportedMacro", 'names no time: write five fields, such as "0 2 * * *", or "@every 30s".'
        )
    if text not in _MACROS:
        known = ", ".join(_MACROS)
        near = f"did you mean {text.lower()}?" if text.lower() in _MACROS else f'write one of {known}, or "@every 30s".'
        raise refusal(text, "UnknownMacro", f"is not a known macro: {near}")
    return _MACROS[text]


def _utc(t: datetime) -> datetime:
    if t.tzinfo is None:
        raise ValueError(f"{t.isoformat()} has no zone; pass an aware datetime")
    return t.astimezone(UTC)
