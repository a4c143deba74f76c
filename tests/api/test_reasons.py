"""The audit finds each tick that is lost; else it would prove nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.books import RECENT
from soloist.domain.instants import stamp
from tests.api.reasons import due_ticks, uncounted, unexplained

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def tick(number: int) -> datetime:
    return START + timedelta(seconds=number)


def ticks(*numbers: int) -> list[datetime]:
    return [tick(number) for number in numbers]


def line(result: str, first: int, last: int, count: int | None = None) -> dict[str, Any]:
    return {
        "result": result,
        "first": stamp(tick(first)),
        "last": stamp(tick(last)),
        "count": count or last - first + 1,
    }


def a_status(*recent: dict[str, Any], watermark: int = 100, suspend: bool = False, **rest: Any) -> dict[str, Any]:
    observed = {"schedule": "@every 1s", "timeZone": "UTC", "since": stamp(START), "suspend": suspend}
    return {"observedSchedule": observed, "watermark": stamp(tick(watermark)), "recent": list(recent), **rest}


def a_run(number: int, phase: str = "", reason: str = "") -> dict[str, Any]:
    status = {key: value for key, value in {"phase": phase, "reason": reason}.items() if value}
    return {"spec": {"scheduledTime": stamp(tick(number))}, "status": status}


def lost(status: dict[str, Any], *, asked: list[datetime], runs: tuple[dict[str, Any], ...] = ()) -> list[datetime]:
    return unexplained(asked, status, runs, received=set())


def test_what_was_received_needs_no_reason() -> None:
    assert unexplained(ticks(1, 2), a_status(), [], received=set(ticks(1, 2))) == []
    assert unexplained(ticks(1, 2, 3), a_status(), [], received=set(ticks(1, 3))) == ticks(2)


@pytest.mark.parametrize(
    ("phase", "reason", "explains"),
    [
        pytest.param("Skipped", "Blocked", True, id="it was not launched, and says why"),
        pytest.param("Failed", "ConnectionFailed", True, id="nothing was sent"),
        pytest.param("Unknown", "OutcomeUnknown", True, id="nobody can know"),
        pytest.param("Cancelled", "Cancelled", True, id="a person had it cancelled"),
        pytest.param("Failed", "UnexpectedStatus", False, id="it was answered, so it was received"),
        pytest.param("Failed", "", False, id="it says nothing"),
        pytest.param("Succeeded", "", False, id="it claims a success that nobody saw"),
        pytest.param("Superseded", "Superseded", False, id="its tick was decided otherwise"),
        pytest.param("", "", False, id="it is not over"),
        pytest.param("Running", "", False, id="it is under way"),
        pytest.param("Retrying", "OutcomeUnknown", False, id="another attempt is to come"),
    ],
)
def test_a_run_explains_its_tick_only_where_it_has_ended_and_says_why(phase: str, reason: str, explains: bool) -> None:
    assert lost(a_status(), asked=ticks(1), runs=(a_run(1, phase, reason),)) == ([] if explains else ticks(1))


def test_a_line_explains_the_ticks_in_its_times_and_no_more_than_it_counts() -> None:
    status = a_status(line("Missed", 2, 9, count=3))
    assert lost(status, asked=ticks(1, 2, 5, 9, 10)) == ticks(1, 10)
    assert lost(status, asked=ticks(2, 3, 5, 9)) == ticks(9)


def test_of_lines_that_overlap_each_tick_takes_the_one_that_fits_most() -> None:
    status = a_status(line("Blocked", 1, 9, count=1), line("Missed", 1, 3, count=1))
    assert lost(status, asked=ticks(2, 7)) == []


def test_successes_explain_nothing_even_beside_another_line() -> None:
    assert lost(a_status(line("Succeeded", 1, 4)), asked=ticks(2)) == ticks(2)
    assert lost(a_status(line("Missed", 1, 4)), asked=ticks(2), runs=(a_run(2, "Succeeded"),)) == ticks(2)


def test_of_ticks_older_than_recent_only_as_many_pass_as_the_counters_have_left() -> None:
    lines = [line("Missed" if number % 2 else "Succeeded", number, number) for number in range(50, 50 + RECENT)]
    counters = {"launched": 40, "succeeded": 39, "skipped": RECENT // 2 + 1}
    status = a_status(*lines, counters=counters)
    assert lost(status, asked=ticks(10, 20)) == []
    assert lost(status, asked=ticks(10, 20, 30)) == ticks(30)
    assert lost(status, asked=ticks(52)) == ticks(52), "it is not older"
    assert lost(a_status(*lines[1:], counters=counters), asked=ticks(10)) == ticks(10), "no line was dropped"


def test_counters_have_each_decided_tick_once_but_for_those_under_way() -> None:
    counters = {"launched": 5, "skipped": 2}
    active = [{"run": "r"}, {"run": "s", "result": "Unknown"}]
    assert uncounted(a_status(watermark=8, active=active, counters=counters)) == 0
    assert uncounted(a_status(watermark=9, active=active, counters=counters)) == 1
    assert uncounted(a_status(watermark=7, active=active, counters=counters)) == -1


def test_ticks_of_a_suspended_job_count_once_they_are_decided() -> None:
    assert due_ticks(a_status(watermark=2), tick(4)) == ticks(1, 2, 3, 4)
    assert due_ticks(a_status(watermark=2, suspend=True), tick(4)) == ticks(1, 2)
