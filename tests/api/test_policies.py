"""What becomes of ticks that meet a run still going on, or that nobody could launch in time, on a real API server."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from soloist.domain.jitter import jitter
from soloist.domain.names import run_name
from tests.api.crew import Crew, requests_by_tick
from tests.api.desk import Desk, away, condition, errors, lines, moment, phase, span, tick
from tests.api.tending import CALM, KEEP, now, start
from tests.cluster.backend import Backend
from tests.cluster.children import until

pytestmark = pytest.mark.cluster


def test_each_concurrency_policy_does_with_a_slow_backend_what_it_says(desk: Desk) -> None:
    desk.backend.rule("^/(Forbid|Queue|Replace|Allow)$", delay=2.6)
    for policy in ("Forbid", "Queue", "Replace", "Allow"):
        desk.http(policy.lower(), schedule="@every 1s", concurrencyPolicy=policy, http=path(desk, policy), **KEEP)
    for policy in ("Forbid", "Queue", "Replace", "Allow"):
        desk.called(policy, 3)
    began = now()
    until(lambda: now() > began + timedelta(seconds=4), what="some more ticks have passed", timeout=60)
    for policy in ("forbid", "queue", "replace", "allow"):
        desk.crew.edit(policy, {"suspend": True})
    for policy in ("forbid", "queue", "replace", "allow"):
        desk.rest(policy)
    assert desk.backend.most_at_once("/Forbid") == 1
    assert desk.backend.most_at_once("/Queue") == 1
    assert desk.backend.most_at_once("/Allow") >= 3
    forbid, queue, replace, allow = (desk.crew.status(name) for name in ("forbid", "queue", "replace", "allow"))
    assert lines(forbid, "Blocked"), forbid["recent"]
    assert lines(queue, "QueuedBehindNewer"), queue["recent"]
    assert not lines(queue, "Missed"), queue["recent"]
    assert not lines(allow, "Blocked"), allow["recent"]
    assert lines(replace, "Cancelled"), replace["recent"]
    ended = [run for run in desk.crew.runs("replace") if phase(run) == "Cancelled"]
    assert {run["status"]["reason"] for run in ended} == {"Replaced"}
    calls = desk.calls("Replace")
    overtaken = {seen.header("Soloist-Run") for seen, later in pairwise(calls) if later.boot - seen.boot < 2}
    assert len(overtaken) >= 3
    assert overtaken <= {run["metadata"]["name"] for run in ended}, "a call was replaced, and its run not cancelled"
    for policy in ("Forbid", "Queue", "Replace", "Allow"):
        assert max(requests_by_tick(desk.backend, f"/{policy}").values()) == 1


def path(desk: Desk, name: str) -> dict[str, Any]:
    return {"url": desk.backend.url(f"/{name}")}


def test_a_queued_tick_runs_as_soon_as_the_one_before_it_is_over(desk: Desk) -> None:
    desk.backend.rule("^/queued$", delay=4.5, times=1)
    period = timedelta(seconds=4)
    desk.http("queued", schedule="@every 4s", concurrencyPolicy="Queue")
    first, second = desk.called("queued", 2)[:2]
    assert first.ended_boot is not None
    assert first.ended_boot <= second.boot
    assert tick(second) == tick(first) + period
    assert second.at < tick(second) + period, "it waited for the next tick"


def test_jitter_is_the_same_for_all_and_never_early(desk: Desk) -> None:
    made = desk.http("jittered", schedule="@every 4s", jitterSeconds=3)
    uid, window = made["metadata"]["uid"], timedelta(seconds=3)
    for seen in desk.called("jittered", 4):
        at = tick(seen)
        due = at + jitter(uid, at, window, at + timedelta(seconds=4))
        assert timedelta(0) <= seen.at - due, f"due {due}, received {seen.at}"


def test_a_backfilled_run_is_of_its_own_time_passes_suspend_and_watermark_by_and_is_none_before_its_time(
    desk: Desk,
) -> None:
    desk.http("backfill", schedule="0 2 * * *", suspend=True)
    desk.status("backfill", lambda status: status.get("observedSchedule"), what="its suspend is seen")
    before = desk.crew.status("backfill").get("watermark")
    for name, time in (("backfill-past", "2026-01-05T02:00:00Z"), ("backfill-ahead", "2999-01-05T02:00:00Z")):
        desk.crew.trigger("backfill", name, trigger="Backfill", scheduledTime=time)
    (seen,) = desk.called("backfill")
    past, ahead = desk.run("backfill", "Succeeded"), desk.run("backfill", "Skipped")
    assert seen.header("Soloist-Scheduled-Time") == "2026-01-05T02:00:00Z"
    assert seen.header("Idempotency-Key") == past["metadata"]["uid"]
    assert (ahead["metadata"]["name"], ahead["status"]["reason"]) == ("backfill-ahead", "TimeAhead")
    assert desk.quiet("backfill", lambda _: True, what="it is over").get("watermark") == before
    assert len(desk.calls("backfill")) == 1


def test_history_keeps_as_many_runs_as_asked_for(desk: Desk) -> None:
    """k8s #133662, #75674, #22207."""
    desk.backend.rule("^/history$", status=400, times=3)
    desk.http("history", schedule="@every 1s", successfulRunsHistoryLimit=2, failedRunsHistoryLimit=1)
    desk.status("history", lambda s: s.get("counters", {}).get("succeeded", 0) >= 5, what="five have succeeded")
    desk.rest("history")

    def kept() -> bool:
        phases = [phase(run) for run in desk.crew.runs("history") if phase(run) != "Skipped"]
        return sorted(phases) == ["Failed", "Succeeded", "Succeeded"]

    until(kept, what="two successes and one failure are kept", timeout=90)
    status = desk.crew.status("history")
    counters = status["counters"]
    assert counters["failed"] == 3
    assert counters["launched"] == counters["succeeded"] + 3 == len(desk.calls("history"))
    # A tick that had been claimed when the job was suspended was skipped, one that met a call was blocked: these are results too.
    ends = [line["result"] for line in status["recent"] if line["result"] not in ("Suspended", "Blocked", "Missed")]
    assert ends[-1] == "Succeeded", status["recent"]
    assert status["lastResult"] in ("Succeeded", *(line["result"] for line in status["recent"][-1:])), status
    assert status["consecutiveFailures"] == 0
    assert moment(status["lastFailureTime"]) < moment(status["lastSuccessfulTime"])


def test_a_persons_run_passes_the_suspend_by_but_not_the_gate(desk: Desk) -> None:
    desk.backend.rule("^/manual$", delay=8, times=1)
    desk.http("manual", schedule="@every 1s", suspend=True)
    desk.status("manual", lambda s: "observedSchedule" in s, what="it is seen")
    manifest = desk.namespace.kubectl("create", "-o", "name", "-f", "-", stdin=MANUAL)
    assert manifest.strip().endswith("manual-1")
    (seen,) = desk.called("manual")
    run = desk.api.get(desk.namespace.ours("jobruns", "manual-1"))
    assert seen.header("Idempotency-Key") == run["metadata"]["uid"]
    assert seen.header("Soloist-Scheduled-Time") is None
    desk.crew.trigger("manual", "manual-2")
    until(lambda: desk.crew.phase("manual-2") == "Skipped", what="the second one meets the first", timeout=60)
    assert desk.api.get(desk.namespace.ours("jobruns", "manual-2"))["status"]["reason"] == "Blocked"
    until(lambda: desk.crew.phase("manual-1") == "Succeeded", what="the first one ends", timeout=90)
    desk.crew.trigger("manual", "manual-3")
    until(lambda: desk.crew.phase("manual-3") == "Succeeded", what="the third one has its turn", timeout=90)
    assert len(desk.calls("manual")) == 2


MANUAL = """
apiVersion: soloist.dev/v1alpha1
kind: JobRun
metadata: {name: manual-1}
spec: {scheduledJobName: manual}
"""


def test_a_tick_whose_name_a_stranger_has_taken_is_let_go_with_its_reason(desk: Desk) -> None:
    made = desk.http("named", schedule="@every 10s")
    at = moment(desk.status("named", lambda s: s.get("nextScheduleTime"), what="it is planned")["nextScheduleTime"])
    while away(at) < timedelta(seconds=15):  # it is claimed ten seconds ahead
        at += timedelta(seconds=10)
    name = run_name("named", made["metadata"]["uid"], at)
    body = {
        "apiVersion": "soloist.dev/v1alpha1",
        "kind": "JobRun",
        "metadata": {"name": name},
        "spec": {"scheduledJobName": "somebody-elses", "trigger": "Manual"},
    }
    desk.api.create(desk.namespace.ours("jobruns"), body)
    line = desk.recent("named", "NameTaken")
    assert span(line) == (at, at)
    event = until(lambda: desk.events("named", "NameTaken"), what="an Event says so", timeout=90)[0]
    assert name in event["note"]
    desk.delete("jobruns", name)
    later = [seen for seen in desk.called("named", len(desk.calls("named")) + 1) if tick(seen) > at]
    assert later
    assert at not in [tick(seen) for seen in desk.calls("named")]


def test_a_spec_that_cannot_be_run_says_so_once_and_runs_when_mended(desk: Desk) -> None:
    action = path(desk, "mended")
    sql = {"databaseRef": {"secretName": "db", "key": "uri"}, "statement": "select :nobody"}
    bad: dict[str, dict[str, Any]] = {
        "bad-cron": {"schedule": "0 25 * * *", "http": action},
        "bad-zone": {"schedule": "@every 1s", "timeZone": "Europe/Nowhere", "http": action},
        "bad-date": {"schedule": "0 0 31 2 *", "http": action},
        "bad-action": {"schedule": "@every 1s", "sql": sql},
    }
    desk.http("beside-bad", schedule="@every 1s")
    for name, spec in bad.items():
        desk.crew.job(name, **spec)
    for name in bad:
        status = desk.status(name, lambda s: condition(s, "Valid").get("status") == "False", what="it is refused")
        sentence = condition(status, "Valid")["message"]
        assert sentence.startswith("spec.")
        until(lambda name=name: desk.events(name, "Invalid"), what="an Event says so", timeout=90)
        assert [event["note"] for event in desk.events(name, "Invalid")] == [sentence]
    versions = {
        name: desk.api.get(desk.namespace.ours("scheduledjobs", name))["metadata"]["resourceVersion"] for name in bad
    }
    desk.called("beside-bad", len(desk.calls("beside-bad")) + 3)
    for name in bad:
        found = desk.api.get(desk.namespace.ours("scheduledjobs", name))
        assert found["metadata"]["resourceVersion"] == versions[name], f"{name} is written again and again"
        mended = {"schedule": "@every 1s", "timeZone": "UTC", "sql": None, "http": path(desk, f"mended-{name}")}
        desk.crew.edit(name, mended)
    for name in bad:
        desk.called(f"mended-{name}", 2)
        status = desk.status(name, lambda s: condition(s, "Valid").get("status") == "True", what="it is accepted")
        assert status["observedGeneration"] == 2
        assert all(event.get("deprecatedCount") in (None, 1) for event in desk.events(name, "Invalid"))


def test_a_spec_spoiled_while_its_run_goes_on_still_tells_what_became_of_it(desk: Desk) -> None:
    desk.backend.rule("^/spoiled$", delay=4, times=1)
    desk.http("spoiled", schedule="@every 5s")
    (seen,) = desk.called("spoiled")
    desk.crew.edit("spoiled", {"timeZone": "Europe/Nowhere"})
    desk.status("spoiled", lambda s: condition(s, "Valid").get("status") == "False", what="it is refused")
    run = desk.run_of(seen)["metadata"]["name"]
    until(lambda: desk.crew.phase(run) == "Succeeded", what="the run that went on has its outcome", timeout=90)
    desk.crew.edit("spoiled", {"timeZone": "UTC"})
    desk.called("spoiled", 2)
    desk.status(
        "spoiled", lambda s: s["counters"]["succeeded"] >= 1 and not s["counters"]["unknown"], what="it is counted"
    )


def test_after_an_outage_each_policy_runs_the_missed_ticks_it_asks_for(crew: Crew, backend: Backend) -> None:
    """argo #9632."""
    policies: dict[str, dict[str, Any]] = {
        "skip": {"missedRunPolicy": "Skip"},
        "latest": {"missedRunPolicy": "RunLatest"},
        "all": {"missedRunPolicy": "RunAll", "maxMissedRuns": 50},
        "some": {"missedRunPolicy": "RunAll", "maxMissedRuns": 5, "concurrencyPolicy": "Allow"},
        "deadline": {"missedRunPolicy": "RunAll", "maxMissedRuns": 50, "startingDeadlineSeconds": 16},
    }
    start(crew, "a", **CALM)
    for name, policy in policies.items():
        crew.job(name, schedule="@every 2s", timeoutSeconds=2, http={"url": backend.url(f"/{name}")}, **policy, **KEEP)
    for name in policies:
        backend.wait(1, path=f"/{name}")
    crew.members["a"].kill_both()
    died = now()
    watermarks = {name: moment(crew.status(name)["watermark"]) for name in policies}
    crew.wait(lambda: now() > died + timedelta(seconds=14), what="seven ticks were missed")
    crew.start("b", **CALM)
    crew.leader(other_than="a")
    led = moment((crew.lease() or {})["spec"]["acquireTime"])
    for name in policies:
        crew.wait(lambda name=name: newest(backend, name) > led + timedelta(seconds=2), what=f"{name} goes on")
    late = {
        name: [
            tick(seen)
            for seen in backend.received(f"/{name}")
            if watermarks[name] < tick(seen) < led - timedelta(seconds=1)
        ]
        for name in policies
    }
    assert all(times == sorted(set(times)) for times in late.values()), late
    assert len(late["skip"]) <= 1
    assert len(late["latest"]) <= 1
    assert len(late["all"]) >= 6, f"under Forbid missed ticks take turns: {late['all']}"
    assert 1 <= len(late["some"]) <= 5
    assert 1 <= len(late["deadline"]) <= 8
    reasons = {name: {line["result"] for line in crew.status(name)["recent"]} for name in policies}
    assert "Missed" in reasons["skip"], reasons
    assert "Missed" in reasons["latest"], reasons
    assert not reasons["all"] & {"Missed", "TooManyMissed", "DeadlineExceeded"}, reasons
    assert "TooManyMissed" in reasons["some"], reasons
    assert "DeadlineExceeded" in reasons["deadline"], reasons
    assert not errors(crew.members["b"].log())


def newest(backend: Backend, name: str) -> Any:
    return max(tick(seen) for seen in backend.received(f"/{name}"))
