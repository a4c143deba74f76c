"""``soloist preview``: the next times of a schedule or of a manifest, and what the clock changes of a year do to it.

Pure but for reading the file: it needs no cluster, so it can be asked before anything is applied.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import yaml

from soloist.domain.instants import stamp
from soloist.domain.schedule import DaylightSaving, InvalidSchedule, Schedule, parse_schedule
from soloist.domain.spec import Invalid, parse_spec
from soloist.domain.walk import CronWalk, wall_at_or_after
from soloist.domain.wall_time import Unreadable, away, read_time, shown, span
from soloist.domain.zones import Stretch, stretch_at
from soloist.shells.cli_text import Complaint, WrongWords, indented, table

_YEAR = timedelta(days=366)
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """A schedule with the name it goes by, and notes on it that are not of its clock."""

    name: str
    schedule: Schedule
    notes: tuple[str, ...] = ()


def from_text(text: str, zone: str, policy: str) -> Previewed:
    try:
        return Previewed(name=f'"{text}"', schedule=parse_schedule(text, zone, DaylightSaving(policy)))
    except InvalidSchedule as error:
        raise Complaint(error.message) from error


def from_file(file: str) -> list[Previewed]:
    """Every ScheduledJob of a manifest; "-" is stdin."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        documents = [document for document in yaml.safe_load_all(text) if isinstance(document, dict)]
    except OSError as error:
        raise Complaint(f"{file} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise Complaint(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    items = [item for document in documents for item in _items(document)]
    jobs = [item for item in items if item.get("kind") == "ScheduledJob"]
    if not jobs:
        kinds = ", ".join(sorted({str(item.get("kind")) for item in items})) or "nothing"
        raise Complaint(f"There is no ScheduledJob in {file}, but {kinds}.")
    return [_of_manifest(job) for job in jobs]


def _items(document: dict[str, Any]) -> list[dict[str, Any]]:
    listed = document.get("items") if str(document.get("kind", "")).endswith("List") else None
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else [document]


def _of_manifest(job: dict[str, Any]) -> Previewed:
    metadata = job.get("metadata") if isinstance(job.get("metadata"), dict) else {}
    name = str((metadata or {}).get("name") or "without a name")
    raw = job.get("spec")
    spec = parse_spec(raw if isinstance(raw, dict) else {})
    if isinstance(spec, Invalid):
        raise Complaint(f"{name}: {spec.message}")
    notes = []
    if spec.suspend:
        notes.append("spec.suspend is true: none of these is launched until it is false.")
    if spec.jitter:
        notes.append(
            f"spec.jitterSeconds: each is launched up to {span(spec.jitter)} later, the same for a time on every replica."
        )
    return Previewed(name=name, schedule=spec.schedule, notes=tuple(notes))


def base_time(text: str | None, zone: ZoneInfo, now: datetime) -> datetime:
    """From when on to look; a person's words are read in the zone of the schedule."""
    if text is None:
        return now
    asked = read_time(text, zone, now)
    if isinstance(asked, Unreadable):
        raise WrongWords(asked.message)
    return asked.instants[0]


def preview(each: Previewed, *, start: str | None, now: datetime, count: int) -> tuple[dict[str, Any], list[str]]:
    """The next ``count`` times after ``start`` (as a person writes it), and notes."""
    schedule, zone = each.schedule, ZoneInfo(each.schedule.time_zone)
    base = base_time(start, zone, now)
    times = list(_times(schedule, base, count))
    notes = [*each.notes, *changes(schedule, base, base + _YEAR)]
    document = {
        "name": each.name,
        "schedule": schedule.text,
        "timeZone": schedule.time_zone,
        "daylightSaving": str(schedule.daylight_saving),
        "describes": schedule.describe(),
        "times": [{"utc": stamp(time), "local": time.astimezone(zone).isoformat()} for time in times],
        "notes": notes,
    }
    rows = ([f"{time.astimezone(zone):%a}", shown(time, zone), stamp(time), away(time, now)] for time in times)
    lines = [f"{each.name}: {schedule.describe()}", *indented(table(["", "LOCAL", "UTC", "AWAY"], rows))]
    return document, [*lines, *(f"Note: {note}" for note in notes)]


def _times(schedule: Schedule, base: datetime, count: int) -> Iterator[datetime]:
    here = base
    for _ in range(count):
        following = schedule.next_after(here)
        if following is None:
            return
        yield following
        here = following


def changes(schedule: Schedule, start: datetime, end: datetime) -> Iterator[str]:
    """What each change of the zone's clock in (start, end] does to the schedule, where it does anything."""
    if not isinstance(schedule.ticks, CronWalk):
        return
    zone = schedule.ticks.zone
    stretch = stretch_at(zone, start)
    while stretch.end <= min(end, datetime(9000, 1, 1, tzinfo=UTC)):
        stretch = stretch_at(zone, stretch.end)
        if stretch.before != stretch.offset:
            yield from _change(schedule, schedule.ticks, stretch)


def _change(schedule: Schedule, walk: CronWalk, stretch: Stretch) -> Iterator[str]:
    """``stretch`` begins with a change of the clock. A job of every hour follows real time, and nothing happens to it."""
    if len(walk.fields.hours) == 24 and not walk.shifting:
        return
    before, after = (stretch.start.replace(tzinfo=None) + offset for offset in (stretch.before, stretch.offset))
    forward = after > before
    walls = list(_walls(walk, min(before, after), max(before, after)))
    if not walls:
        return
    jump = (
        f"On {before:%Y-%m-%d} the clock goes {'forward' if forward else 'back'} from {before:%H:%M} to {after:%H:%M}"
    )
    named = ", ".join(f"{wall:%H:%M}" for wall in walls[:3]) + (f" and {len(walls) - 3} more" if len(walls) > 3 else "")
    length = abs(after - before)
    window = (
        (stretch.start - _SECOND, stretch.start)
        if forward
        else (stretch.start - length - _SECOND, stretch.start + length - _SECOND)
    )
    runs = schedule.newest(after=window[0], until=window[1], limit=len(walls) * 2)
    at = ", ".join(shown(run, walk.zone) for run in runs[:4])
    if forward:
        became = f"it is due once, at {at}" if walk.shifting and runs else "it is not due then"
        yield f"{jump}: {named} {'do' if len(walls) > 1 else 'does'} not exist, and {became} (daylightSaving: {schedule.daylight_saving})."
    else:
        became = f"it is due once, at {at}" if len(runs) <= len(walls) else f"it is due each time: {at}"
        yield f"{jump}: {named} {'come' if len(walls) > 1 else 'comes'} twice, and {became} (daylightSaving: {schedule.daylight_saving})."


def _walls(walk: CronWalk, first: datetime, end: datetime) -> Iterable[datetime]:
    """Matching wall times in [first, end)."""
    here: datetime | None = first
    while here is not None and (here := wall_at_or_after(walk.fields, here)) is not None and here < end:
        yield here
        here += _MINUTE
