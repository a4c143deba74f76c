"""The five fields of a cron expression, read once into sets that can be walked.

cronsim parses and validates, with the meaning of Debian's cron: names, lists, ranges, steps, ``L``, ``LW``, ``5L`` and ``MON#2``;
day-of-month and day-of-week must both match where either begins with a star, else one is enough. We only take its sets,
and refuse the few spellings that it reads otherwise than people mean them.

The Gregorian calendar knows 28 kinds of month (four lengths, seven first weekdays), and each length comes with each first weekday.
So the matching days are worked out once per kind, and an expression whose every kind is empty never comes: no search can run away.
"""

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

FIELD_NAMES = ("minute", "hour", "day-of-month", "month", "day-of-week")
_ALLOWED = {
    "minute": "0-59, such as 0, */15, 10-20 or 5,35",
    "hour": "0-23, such as 2, */6, 9-17 or 0,12",
    "day-of-month": "1-31, L (the last day) or LW (the last Monday-to-Friday day), such as 1, */2 or 1,15",
    "month": "1-12 or JAN-DEC, such as 1, */3 or JUN-AUG",
    "day-of-week": "0-7 or SUN-SAT (0 and 7 are Sunday), 5L (the last Friday) or MON#2 (the second Monday), such as MON-FRI",
}
_BOUNDS = {"minute": (0, 59), "hour": (0, 23), "day-of-month": (1, 31), "month": (1, 12), "day-of-week": (0, 7)}
_LONGEST_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SHOWN = 60


class InvalidSchedule(ValueError):
    """A schedule or zone that is refused: ``field`` of the spec, ``reason`` in CamelCase, ``message`` a sentence with the remedy."""

    def __init__(self, field: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.reason = reason
        self.message = message


def refusal(text: str, reason: str, remedy: str) -> InvalidSchedule:
    """The schedule ``text`` is refused; ``remedy`` ends the sentence."""
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return InvalidSchedule("schedule", reason, f'schedule "{shown}" {remedy}')


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFields:
    """What matches. ``fixed`` is Debian's word for a job whose minute and hour both begin without a star."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: frozenset[int]
    days: tuple[tuple[int, ...], ...]
    fixed: bool
    sentence: str

    def days_of(self, year: int, month: int) -> tuple[int, ...]:
        """Days of this month that match, ascending; empty where the month does not."""
        if month not in self.months:
            return ()
        first, length = calendar.monthrange(year, month)
        return self.days[_kind(first, length)]


def parse_cron(text: str) -> CronFields:
    """Read five fields; raises InvalidSchedule."""
    parts = text.upper().split()
    if len(parts) != len(FIELD_NAMES):
        raise _wrong_count(text, parts)
    for name, part in zip(FIELD_NAMES, parts, strict=True):
        _check_field(text, name, part)
    try:
        parsed = CronSim(" ".join(parts), datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise _never(text) from error
    days = _days_by_kind(frozenset(parsed.days), frozenset(parsed.weekdays), parsed.day_and)
    if not any(days[_kind(first, n)] for month in parsed.months for n in _lengths(month) for first in range(7)):
        raise _never(text)
    return CronFields(
        minutes=tuple(sorted(parsed.minutes)),
        hours=tuple(sorted(parsed.hours)),
        months=frozenset(parsed.months),
        days=days,
        fixed=not parts[0].startswith("*") and not parts[1].startswith("*"),
        sentence=parsed.explain(),
    )


def _check_field(text: str, name: str, part: str) -> None:
    """Each field is tried alone, so that the message can name it."""
    try:
        _alone(name, part)
    except CronSimError as error:
        raise refusal(text, *_what_is_wrong(name, part)) from error
    for term in part.split(","):
        start, slash, step = term.partition("/")
        if slash and start in ("L", "LW"):
            raise refusal(text, "InvalidField", f'has a step on the last day, "{part}": write L or LW alone.')
        if slash and "-" in start and len(_alone(name, start)) == 1:
            # cronsim would run on from there to the end of the field.
            first = start.partition("-")[0]
            raise refusal(text, "InvalidField", f'has a step in a range of one {name}, "{term}": write {first}.')
        if slash and name == "day-of-week" and "-" not in start and start != "*":
            remedy = f"write {start}-SAT/{step} or, with Sunday at the end, {start}-7/{step}."
            raise refusal(text, "InvalidField", f'does not say where day-of-week "{term}" ends: {remedy}')


def _alone(name: str, part: str) -> set[int | tuple[int, int]]:
    """What ``part`` means in the field ``name``, the others being stars; raises CronSimError."""
    fields = ["*"] * len(FIELD_NAMES)
    place = FIELD_NAMES.index(name)
    fields[place] = part
    parsed = CronSim(" ".join(fields), datetime(2000, 1, 1, tzinfo=UTC))
    return set((parsed.minutes, parsed.hours, parsed.days, parsed.months, parsed.weekdays)[place])


def _what_is_wrong(name: str, part: str) -> tuple[str, str]:
    low, high = _BOUNDS[name]
    if part == "R" or part.startswith("R("):
        return (
            "RandomField",
            f'asks for a random {name}, "{part}", which every replica would draw anew: write a number.',
        )
    if "?" in part:
        return "InvalidField", f'has {name} "{part}": write * instead of ?.'
    if name == "day-of-month" and re.search(r"\dW|W\d", part):
        return (
            "InvalidField",
            f'has day-of-month "{part}", the weekday nearest to a date, which is not supported: write LW or a date.',
        )
    if re.search(r"/0*(?:$|,)", part):
        return "InvalidField", f'has a step of zero or none in {name} "{part}": write */1 or more.'
    for start, end in re.findall(r"(\d+)-(\d+)", part):
        if low <= int(end) < int(start) <= high:
            return (
                "InvalidField",
                f'has a {name} range that goes backwards, "{part}": write {start}-{high},{low}-{end}.',
            )
    if any(not low <= int(number) <= high for number in re.findall(r"(?<![/#\d])\d+", part)):
        return "OutOfRange", f'has {name} "{part}", which is out of range: write {_ALLOWED[name]}.'
    return "InvalidField", f'has {name} "{part}", which cannot be read: write {_ALLOWED[name]}.'


def _wrong_count(text: str, parts: list[str]) -> InvalidSchedule:
    fields = "minute hour day-of-month month day-of-week"
    if len(parts) in (6, 7):
        extra = "seconds and years" if len(parts) == 7 else "seconds"
        remedy = f'has {len(parts)} fields; {extra} are not supported: write five, {fields}, or an interval such as "@every 30s".'
        return refusal(text, "WrongFieldCount", remedy)
    counted = "1 field" if len(parts) == 1 else f"{len(parts)} fields"
    return refusal(text, "WrongFieldCount", f'has {counted}: write five, {fields}, such as "0 2 * * *".')


def _never(text: str) -> InvalidSchedule:
    remedy = "names a date that never comes: write a day that the month has, or L for its last day."
    return refusal(text, "NeverComes", remedy)


def _kind(first_weekday: int, length: int) -> int:
    return (length - 28) * 7 + first_weekday


def _lengths(month: int) -> tuple[int, ...]:
    return (28, 29) if month == 2 else (_LONGEST_MONTH[month - 1],)


@lru_cache(maxsize=512)
def _days_by_kind(
    days: frozenset[int], weekdays: frozenset[int | tuple[int, int]], both: bool
) -> tuple[tuple[int, ...], ...]:
    """For each kind of month the days that match."""

    def matches(day: int, first: int, length: int) -> bool:
        weekday = (first + day - 1) % 7
        by_date = day in days or (CronSim.LAST in days and day == length)
        by_date = by_date or (CronSim.LAST_WEEKDAY in days and day == _last_working_day(first, length))
        names = (weekday + 1, (weekday + 1) % 7)
        places = (CronSim.LAST if day + 7 > length else None, (day + 6) // 7)
        by_weekday = any(name in weekdays or any((name, place) in weekdays for place in places) for name in names)
        return (by_date and by_weekday) if both else (by_date or by_weekday)

    return tuple(
        tuple(day for day in range(1, length + 1) if matches(day, first, length))
        for length in range(28, 32)
        for first in range(7)
    )


def _last_working_day(first_weekday: int, length: int) -> int:
    last = (first_weekday + length - 1) % 7
    return length - max(0, last - 4)
