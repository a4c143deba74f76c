"""What is refused, and the sentence that a person reads then."""

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from soloist.domain.schedule import InvalidSchedule, parse_schedule

FIVE = "minute hour day-of-month month day-of-week"


@pytest.mark.parametrize(
    ("text", "reason", "remedy"),
    [
        ("", "EmptySchedule", 'write five fields, such as "0 2 * * *"'),
        ("  \n", "EmptySchedule", 'or "@every 30s"'),
        ("0 0 " + "1," * 150 + "1 * *", "ScheduleTooLong", "write at most 256"),
        ("TZ=Europe/Berlin 0 2 * * *", "ZoneInSchedule", 'write schedule "0 2 * * *" and timeZone "Europe/Berlin".'),
        ("CRON_TZ=UTC @daily", "ZoneInSchedule", 'write schedule "@daily" and timeZone "UTC".'),
        ("TZ=Europe/Berlin", "ZoneInSchedule", 'timeZone "Europe/Berlin"'),
        ("0 2 * *", "WrongFieldCount", f"has 4 fields: write five, {FIVE}"),
        ("hourly", "WrongFieldCount", "has 1 field: write five"),
        (
            "0 0 2 * * *",
            "WrongFieldCount",
            f'has 6 fields; seconds are not supported: write five, {FIVE}, or an interval such as "@every 30s".',
        ),
        ("0 0 2 * * * 2027", "WrongFieldCount", "has 7 fields; seconds and years are not supported"),
        ("@reboot", "UnsupportedMacro", "names no time: write five fields"),
        ("@Daily", "UnknownMacro", "did you mean @daily?"),
        ("@fortnightly", "UnknownMacro", "write one of @hourly, @daily"),
        ("@daily 5", "UnknownMacro", "write one of"),
        ("@every30s", "UnknownMacro", 'or "@every 30s"'),
        ("@every", "InvalidInterval", 'such as "@every 30s"'),
        ("@every 0s", "IntervalOutOfRange", 'write at least "@every 1s"'),
        ("@every 0h0m", "IntervalOutOfRange", 'write at least "@every 1s"'),
        ("@every 30", "InvalidInterval", 'has no unit: write "@every 30s"'),
        ("@every 1.5h", "InvalidInterval", 'such as "@every 30s" or "@every 1h30m"'),
        ("@every 500ms", "InvalidInterval", "write whole seconds"),
        ("@every -5m", "InvalidInterval", "write whole seconds"),
        ("@every 1h 30m", "InvalidInterval", '"@every 1h30m"'),
        ("@every 5M", "InvalidInterval", "write whole seconds"),
        ("@every ٣s", "InvalidInterval", "write whole seconds"),
        ("@every 367d", "IntervalOutOfRange", 'write at most "@every 366d"'),
        ("60 * * * *", "OutOfRange", 'has minute "60", which is out of range: write 0-59'),
        ("* 24 * * *", "OutOfRange", 'has hour "24", which is out of range: write 0-23'),
        ("* 9-24 * * *", "OutOfRange", "write 0-23"),
        ("* * 0 * *", "OutOfRange", 'has day-of-month "0", which is out of range: write 1-31'),
        ("* * * 13 *", "OutOfRange", 'has month "13", which is out of range: write 1-12'),
        ("* * * * 8", "OutOfRange", 'has day-of-week "8", which is out of range: write 0-7'),
        ("*/0 * * * *", "InvalidField", 'has a step of zero or none in minute "*/0"'),
        ("*/ * * * *", "InvalidField", "has a step of zero or none"),
        ("30-10 * * * *", "InvalidField", "write 30-59,0-10"),
        ("5-5/10 * * * *", "InvalidField", 'has a step in a range of one minute, "5-5/10": write 5.'),
        ("* * * * 1/2", "InvalidField", "write 1-SAT/2 or, with Sunday at the end, 1-7/2."),
        ("* * * * SAT-SUN", "InvalidField", 'has day-of-week "SAT-SUN", which cannot be read'),
        ("* * 15W * *", "InvalidField", "write LW or a date"),
        ("* * L/2 * *", "InvalidField", "write L or LW alone"),
        ("* * L-3 * *", "InvalidField", "L (the last day)"),
        ("* * * * MON#6", "InvalidField", "MON#2 (the second Monday)"),
        ("* * * * L", "InvalidField", "5L (the last Friday)"),
        ("* * ? * *", "InvalidField", "write * instead of ?"),
        ("R * * * *", "RandomField", "which every replica would draw anew: write a number"),
        ("R(0-29) * * * *", "RandomField", "write a number"),
        ("* * * FOO *", "InvalidField", 'has month "FOO", which cannot be read: write 1-12 or JAN-DEC'),
        ("a b c d e", "InvalidField", 'has minute "A", which cannot be read'),
        ("0 0 31 2 *", "NeverComes", "write a day that the month has, or L for its last day"),
        ("0 0 30 2 *", "NeverComes", "names a date that never comes"),
        ("0 0 31 2,4,6,9,11 *", "NeverComes", "names a date that never comes"),
        ("0 0 30 FEB */2", "NeverComes", "names a date that never comes"),
    ],
)
def test_a_bad_schedule_is_refused_with_what_to_write_instead(text: str, reason: str, remedy: str) -> None:
    """kubernetes/website #10170, robfig/cron #360, Cronicle #590."""
    with pytest.raises(InvalidSchedule) as refused:
        parse_schedule(text)
    assert refused.value.field == "schedule"
    assert refused.value.reason == reason
    assert refused.value.message.startswith(f'schedule "{text[:60]}')
    assert remedy in refused.value.message
    assert refused.value.message.endswith((".", "?"))


@pytest.mark.parametrize(
    ("zone", "remedy"),
    [
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("EUROPE/BERLIN", "did you mean Europe/Berlin?"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("Germany/Berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        ("utc", "did you mean UTC?"),
        ("PST", "did you mean America/Los_Angeles?"),
        ("Mars/Olympus", "write a name such as Europe/Berlin"),
        ("", "is empty: write an IANA name such as Europe/Berlin, or UTC."),
        ("Local", "the zone of whichever node we run on: write an IANA name"),
        ("localtime", "the zone of whichever node we run on: write an IANA name"),
        ("UTC+2", "is an offset, which knows no daylight saving: write the place, such as Europe/Berlin, or Etc/GMT-2"),
        ("GMT-5", "or Etc/GMT+5 (its sign is turned round)."),
        ("+02:00", "is an offset"),
        ("UTC+99", "write the place, such as Europe/Berlin."),
        ("+05:30", "write the place, such as Europe/Berlin."),
        (" UTC", "did you mean UTC?"),
        ("../../etc/passwd", "is not an IANA zone"),
        ("Factory", "is not an IANA zone"),
    ],
)
def test_a_zone_that_is_none_is_refused_with_the_closest_that_is(zone: str, remedy: str) -> None:
    for text in ("0 2 * * *", "@every 30s"):
        with pytest.raises(InvalidSchedule) as refused:
            parse_schedule(text, zone)
        assert refused.value.field == "timeZone"
        assert refused.value.reason == "UnknownTimeZone"
        assert refused.value.message.startswith(f'timeZone "{zone}"')
        assert remedy in refused.value.message


SOUP = st.text(alphabet="0123456789*/,-#LWRQ?@ \t%MONFEBSUNeveryhdsmd.=TZ:\x00٣²", max_size=40)
PIECES = st.lists(
    st.sampled_from(
        [
            "*",
            "*/2",
            "0",
            "5",
            "59",
            "L",
            "LW",
            "1-5",
            "MON",
            "5L",
            "MON#2",
            "1,L",
            "31",
            "2",
            "?",
            "1-1/2",
            "0-7/7",
            "3L,2",
        ]
    ),
    min_size=4,
    max_size=6,
).map(" ".join)


@settings(max_examples=600, deadline=None)
@given(st.one_of(SOUP, PIECES, PIECES))
@example("0 0 29 2 MON#5")
def test_any_text_is_a_schedule_or_is_refused_and_nothing_else_happens(text: str) -> None:
    with contextlib.suppress(InvalidSchedule):
        schedule = parse_schedule(text, "Europe/Berlin")
        assert schedule.describe()
        assert schedule.next_after(datetime(2026, 3, 29, tzinfo=UTC)) is not None
