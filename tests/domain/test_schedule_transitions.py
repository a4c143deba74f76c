"""What both policies do when a clock is set forward or back, case by case.

The column ``shift`` is what Debian's cron 3.0pl1-162 did when it was run through these nights; ``wall_clock`` is what robfig/cron, and so the
CronJob controller, does. Local times with their offset; "02:30+02" and "02:30+01" are the two passes of one repeated hour.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from soloist.domain.schedule import DaylightSaving, parse_schedule


@dataclass(frozen=True, kw_only=True)
class Night:
    """From ``start`` for ``hours`` of real time."""

    name: str
    zone: str
    start: str
    hours: float


BERLIN_SPRING = Night(name="Berlin 02:00→03:00", zone="Europe/Berlin", start="2026-03-29T01:45+01:00", hours=2)
BERLIN_FALL = Night(name="Berlin 03:00→02:00", zone="Europe/Berlin", start="2026-10-25T01:45+02:00", hours=3)
NEW_YORK_SPRING = Night(name="New York 02:00→03:00", zone="America/New_York", start="2026-03-08T01:45-05:00", hours=3)
NEW_YORK_FALL = Night(name="New York 02:00→01:00", zone="America/New_York", start="2026-11-01T00:45-04:00", hours=3)
LORD_HOWE_SPRING = Night(
    name="Lord Howe 02:00→02:30", zone="Australia/Lord_Howe", start="2026-10-04T01:40+10:30", hours=1.5
)
LORD_HOWE_FALL = Night(
    name="Lord Howe 02:00→01:30", zone="Australia/Lord_Howe", start="2026-04-05T01:20+11:00", hours=2
)
SAO_PAULO_SPRING = Night(
    name="São Paulo 00:00→01:00", zone="America/Sao_Paulo", start="2018-11-03T23:30-03:00", hours=3
)
APIA = Night(name="Apia without 30 December", zone="Pacific/Apia", start="2011-12-29T22:00-10:00", hours=8)
# Changes at midnight UTC on days whose number since 1970 is a multiple of 32, where a walk in blocks has its seams.
JERUSALEM_SPRING = Night(name="Jerusalem 02:00→03:00", zone="Asia/Jerusalem", start="2019-03-29T01:45+02:00", hours=2)
TUNIS_FALL = Night(name="Tunis 02:00→01:00", zone="Africa/Tunis", start="2005-09-30T00:45+02:00", hours=3)


@dataclass(frozen=True, kw_only=True)
class Case:
    night: Night
    cron: str
    shift: str
    wall_clock: str


CASES = [
    Case(night=BERLIN_SPRING, cron="30 2 * * *", shift="03:00+02", wall_clock=""),
    Case(night=BERLIN_SPRING, cron="*/20 2 * * *", shift="", wall_clock=""),
    Case(night=BERLIN_SPRING, cron="0 */2 * * *", shift="04:00+02", wall_clock="04:00+02"),
    Case(night=BERLIN_SPRING, cron="5 2,3 * * *", shift="03:00+02 03:05+02", wall_clock="03:05+02"),
    Case(night=BERLIN_SPRING, cron="30 * * * *", shift="03:30+02 04:30+02", wall_clock="03:30+02 04:30+02"),
    Case(night=BERLIN_SPRING, cron="0,10,20 2 * * *", shift="03:00+02", wall_clock=""),
    Case(night=BERLIN_SPRING, cron="0 2,3 * * *", shift="03:00+02", wall_clock="03:00+02"),
    Case(night=BERLIN_SPRING, cron="30 2 29 3 *", shift="03:00+02", wall_clock=""),
    Case(night=BERLIN_FALL, cron="30 2 * * *", shift="02:30+02", wall_clock="02:30+02 02:30+01"),
    Case(
        night=BERLIN_FALL,
        cron="*/20 2 * * *",
        shift="02:00+02 02:20+02 02:40+02 02:00+01 02:20+01 02:40+01",
        wall_clock="02:00+02 02:20+02 02:40+02 02:00+01 02:20+01 02:40+01",
    ),
    Case(night=BERLIN_FALL, cron="5 2,3 * * *", shift="02:05+02 03:05+01", wall_clock="02:05+02 02:05+01 03:05+01"),
    Case(
        night=BERLIN_FALL,
        cron="30 * * * *",
        shift="02:30+02 02:30+01 03:30+01",
        wall_clock="02:30+02 02:30+01 03:30+01",
    ),
    Case(night=BERLIN_FALL, cron="0 3 * * *", shift="03:00+01", wall_clock="03:00+01"),
    Case(night=BERLIN_FALL, cron="30 2 25 10 *", shift="02:30+02", wall_clock="02:30+02 02:30+01"),
    Case(night=NEW_YORK_SPRING, cron="30 2 * * *", shift="03:00-04", wall_clock=""),
    Case(night=NEW_YORK_FALL, cron="30 1 * * *", shift="01:30-04", wall_clock="01:30-04 01:30-05"),
    Case(night=LORD_HOWE_SPRING, cron="15 2 * * *", shift="02:30+11", wall_clock=""),
    Case(night=LORD_HOWE_SPRING, cron="0 * * * *", shift="03:00+11", wall_clock="03:00+11"),
    Case(night=LORD_HOWE_FALL, cron="45 1 * * *", shift="01:45+11", wall_clock="01:45+11 01:45+1030"),
    Case(
        night=LORD_HOWE_FALL,
        cron="*/15 * * * *",
        shift="01:30+11 01:45+11 01:30+1030 01:45+1030 02:00+1030 02:15+1030 02:30+1030 02:45+1030",
        wall_clock="01:30+11 01:45+11 01:30+1030 01:45+1030 02:00+1030 02:15+1030 02:30+1030 02:45+1030",
    ),
    Case(
        night=LORD_HOWE_FALL,
        cron="45 * * * *",
        shift="01:45+11 01:45+1030 02:45+1030",
        wall_clock="01:45+11 01:45+1030 02:45+1030",
    ),
    Case(night=SAO_PAULO_SPRING, cron="0 0 * * *", shift="01:00-02", wall_clock=""),
    Case(night=SAO_PAULO_SPRING, cron="@daily", shift="01:00-02", wall_clock=""),
    Case(
        night=SAO_PAULO_SPRING,
        cron="@hourly",
        shift="01:00-02 02:00-02 03:00-02",
        wall_clock="01:00-02 02:00-02 03:00-02",
    ),
    Case(night=JERUSALEM_SPRING, cron="30 2 * * *", shift="03:00+03", wall_clock=""),
    Case(night=TUNIS_FALL, cron="30 1 * * *", shift="01:30+02", wall_clock="01:30+02 01:30+01"),
    Case(night=APIA, cron="30 2 * * *", shift="00:00+14 02:30+14", wall_clock="02:30+14"),
    Case(night=APIA, cron="0 12 30 12 *", shift="00:00+14", wall_clock=""),
    Case(night=APIA, cron="0 23 * * *", shift="23:00-10 00:00+14", wall_clock="23:00-10"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.night.name}, {case.cron}")
@pytest.mark.parametrize("policy", DaylightSaving)
def test_a_clock_that_is_set_moves_a_job_as_its_policy_says(case: Case, policy: DaylightSaving) -> None:
    """temporal #8205."""
    schedule = parse_schedule(case.cron, case.night.zone, policy)
    zone = ZoneInfo(case.night.zone)
    start = datetime.fromisoformat(case.night.start).astimezone(UTC)
    end = start + timedelta(hours=case.night.hours)
    ticks = []
    tick = schedule.next_after(start)
    while tick is not None and tick <= end:
        ticks.append(tick)
        tick = schedule.next_after(tick)
    expected = case.shift if policy is DaylightSaving.SHIFT else case.wall_clock
    assert " ".join(_local(tick, zone) for tick in ticks) == expected
    assert schedule.newest(after=start, until=end, limit=100) == ticks


def test_the_berlin_backup_at_two_runs_once_in_autumn() -> None:
    """kubernetes/kubernetes#121594: it ran twice, and collided with a restore."""
    schedule = parse_schedule("0 2 * * *", "Europe/Berlin")
    autumn_night = datetime(2026, 10, 24, 22, tzinfo=UTC)
    ticks = schedule.newest(after=autumn_night, until=autumn_night + timedelta(hours=12), limit=10)
    assert ticks == [datetime(2026, 10, 25, 0, tzinfo=UTC)]


def test_the_berlin_backup_at_half_past_two_runs_after_the_gap_in_spring() -> None:
    """rundeck #6879, #3234: it did not run at all that night."""
    schedule = parse_schedule("30 2 * * *", "Europe/Berlin")
    spring_night = datetime(2026, 3, 28, 22, tzinfo=UTC)
    ticks = schedule.newest(after=spring_night, until=spring_night + timedelta(hours=12), limit=10)
    assert ticks == [datetime(2026, 3, 29, 1, tzinfo=UTC)]


def test_a_base_inside_the_repeated_hour_never_gets_a_tick_of_the_past() -> None:
    schedule = parse_schedule("0-59 2 * * *", "Europe/Berlin")
    second_pass = datetime(2026, 10, 25, 1, tzinfo=UTC)
    tomorrow = datetime(2026, 10, 26, 1, tzinfo=UTC)
    for seconds in range(0, 3600, 97):
        assert schedule.next_after(second_pass + timedelta(seconds=seconds + 0.5)) == tomorrow


def _local(tick: datetime, zone: ZoneInfo) -> str:
    local = tick.astimezone(zone)
    return f"{local:%H:%M}" + f"{local:%z}".removesuffix("00")
