"""Objects that go away under the controller's hands.

A run deleted by a person is cancelled, not repeated, wherever it stood; a job or a namespace that goes takes nothing
else with it.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.api.crew import FAST, Crew, audit
from tests.api.desk import CREWS, Desk, also_with_standbys, away, errors, lines, log_lines, moment, phase, tick
from tests.api.tending import CALM, now, start
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster
with_members = pytest.mark.parametrize("members", CREWS)

ENOUGH = timedelta(seconds=5)
FOR_EVER = "600"
"""Seconds of grace: who waits for what is gone is not through while a test waits."""


@also_with_standbys
def test_a_claimed_run_that_is_deleted_is_made_again_and_launched_once(desk: Desk) -> None:
    desk.http("claimed", schedule="@every 8s")

    def early() -> Any:
        """One that is launched keeps its phase until its outcome is written, hence by its time."""
        return next((r for r in desk.crew.runs("claimed") if away(moment(r["spec"]["scheduledTime"])) > ENOUGH), None)

    claimed = until(early, what="a run is claimed well before its time", timeout=90)
    assert phase(claimed) == "Pending"
    name, uid = claimed["metadata"]["name"], claimed["metadata"]["uid"]
    desk.delete("jobruns", name)

    def made_again() -> bool:
        found = desk.api.find(desk.namespace.ours("jobruns", name))
        return found is not None and found["metadata"]["uid"] != uid

    until(made_again, what="it is made again", timeout=90)
    desk.called("claimed", 2)
    counted = Counter(str(seen.header("Soloist-Scheduled-Time")) for seen in desk.calls("claimed"))
    assert counted[claimed["spec"]["scheduledTime"]] == 1, counted
    desk.audit("claimed")


@also_with_standbys
def test_a_finished_run_that_is_deleted_is_remembered_all_the_same(desk: Desk) -> None:
    """argo #14719, kruise #2213."""
    desk.http("finished", schedule="@every 3s")
    run = desk.run("finished", "Succeeded")
    desk.delete("jobruns", run["metadata"]["name"])
    desk.called("finished", 3)
    desk.status("finished", lambda s: s.get("counters", {}).get("succeeded", 0) >= 2, what="two are accounted for")
    assert desk.api.find(desk.namespace.ours("jobruns", run["metadata"]["name"])) is None
    counted = Counter(str(seen.header("Soloist-Scheduled-Time")) for seen in desk.calls("finished"))
    assert max(counted.values()) == 1, counted
    status = desk.crew.status("finished")
    assert not lines(status, "Cancelled"), status["recent"]
    assert not lines(status, "Blocked"), status["recent"]
    desk.audit("finished")


@also_with_standbys
def test_a_run_deleted_in_mid_call_is_cancelled_and_keeps_its_place_for_its_time_out(desk: Desk) -> None:
    desk.backend.rule("^/called$", delay=30)
    desk.http("called", schedule="@every 1s", timeoutSeconds=4)
    (first,) = desk.called("called")
    name = str(first.header("Soloist-Run"))
    desk.delete("jobruns", name)
    second = desk.called("called", 2)[1]
    assert second.at - tick(first) >= timedelta(seconds=4), "the next one began while the first may have been going on"
    assert second.header("Soloist-Run") != name
    assert desk.api.find(desk.namespace.ours("jobruns", name)) is None
    line = desk.recent("called", "Cancelled")
    assert moment(line["first"]) == tick(first)
    desk.status("called", lambda s: sum(line["count"] for line in lines(s, "Blocked")) >= 2, what="some were blocked")
    desk.audit("called")


@also_with_standbys
def test_a_run_deleted_between_two_attempts_gets_no_other(desk: Desk) -> None:
    desk.backend.rule("^/between$", status=503)
    desk.http(
        "between",
        schedule="@every 2s",
        timeoutSeconds=3,
        retry={"maxAttempts": 3, "initialDelaySeconds": 6, "factor": 1},
    )
    run = desk.run("between", "Retrying")
    name = run["metadata"]["name"]
    desk.delete("jobruns", name)
    after = [seen for seen in desk.calls("between") if seen.header("Soloist-Run") == name]
    desk.recent("between", "Cancelled")
    others = until(
        lambda: [seen for seen in desk.calls("between") if seen.header("Soloist-Run") != name],
        what="a later tick has its turn",
        timeout=90,
    )
    assert others[0].at - tick(after[0]) >= timedelta(seconds=3)
    assert [seen for seen in desk.calls("between") if seen.header("Soloist-Run") == name] == after
    entries = desk.crew.status("between").get("active", [])
    assert name not in [entry["run"] for entry in entries]
    desk.audit("between")


@with_members
def test_a_recorded_run_deleted_while_nobody_leads_is_not_made_again(
    crew: Crew, backend: Backend, members: tuple[str, ...]
) -> None:
    """Standbys have a lease of 10 s to wait for, in which the run is deleted; without, another is started afterwards."""
    first, *standbys = members
    pace = CALM if standbys else FAST
    start(crew, first, SOLOIST_CRASH_AT="recorded:both", **pace)
    start(crew, *standbys, **pace)
    crew.job("lost", schedule="@every 5s", timeoutSeconds=4, http={"url": backend.url("/lost")})
    gone = crew.members[first].process
    crew.wait(lambda: not gone.alive(), what="the leader died between record and launch")
    (entry,) = crew.status("lost")["active"]
    crew.namespace.api.delete(crew.namespace.ours("jobruns", entry["run"]))
    assert crew.holder() == first, "somebody leads again already"
    if not standbys:
        crew.start("b")
    crew.leader(other_than=first)
    taken = moment((crew.lease() or {})["spec"]["acquireTime"])
    crew.wait(lambda: lines(crew.status("lost"), "Cancelled"), what="it is cancelled")
    assert now() - taken >= timedelta(seconds=4), "it left active before its time-out had passed"
    backend.wait(2, path="/lost")
    assert entry["scheduledTime"] not in [seen.header("Soloist-Scheduled-Time") for seen in backend.received("/lost")]
    assert crew.phase(entry["run"]) == "absent"
    assert entry["uid"] not in [each["uid"] for each in crew.status("lost").get("active", ())]
    audit(crew, backend, "lost", path="/lost")


@with_members
def test_a_job_deleted_in_mid_run_leaves_nothing_hanging(
    crew: Crew, backend: Backend, members: tuple[str, ...]
) -> None:
    backend.rule("^/going$", delay=4)
    start(crew, *members, SOLOIST_GRACE=FOR_EVER, **CALM)
    crew.job("going", schedule="@every 1s", http={"url": backend.url("/going")})
    crew.job("staying", schedule="@every 1s", http={"url": backend.url("/staying")})
    backend.wait(1, path="/going")
    api, path = crew.namespace.api, crew.namespace.ours("scheduledjobs", "going")
    api.delete(path)
    crew.wait(lambda: api.find(path) is None, what="the job is gone")
    crew.wait(lambda: not crew.runs("going"), what="its runs are gone")
    old = len(backend.received("/going"))
    again = crew.job("going", schedule="@every 1s", http={"url": backend.url("/going")})
    seen = backend.wait(old + 1, path="/going")[old]
    assert str(seen.header("Idempotency-Key")).startswith(again["metadata"]["uid"])
    api.delete(path)
    crew.wait(lambda: api.find(path) is None, what="it is gone again")
    before = len(backend.received("/staying"))
    backend.wait(before + 3, path="/staying")
    audit(crew, backend, "staying", path="/staying")
    for each in crew.members.values():
        assert not errors(each.log()), errors(each.log())
    member = crew.members["a"]
    member.terminate()
    crew.wait(lambda: not member.process.alive(), what="going away waits for no run of a job that is gone")
    taken_over(crew, backend, members)


def taken_over(crew: Crew, backend: Backend, members: tuple[str, ...]) -> None:
    """Whoever stands by goes on with what stays."""
    if len(members) > 1:
        crew.leader(other_than=members[0])
        backend.wait(len(backend.received("/staying")) + 2, path="/staying")
        audit(crew, backend, "staying", path="/staying")


@with_members
def test_a_namespace_deleted_in_mid_run_goes_and_the_others_go_on(
    crew: Crew, backend: Backend, control_plane: ControlPlane, members: tuple[str, ...]
) -> None:
    api, doomed = control_plane.api(), f"{crew.namespace.name}-doomed"
    api.create("/api/v1/namespaces", {"metadata": {"name": doomed}})
    backend.rule("^/slow$", delay=6)
    start(crew, *members, SOLOIST_NAMESPACE=f"{crew.namespace.name},{doomed}", SOLOIST_GRACE=FOR_EVER, **CALM)
    crew.job("staying", schedule="@every 1s", http={"url": backend.url("/staying")})
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    jobs = {
        "slow": {"http": {"url": backend.url("/slow")}},
        "quick": {"http": {"url": backend.url("/quick")}},
        "pod": {"job": {"template": {"spec": {"template": {"spec": pod}}}}},
    }
    for name, action in jobs.items():
        control_plane.kubectl("apply", "-n", doomed, "-f", "-", stdin=_manifest(name, action))
    backend.wait(1, path="/slow")
    crew.wait(lambda: api.items(f"/apis/batch/v1/namespaces/{doomed}/jobs"), what="a Job is there")
    api.delete(f"/api/v1/namespaces/{doomed}")
    began = now()
    crew.wait(lambda: api.find(f"/api/v1/namespaces/{doomed}") is None, what="the namespace is gone", timeout=240)
    seconds = (now() - began).total_seconds()
    quick, before = len(backend.received("/quick")), len(backend.received("/staying"))
    backend.wait(before + 4, path="/staying")
    audit(crew, backend, "staying", path="/staying")
    assert len(backend.received("/quick")) == quick
    complaints = [line for line in log_lines(crew.members["a"].log()) if line["level"] != "info"]
    assert len(complaints) <= max(12, 2 * seconds), f"in {seconds:.0f} s: {complaints}"
    member = crew.members["a"]
    member.terminate()
    crew.wait(lambda: not member.process.alive(), what="going away waits for nothing in it")
    taken_over(crew, backend, members)


def _manifest(name: str, action: dict[str, object]) -> str:
    spec = {"schedule": "@every 1s", **action}
    return json.dumps(
        {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "metadata": {"name": name}, "spec": spec}
    )
