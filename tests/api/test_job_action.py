"""job actions from end to end: a Job that starts at its time, tells what became of it, and is never started twice.

There is no node: a test plays the kubelet and says of a Pod that it has ended; the Job controller does the rest.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.api.crew import Crew, Raw
from tests.api.desk import Desk, away, errors, moment, phase
from tests.api.tending import CALM, now, start
from tests.cluster.children import until

pytestmark = pytest.mark.cluster


def action(word: str = "first", **spec: Any) -> Raw:
    container = {"name": "main", "image": "x", "env": [{"name": "WORD", "value": word}]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    template = {"metadata": {"labels": {"team": "billing"}}, "spec": pod}
    return {"template": {"metadata": {"annotations": {"note": "kept"}}, "spec": {"template": template, **spec}}}


def jobs_of(crew: Crew, name: str) -> list[Raw]:
    """The Jobs of one ScheduledJob, oldest first."""
    found = crew.cluster.api().items(crew.namespace.path("jobs", group="batch"))
    own = [job for job in found if job["metadata"]["labels"].get("soloist.dev/scheduled-job") == name]
    return sorted(own, key=lambda job: str(job["metadata"]["name"]))


def started(crew: Crew, name: str, *, other_than: str = "") -> Raw:
    """Wait until a Job of it is not suspended any more."""

    def probe() -> Raw | None:
        going = [job for job in jobs_of(crew, name) if not job["spec"]["suspend"]]
        return next((job for job in going if job["metadata"]["uid"] != other_than), None)

    found: Raw = until(probe, what=f"a Job of {name} is started", timeout=90)
    return found


def early_in(period: int) -> None:
    """Wait until the most of a slot is left: whoever is applied now has its first tick well ahead."""
    until(lambda: now().timestamp() % period < period / 4, what=f"a slot of {period} s has begun", timeout=60)


def end(crew: Crew, job: Raw, phase: str = "Succeeded") -> Raw:
    """What a kubelet writes when the containers of a Job's Pod have ended."""
    api, run = crew.cluster.api(), job["metadata"]["name"]

    def probe() -> Raw | None:
        pods = api.items(crew.namespace.path("pods"))
        return next((pod for pod in pods if pod["metadata"]["labels"].get("soloist.dev/run") == run), None)

    pod: Raw = until(probe, what=f"Job {run} has a Pod", timeout=90)
    api.patch(crew.namespace.path("pods", pod["metadata"]["name"]) + "/status", {"status": {"phase": phase}})
    return pod


def settled(crew: Crew, run: str) -> Raw:
    """Wait for the run's outcome; its status."""
    final = ("Succeeded", "Failed", "Unknown", "Cancelled", "Interrupted", "Skipped")
    until(lambda: crew.phase(run) in final, what=f"{run} is over", timeout=90)
    found: Raw = crew.cluster.api().get(crew.namespace.ours("jobruns", run))["status"]
    return found


def test_a_job_waits_suspended_and_starts_at_its_time(desk: Desk) -> None:
    early_in(8)
    made = desk.crew.job("timely", schedule="@every 8s", job=action())

    def waiting() -> Raw | None:
        found = jobs_of(desk.crew, "timely")
        return found[0] if found and found[0]["spec"]["suspend"] else None

    early: Raw = until(waiting, what="a suspended Job is there", timeout=90)
    run = desk.api.get(desk.namespace.ours("jobruns", early["metadata"]["name"]))
    at = moment(run["spec"]["scheduledTime"])
    assert moment(early["metadata"]["creationTimestamp"]) < at
    (owner,) = early["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("JobRun", run["metadata"]["uid"], True)
    assert early["metadata"]["annotations"]["note"] == "kept"
    job = started(desk.crew, "timely")
    assert job["metadata"]["uid"] == early["metadata"]["uid"]
    assert now() >= at
    pod = end(desk.crew, job)
    assert moment(pod["metadata"]["creationTimestamp"]) >= at
    env = {each["name"]: each for each in pod["spec"]["containers"][0]["env"]}
    assert env["WORD"]["value"] == "first"
    assert env["SOLOIST_RUN"]["value"] == run["metadata"]["name"]
    assert env["SOLOIST_KEY"]["value"] == f"{made['metadata']['uid']}/{run['spec']['scheduledTime']}"
    assert env["SOLOIST_SCHEDULED_TIME"]["value"] == run["spec"]["scheduledTime"]
    assert pod["metadata"]["annotations"]["soloist.dev/fence"] == str(run["spec"]["lease"]["epoch"])
    assert pod["metadata"]["labels"]["team"] == "billing"
    assert settled(desk.crew, run["metadata"]["name"])["phase"] == "Succeeded"
    desk.status("timely", lambda s: s["counters"]["succeeded"] == 1, what="it is counted")


def test_a_failed_job_gives_the_jobs_own_reason(desk: Desk) -> None:
    desk.crew.job("fails", schedule="@every 2s", job=action(backoffLimit=0))
    job = started(desk.crew, "fails")
    end(desk.crew, job, "Failed")
    status = settled(desk.crew, job["metadata"]["name"])
    assert (status["phase"], status["reason"], status["attempt"]) == ("Failed", "BackoffLimitExceeded", 1)
    desk.status("fails", lambda s: s["counters"]["failed"] == 1, what="it is counted")
    started(desk.crew, "fails", other_than=job["metadata"]["uid"])


def test_deleting_a_run_stops_its_job_and_the_next_tick_has_its_turn(desk: Desk) -> None:
    desk.crew.job("stopped", schedule="@every 2s", job=action())
    job = started(desk.crew, "stopped")
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    desk.delete("jobruns", name)
    until(
        lambda: uid not in [each["metadata"]["uid"] for each in jobs_of(desk.crew, "stopped")],
        what="it is gone",
        timeout=90,
    )
    started(desk.crew, "stopped", other_than=uid)
    assert desk.crew.phase(name) == "absent"
    desk.recent("stopped", "Cancelled")


def test_replace_deletes_the_job_that_is_going_on_before_it_starts_the_next(desk: Desk) -> None:
    desk.crew.job("replaced", schedule="@every 4s", concurrencyPolicy="Replace", job=action())
    job = started(desk.crew, "replaced")
    uid = job["metadata"]["uid"]

    def going() -> list[str]:
        found = [each["metadata"]["uid"] for each in jobs_of(desk.crew, "replaced") if not each["spec"]["suspend"]]
        return found if set(found) - {uid} else []

    found: list[str] = until(going, what="another is started", timeout=90)
    assert len(found) == 1, "it was started beside the one that it replaces"
    assert desk.api.find(desk.namespace.path("jobs", job["metadata"]["name"], group="batch")) is None
    status = settled(desk.crew, job["metadata"]["name"])
    assert (status["phase"], status["reason"]) == ("Cancelled", "Replaced")


def test_a_template_edited_after_the_job_was_made_is_the_one_that_runs(desk: Desk) -> None:
    early_in(10)
    desk.crew.job("changed", schedule="@every 10s", job=action("first"))

    def waiting() -> Raw | None:
        found = [job for job in jobs_of(desk.crew, "changed") if job["spec"]["suspend"]]
        when = [moment(job["metadata"]["annotations"]["soloist.dev/scheduled-time"]) for job in found]
        return found[0] if found and away(when[0]) > timedelta(seconds=4) else None

    early: Raw = until(waiting, what="a Job waits well before its time", timeout=60)
    desk.crew.edit("changed", {"job": action("second")})
    job = started(desk.crew, "changed")
    assert job["metadata"]["name"] == early["metadata"]["name"]
    env = {each["name"]: each.get("value") for each in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env["WORD"] == "second"
    assert [each["metadata"]["name"] for each in jobs_of(desk.crew, "changed")].count(early["metadata"]["name"]) == 1


def test_a_waiting_job_that_a_person_deletes_is_made_again_for_its_time(desk: Desk) -> None:
    early_in(8)
    desk.crew.job("again", schedule="@every 8s", job=action())

    def waiting() -> Raw | None:
        found = [job for job in jobs_of(desk.crew, "again") if job["spec"]["suspend"]]
        when = [moment(job["metadata"]["annotations"]["soloist.dev/scheduled-time"]) for job in found]
        return found[0] if found and away(when[0]) > timedelta(seconds=4) else None

    early: Raw = until(waiting, what="a Job waits well before its time", timeout=60)
    desk.api.delete(
        desk.namespace.path("jobs", early["metadata"]["name"], group="batch"), {"propagationPolicy": "Background"}
    )
    job = started(desk.crew, "again")
    assert job["metadata"]["name"] == early["metadata"]["name"]
    assert job["metadata"]["uid"] != early["metadata"]["uid"]


def test_whoever_leads_next_takes_the_jobs_over_as_they_are(crew: Crew) -> None:
    """One goes on, one ends while nobody leads, and one is deleted by a person, so that nobody can know."""
    start(crew, "a", **CALM)
    for name in ("kept", "done", "lost"):
        crew.job(name, schedule="@every 2s", job=action())
    before = {name: started(crew, name) for name in ("kept", "done", "lost")}
    crew.members["a"].kill_both()
    runs = {name: str(job["metadata"]["name"]) for name, job in before.items()}
    end(crew, before["done"])
    crew.cluster.api().delete(
        crew.namespace.path("jobs", runs["lost"], group="batch"), {"propagationPolicy": "Background"}
    )
    start(crew, "b", **CALM)
    crew.wait(lambda: crew.holder() == "b", what="the next one leads")
    assert settled(crew, runs["done"])["phase"] == "Succeeded"
    lost = settled(crew, runs["lost"])
    assert (lost["phase"], lost["reason"]) == ("Unknown", "JobGone")
    for name in ("done", "lost"):
        started(crew, name, other_than=before[name]["metadata"]["uid"])
    assert crew.phase(runs["kept"]) in ("Pending", "Running")
    assert [job["metadata"]["uid"] for job in jobs_of(crew, "kept") if not job["spec"]["suspend"]] == [
        before["kept"]["metadata"]["uid"]
    ]
    end(crew, before["kept"])
    assert settled(crew, runs["kept"])["phase"] == "Succeeded"
    started(crew, "kept", other_than=before["kept"]["metadata"]["uid"])
    names = [run["metadata"]["name"] for run in crew.runs("lost") if phase(run) == "Unknown"]
    assert names == [runs["lost"]]
    assert not errors(crew.members["b"].log())
