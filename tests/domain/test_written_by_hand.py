"""Annotations and statuses that people, or other programs, have written: none stops more than its own job."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain import protocol
from soloist.domain.books import account
from soloist.domain.conditions import conditions, says_what_is
from soloist.domain.gate import still_auto_paused
from soloist.domain.instants import stamp
from soloist.domain.parsing import parse_job, parse_run
from soloist.domain.spec import Spec
from soloist.domain.steps import Stop, TakeOver, WriteJob, WriteRun
from soloist.domain.ticks import Reason
from soloist.domain.view import View

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
EPOCH = int(NOON.timestamp() * 1_000_000)
BEFORE = NOON - timedelta(hours=1)


def a_view(*, resumed_at: str = "", status: dict[str, Any] | None = None, run: dict[str, Any] | None = None) -> View:
    """It is noon; this leader took the Lease then."""
    meta: dict[str, Any] = {"namespace": "shop", "name": "sweep", "uid": "u", "resourceVersion": "1", "generation": 1}
    meta |= {"creationTimestamp": stamp(BEFORE), "annotations": {"soloist.dev/resumed-at": resumed_at}}
    spec = {"schedule": "@hourly", "http": {"url": "http://backend/"}, "pauseAfterFailures": 2}
    job = parse_job({"metadata": meta, "spec": spec, "status": status or {}})
    assert isinstance(job.spec, Spec)
    return View(
        job=job,
        spec=job.spec,
        runs=(parse_run(run),) if run is not None else (),
        memory={},
        epoch=EPOCH,
        lease="shop/soloist",
        term_started=1000.0,
        past_ends={},
        fleet_paused=False,
        now=NOON,
        boot=1000.0,
        claim_ahead=timedelta(seconds=5),
        record_ahead=timedelta(seconds=2),
    )


PAUSED = {"paused": {"since": stamp(BEFORE), "reason": "TooManyFailures", "message": "2 runs failed."}}


@pytest.mark.parametrize(
    ("resumed_at", "paused"),
    [
        pytest.param("", True, id="nobody has resumed it"),
        pytest.param(stamp(BEFORE - timedelta(seconds=1)), True, id="resumed before that pause"),
        pytest.param(stamp(BEFORE), False, id="the resume names the pause's own time"),
        pytest.param(stamp(BEFORE + timedelta(minutes=5)), False, id="resumed after it"),
        pytest.param(stamp(NOON + timedelta(seconds=30)), False, id="by a clock that is a little ahead"),
        pytest.param("2999-01-01T00:00:00Z", True, id="in a time that has not come"),
        pytest.param("tomorrow", True, id="no time at all"),
    ],
)
def test_a_job_that_paused_itself_waits_for_a_resume_whose_time_has_come(resumed_at: str, paused: bool) -> None:
    view = a_view(resumed_at=resumed_at, status=PAUSED)
    assert still_auto_paused(view.job, view.now) is paused
    assert (view.shut is Reason.PAUSED) is paused


def test_a_resume_in_the_far_future_neither_voids_a_later_pause_nor_swallows_ticks() -> None:
    view = a_view(resumed_at="2999-01-01T00:00:00Z", status={"consecutiveFailures": 2})
    assert view.paused_until is None, "nothing was paused, so no tick passed in a pause"
    pause = account(view, WriteJob(), [])["paused"]
    after = a_view(resumed_at="2999-01-01T00:00:00Z", status={"paused": pause, "consecutiveFailures": 2})
    assert after.shut is Reason.PAUSED
    assert "paused" not in account(after, WriteJob(), []), "said once, and not taken back"
    assert datetime(2998, 12, 31, 23, 59, tzinfo=UTC) in list(protocol.wakes(after)), "then it is resumed"


def recorded(epoch: int) -> dict[str, Any]:
    entry = {"run": "by-hand", "uid": "r", "epoch": epoch, "lease": "shop/soloist", "action": "http"}
    entry |= {"scheduledTime": stamp(NOON), "launchTime": stamp(NOON), "timeoutSeconds": 30}
    return {"active": [entry], "watermark": stamp(NOON)}


RUN: dict[str, Any] = {
    "metadata": {"namespace": "shop", "name": "by-hand", "uid": "r", "resourceVersion": "1"},
    "spec": {"scheduledJobName": "sweep", "scheduledJobUID": "u", "trigger": "Schedule", "scheduledTime": stamp(NOON)},
}


def test_a_run_of_a_later_term_ends_this_one() -> None:
    assert isinstance(protocol.decide(a_view(status=recorded(EPOCH + 1), run=RUN)), Stop)


@pytest.mark.parametrize("epoch", [EPOCH + 2 * 3_600_000_000, 2**63 - 1])
def test_an_epoch_that_no_term_can_have_ends_its_run_and_no_term(epoch: int) -> None:
    step = protocol.decide(a_view(status=recorded(epoch), run=RUN))
    assert isinstance(step, WriteRun), "one status that somebody spoiled would stop all jobs, under every leader"
    assert step.phase == "Unknown"


@pytest.mark.parametrize("uid", ["the Lease as it is", "one that was deleted"])
def test_what_a_deleted_lease_left_is_settled_by_whoever_holds_the_next_one(uid: str) -> None:
    """Its end is not known, so it is never taken for not launched; its uid makes no difference to that."""
    of_lease = {"namespace": "shop", "name": "soloist", "uid": uid, "epoch": EPOCH - 1}
    run = {**RUN, "spec": {**RUN["spec"], "lease": of_lease}}
    step = protocol.decide(a_view(status=recorded(EPOCH - 1), run=run))
    assert isinstance(step, WriteRun)
    assert step.phase == "Unknown"


def test_an_entry_of_no_run_and_no_term_is_accounted_for_and_leaves() -> None:
    """k8s #37957, argo #2297, #4174, #4181."""
    view = a_view(status=recorded(2**63 - 1))
    (entry,) = view.job.active
    assert account(view, WriteJob(drop=("r",)), [(entry, None)])["lastResult"] == "Cancelled"


def test_a_watermark_that_lies_ahead_is_said_with_what_to_write() -> None:
    view = a_view(status={"watermark": "2999-01-01T00:00:00Z"})
    scheduled = next(c for c in conditions(view, view.job.status) if c["type"] == "Scheduled")
    assert (scheduled["status"], scheduled["reason"]) == ("False", "DecidedAhead")
    assert "--subresource=status" in scheduled["message"]
    soon = a_view(status={"watermark": stamp(NOON + timedelta(seconds=2))})
    assert says_what_is(a_view(status={"conditions": conditions(soon, {})})), (
        "recorded ahead of its time, as it should be"
    )


def test_a_schedule_that_has_been_so_since_the_future_has_been_so_since_now() -> None:
    observed = {"schedule": "@hourly", "timeZone": "UTC", "daylightSaving": "Shift", "suspend": False}
    view = a_view(status={"observedSchedule": {**observed, "since": "2999-01-01T00:00:00Z"}})
    assert view.observed.since == NOON, "nothing before that runs, and everything after it does"
    assert view.planned.upcoming is not None
    assert view.planned.upcoming.at == NOON + timedelta(hours=1)


def test_a_run_for_a_job_that_was_deleted_is_not_launched_for_another_of_its_name() -> None:
    run = {"metadata": RUN["metadata"], "spec": {"scheduledJobName": "sweep", "scheduledJobUID": "of-another"}}
    step = protocol.decide(a_view(status={"watermark": stamp(NOON)}, run=run))
    assert isinstance(step, WriteRun)
    assert (step.phase, step.reason) == ("Skipped", "NoSuchJob")
    assert "of-another" in step.message


@pytest.mark.parametrize(("ahead", "runs"), [(-timedelta(days=1), True), (timedelta(seconds=1), False)])
def test_a_backfilled_run_is_for_a_time_that_has_come(ahead: timedelta, runs: bool) -> None:
    asked = {"scheduledJobName": "sweep", "trigger": "Backfill", "scheduledTime": stamp(NOON + ahead)}
    step = protocol.decide(a_view(status={"watermark": stamp(NOON)}, run={"metadata": RUN["metadata"], "spec": asked}))
    if runs:
        assert isinstance(step, TakeOver)
        return
    assert isinstance(step, WriteRun)
    assert (step.phase, step.reason) == ("Skipped", "TimeAhead")
    assert stamp(NOON + ahead) in step.message
