"""Two installations beside each other on one API server, where nobody else writes: what they cost it is counted."""

from __future__ import annotations

import time

import pytest

from tests.api.crew import Crew, audit
from tests.api.desk import errors, phase
from tests.api.tending import CALM
from tests.cluster.backend import Backend
from tests.cluster.control_plane import ControlPlane
from tests.cluster.request_counts import WRITES

pytestmark = pytest.mark.cluster


def test_two_installations_beside_each_other_launch_each_tick_once_and_say_so(
    crew: Crew, backend: Backend, control_plane: ControlPlane
) -> None:
    """argo #2773, #2694."""
    backend.rule("^/slow$", delay=1.5)
    crew.start("a", **CALM)
    crew.start("b", lease="other", **CALM)
    crew.wait(lambda: crew.holder() == "a" and crew.holder("other") == "b", what="each leads its own")
    crew.job("sweep", schedule="@every 1s", successfulRunsHistoryLimit=50, http={"url": backend.url("/sweep")})
    crew.job("slow", schedule="@every 1s", timeoutSeconds=15, http={"url": backend.url("/slow")})
    backend.wait(3, path="/sweep", timeout=90)
    began, counted = time.monotonic(), control_plane.requests()
    backend.wait(len(backend.received("/sweep")) + 8, path="/sweep")
    writes = (control_plane.requests() - counted).total(WRITES, group="soloist.dev")
    seconds = int(time.monotonic() - began) + 2
    assert writes <= 16 * seconds, f"{writes} writes in {seconds} s for two jobs, each due every second in two places"
    crew.wait(lambda: crew.status("slow").get("counters", {}).get("succeeded", 0) >= 2, what="the slow one has run")
    for job in ("sweep", "slow"):
        audit(crew, backend, job, path=f"/{job}")
    assert backend.most_at_once("/slow") == 1
    for run in crew.runs():
        let_go = run.get("status", {}).get("reason") in ("Blocked", "Missed")  # missed, where the machine is busy
        assert phase(run) in ("Pending", "Running", "Succeeded", "Superseded") or let_go, run
        assert run["spec"]["lease"]["name"] in ("soloist", "other")
    events = crew.wait(
        lambda: [
            event
            for event in crew.namespace.api.items(crew.namespace.path("events", group="events.k8s.io"))
            if event["reason"] == "OtherInstallation"
        ],
        what="an Event says that there are two",
    )
    assert crew.namespace.name in events[0]["note"]
    for member in crew.members.values():
        assert not errors(member.log()), errors(member.log())
