"""The books of the demonstration find each breach; else its last line would prove nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from soloist.domain.books import RECENT
from soloist.domain.instants import stamp
from tests.cluster.backend import Received
from tests.demo.books import page, settled
from tests.demo.story import HandOver
from tests.demo.tables import report

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
LAST = START + timedelta(seconds=4)


def tick(number: int) -> datetime:
    return START + timedelta(seconds=number)


def a_job(*, recent: tuple[dict[str, Any], ...] = (), watermark: int = 4) -> dict[str, Any]:
    observed = {"schedule": "@every 1s", "timeZone": "UTC", "since": stamp(START)}
    status = {"observedSchedule": observed, "watermark": stamp(tick(watermark)), "recent": list(recent)}
    return {"metadata": {"name": "sweep"}, "spec": {"missedRunPolicy": "RunLatest"}, "status": status}


def received(number: int, *, after: float = 0.01) -> Received:
    at = (tick(number) + timedelta(seconds=after)).timestamp()
    headers = {"Soloist-Scheduled-Time": stamp(tick(number)), "Soloist-Attempt": "1"}
    return Received(number=number, wall=at, boot=at, method="POST", path="/sweep", headers=headers, body="")


def a_run(number: int, **status: str) -> dict[str, Any]:
    return {"spec": {"scheduledTime": stamp(tick(number))}, "status": status}


def test_books_that_balance_have_no_breach() -> None:
    missed = {"result": "Missed", "first": stamp(tick(2)), "last": stamp(tick(3)), "count": 2}
    made = page(a_job(recent=(missed,)), [], [received(1), received(4)], LAST)
    assert made.breaches() == []
    assert (made.expected, made.launched, made.gaps) == (4, 2, {"Missed": 2})


def test_a_tick_that_came_twice_is_a_breach() -> None:
    made = page(a_job(), [], [*map(received, (1, 2, 3, 4)), received(2, after=1.5)], LAST)
    assert made.breaches() == [f"sweep: launched twice: {stamp(tick(2))}"]


def test_a_tick_before_its_time_is_a_breach() -> None:
    made = page(a_job(), [], [received(1), received(2, after=-0.2), received(3), received(4)], LAST)
    assert made.breaches() == [f"sweep: before its time: {stamp(tick(2))}"]


def test_a_tick_without_a_request_or_a_reason_is_a_breach() -> None:
    made = page(a_job(), [], [received(1), received(2), received(4)], LAST)
    assert made.breaches() == [f"sweep: no run and no reason: {stamp(tick(3))}"]


def test_a_success_on_record_explains_no_tick_that_was_not_received() -> None:
    line = {"result": "Succeeded", "first": stamp(tick(1)), "last": stamp(tick(4)), "count": 4}
    made = page(a_job(recent=(line,)), [a_run(3, phase="Succeeded")], [received(1), received(2)], LAST)
    assert made.lost == [stamp(tick(3)), stamp(tick(4))]


def test_a_run_that_nobody_knows_the_outcome_of_says_so() -> None:
    unknown = a_run(3, phase="Unknown", reason="OutcomeUnknown")
    made = page(a_job(), [unknown], [received(1), received(2), received(4)], LAST)
    assert made.gaps == {"OutcomeUnknown": 1}


def test_a_reason_that_made_room_for_later_ones_is_in_the_counters_and_explains_no_more_ticks_than_those_have() -> None:
    later = (
        {"result": "Missed", "first": stamp(tick(n)), "last": stamp(tick(n)), "count": 1} for n in range(4, 4 + RECENT)
    )
    job, requests = a_job(recent=tuple(later), watermark=3 + RECENT), [received(1)]
    job["status"]["counters"] = {"launched": 1, "succeeded": 1, "skipped": RECENT + 2}
    assert page(job, [], requests, LAST).gaps == {"Counted": 2, "Missed": 1}
    job["status"]["counters"]["skipped"] = RECENT + 1
    assert len(page(job, [], requests, LAST).lost) == 1


def test_open_runs_and_undecided_ticks_are_waited_for() -> None:
    assert settled(a_job(), [a_run(4, phase="Succeeded")], LAST)
    assert not settled(a_job(watermark=3), [], LAST)
    assert not settled(a_job(), [a_run(4, phase="Running")], LAST)


def test_the_table_names_each_reason_and_each_hand_over() -> None:
    missed = {"result": "Missed", "first": stamp(tick(2)), "last": stamp(tick(3)), "count": 2}
    made = page(a_job(recent=(missed,)), [], [received(1), received(4)], LAST)
    text = report([made], [HandOver(what="SIGTERM", before="a", after="b", seconds=0.21)])
    assert "Missed 2" in text
    assert "Missed: due while nobody led" in text
    assert "0.21" in text
