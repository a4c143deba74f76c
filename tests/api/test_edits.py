"""What people change while ticks are due: no edit, resume or re-apply ever fires for a time before it.

``since`` is the second from which on the schedule has been what it is. It moves when schedule, zone, policy or suspend
really change, to the second of that change, also when nobody led meanwhile.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from soloist.domain.instants import stamp
from tests.api.crew import Crew, Raw, audit
from tests.api.desk import Desk, also_with_standbys, condition, errors, lines, moment, span, tick
from tests.api.reasons import former_ticks
from tests.api.tending import CALM, KEEP, now, start
from tests.cluster.backend import Backend
from tests.cluster.children import until

pytestmark = pytest.mark.cluster

NEVER = "0 0 29 2 *"
"""As good as never within a test."""


def annotate(desk: Desk, job: str, **annotations: str | None) -> None:
    marks = {f"soloist.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    desk.api.patch(desk.namespace.ours("scheduledjobs", job), {"metadata": {"annotations": marks}})


def since(desk: Desk, job: str) -> datetime:
    return moment(desk.crew.status(job)["observedSchedule"]["since"])


def counted(status: Raw, result: str) -> int:
    return sum(line["count"] for line in lines(status, result))


def scheduled_times(desk: Desk, job: str) -> list[datetime]:
    return [tick(seen) for seen in desk.calls(job)]


@also_with_standbys
def test_a_new_schedule_fires_for_no_time_before_the_edit(desk: Desk) -> None:
    desk.http("edited", schedule=NEVER)
    desk.status("edited", lambda status: "observedSchedule" in status, what="it is observed")
    created = since(desk, "edited")
    before = now()
    desk.crew.edit("edited", {"schedule": "@every 1s"})
    desk.called("edited", 2)
    moved = since(desk, "edited")
    assert before.replace(microsecond=0) <= moved <= now()
    assert created <= moved
    assert min(scheduled_times(desk, "edited")) > moved
    often, back = desk.crew.status("edited"), now()
    desk.crew.edit("edited", {"schedule": NEVER})
    desk.quiet("edited", lambda status: status["observedSchedule"]["schedule"] == NEVER, what="the edit is seen")
    settled = len(desk.calls("edited"))
    assert max(scheduled_times(desk, "edited")) <= since(desk, "edited") + timedelta(seconds=1)
    assert since(desk, "edited") >= back.replace(microsecond=0)
    desk.http("beside", schedule="@every 1s")
    desk.called("beside", 2)  # by now the other would have been called as well
    assert len(desk.calls("edited")) == settled
    desk.audit("edited", former=former_ticks(often, since(desk, "edited")))


@also_with_standbys
def test_reapplying_the_same_manifest_moves_nothing_and_repeats_nothing(desk: Desk) -> None:
    spec = {"schedule": "@every 1s", "http": {"url": desk.backend.url("/applied")}, **KEEP}
    manifest = {
        "apiVersion": "soloist.dev/v1alpha1",
        "kind": "ScheduledJob",
        "metadata": {"name": "applied"},
        "spec": spec,
    }
    desk.namespace.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    desk.called("applied")
    kept = since(desk, "applied")
    last = now() + timedelta(seconds=5)
    answers = []
    while now() < last:
        answers.append(desk.namespace.kubectl("apply", "-f", "-", stdin=json.dumps(manifest)))
        annotate(desk, "applied", note=str(len(answers)))
    assert all("unchanged" in answer or "configured" in answer for answer in answers), answers
    desk.crew.edit("applied", {"timeoutSeconds": 7})
    desk.called("applied", len(desk.calls("applied")) + 2)
    assert since(desk, "applied") == kept
    desk.status("applied", lambda status: status["observedGeneration"] == 2, what="the edit is seen")
    desk.audit("applied")


@also_with_standbys
def test_ticks_of_a_suspended_job_say_so_and_a_resume_runs_none_of_them(desk: Desk) -> None:
    """temporal #8087, nomad #18055."""
    desk.http("resumed", schedule="@every 1s", **KEEP)
    desk.called("resumed", 2)
    first = desk.crew.status("resumed")
    status = desk.rest("resumed")
    # What had been recorded by then may have been launched.
    seen_at = now()
    assert (condition(status, "Scheduled")["reason"], status.get("nextScheduleTime")) == ("Suspended", None)
    until(lambda: now() > seen_at + timedelta(seconds=4.5), what="four ticks have passed", timeout=60)
    desk.crew.edit("resumed", {"suspend": False})
    status = desk.status(
        "resumed", lambda s: not s["observedSchedule"]["suspend"] and counted(s, "Suspended") >= 4, what="it is resumed"
    )
    ended = since(desk, "resumed")
    calls = len(desk.calls("resumed"))
    desk.called("resumed", calls + 2)
    assert [seen for seen in scheduled_times(desk, "resumed") if seen_at < seen <= ended] == []
    assert max(span(line)[1] for line in lines(status, "Suspended")) <= ended
    assert condition(desk.crew.status("resumed"), "Scheduled")["status"] == "True"
    desk.audit("resumed", former=former_ticks(first, ended))


@also_with_standbys
def test_whatever_is_switched_around_a_due_second_each_tick_runs_once_or_has_a_reason(desk: Desk) -> None:
    desk.http("switched", schedule="@every 1s", **KEEP)
    desk.called("switched")
    first = desk.crew.status("switched")
    moved = [since(desk, "switched")]
    suspended: list[tuple[datetime, datetime]] = []
    for turn in range(6):
        time.sleep(0.35 + 0.13 * turn)  # another phase of the second each time
        suspend = turn % 2 == 0
        desk.crew.edit("switched", {"suspend": suspend})
        status = desk.status(
            "switched", lambda s, suspend=suspend: s["observedSchedule"]["suspend"] == suspend, what="it is seen"
        )
        moved.append(moment(status["observedSchedule"]["since"]))
        if suspend:
            seen_at = now()
        else:
            suspended.append((seen_at, moved[-1]))
    desk.called("switched", len(desk.calls("switched")) + 2)
    assert moved == sorted(moved)
    times = scheduled_times(desk, "switched")
    assert len(times) == len(set(times)), times
    inside = [at for at in times for start_, end in suspended if start_ < at <= end]
    assert not inside, f"launched while suspended: {inside}"
    desk.audit("switched", former=former_ticks(first, moved[-1]))


@also_with_standbys
def test_a_paused_job_waits_for_a_person_and_goes_on_when_told(desk: Desk) -> None:
    """db-scheduler #27."""
    desk.http("paused", schedule="@every 1s", **KEEP)
    desk.called("paused")
    annotate(desk, "paused", paused="true")
    desk.quiet("paused", lambda s: condition(s, "Scheduled").get("reason") == "Paused", what="the pause is said")
    paused = len(desk.calls("paused"))
    desk.crew.trigger("paused", "by-hand")
    until(lambda: desk.crew.phase("by-hand") == "Succeeded", what="a person's run goes all the same", timeout=90)
    began = now()
    until(lambda: now() > began + timedelta(seconds=2.5), what="some ticks have passed", timeout=60)
    assert len(desk.calls("paused")) == paused + 1
    annotate(desk, "paused", paused=None)
    desk.called("paused", paused + 3)
    newest = desk.recent("paused", "Paused")
    told = lines(desk.crew.status("paused"), "Paused")
    assert sum(line["count"] for line in told) >= 2, told
    later = [tick(seen) for seen in desk.calls("paused")[paused + 1 :]]
    assert min(later) > span(newest)[1]
    desk.audit("paused")


@also_with_standbys
def test_failures_in_a_row_pause_the_job_until_a_person_resumes_it(desk: Desk) -> None:
    """argo #5659, PostHog #56390."""
    desk.backend.rule("^/failing$", status=400)
    desk.http("failing", schedule="@every 1s", pauseAfterFailures=2)
    status = desk.status("failing", lambda s: s.get("paused"), what="it paused itself")
    assert status["paused"]["reason"] == "TooManyFailures"
    assert status["consecutiveFailures"] == 2
    assert condition(status, "Healthy")["status"] == "False"
    until(lambda: desk.events("failing", "PausedAfterFailures"), what="an Event says so", timeout=90)
    calls = len(desk.calls("failing"))
    assert calls == 2
    desk.backend.rule("^/failing$", status=200)
    since_pause = moment(status["paused"]["since"])
    until(lambda: now() > since_pause + timedelta(seconds=3), what="some ticks have passed", timeout=60)
    assert len(desk.calls("failing")) == calls
    annotate(desk, "failing", resumed_at=stamp(datetime.now(UTC)))
    desk.called("failing", calls + 2)
    status = desk.status("failing", lambda s: not s.get("paused"), what="the pause is gone")
    assert counted(desk.crew.status("failing"), "Paused") >= 2
    desk.status("failing", lambda s: s["consecutiveFailures"] == 0, what="the row of failures is over")
    desk.audit("failing")


@also_with_standbys
def test_an_installation_paused_on_its_lease_launches_nothing_at_all(desk: Desk) -> None:
    """kube-downscaler #78, govuk-helm-charts #3954."""
    desk.http("fleet", schedule="@every 1s", **KEEP)
    desk.called("fleet")
    lease = desk.namespace.path("leases", "soloist", group="coordination.k8s.io")
    desk.api.patch(lease, {"metadata": {"annotations": {"soloist.dev/paused": "a migration"}}})
    try:
        desk.quiet(
            "fleet", lambda s: condition(s, "Scheduled").get("reason") == "FleetPaused", what="the pause is said"
        )
        desk.crew.trigger("fleet", "not-now")
        reason = until(
            lambda: desk.api.get(desk.namespace.ours("jobruns", "not-now")).get("status", {}).get("reason"),
            what="a person's run is skipped as well",
            timeout=90,
        )
        paused = now()
        calls = len(desk.calls("fleet"))
        until(lambda: now() > paused + timedelta(seconds=2.5), what="some ticks have passed", timeout=60)
        assert len(desk.calls("fleet")) == calls
    finally:
        desk.api.patch(lease, {"metadata": {"annotations": {"soloist.dev/paused": None}}})
    desk.called("fleet", calls + 2)
    assert reason == "FleetPaused"
    assert desk.recent("fleet", "FleetPaused")["count"] >= 1
    desk.audit("fleet")


def test_an_edit_made_while_nobody_led_counts_from_its_own_second(crew: Crew, backend: Backend) -> None:
    """The schedule is changed, and another job resumed, in the middle of an outage."""
    start(crew, "a", **CALM)
    every = {"missedRunPolicy": "RunAll", "maxMissedRuns": 50, "concurrencyPolicy": "Allow", **KEEP}
    crew.job("edited", schedule="@every 2s", http={"url": backend.url("/edited")}, **every)
    crew.job("resumed", schedule="@every 2s", suspend=True, http={"url": backend.url("/resumed")}, **every)
    backend.wait(2, path="/edited")
    crew.wait(lambda: crew.status("resumed").get("observedSchedule"), what="the suspend is seen")
    before = {job: crew.status(job) for job in ("edited", "resumed")}
    crew.members["a"].kill_both()
    died = now()
    crew.wait(lambda: now() > died + timedelta(seconds=4), what="two ticks are missed")
    edited = now().replace(microsecond=0)
    crew.edit("edited", {"schedule": "@every 3s"})
    crew.edit("resumed", {"suspend": False})
    done = now()
    crew.wait(lambda: now() > done + timedelta(seconds=7), what="ticks of the new schedule are missed")
    crew.start("b", **CALM)
    crew.leader(other_than="a")
    until_last = now()
    for job in ("edited", "resumed"):
        crew.wait(lambda job=job: newest(backend, job) > until_last, what=f"{job} is up to date")
        at = moment(crew.status(job)["observedSchedule"]["since"])
        assert edited <= at <= done, f"{job}: since {at}, edited at {edited}"
        times = [tick(seen) for seen in backend.received(f"/{job}")]
        late = [each for each in times if at < each < until_last - timedelta(seconds=2)]
        step = 3 if job == "edited" else 2
        assert len(late) >= 2, f"{job}: none of {late} of the outage ran"
        assert all(each.timestamp() % step == 0 for each in late)
        assert not [each for each in times if died + timedelta(seconds=1) < each <= at], times
        audit(crew, backend, job, path=f"/{job}", former=former_ticks(before[job], at))
    assert lines(crew.status("edited"), "ScheduleChanged"), crew.status("edited")["recent"]
    assert lines(crew.status("resumed"), "Suspended"), crew.status("resumed")["recent"]
    assert not errors(crew.members["b"].log())


def newest(backend: Backend, job: str) -> datetime:
    return max((tick(seen) for seen in backend.received(f"/{job}")), default=datetime.fromtimestamp(0, UTC))
