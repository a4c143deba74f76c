"""The parent of a controller on a real API server: what it gives back once it has seen its child dead, and how it goes away.

One test runs the whole controller as PID 1 of a PID namespace, as a container does.
"""

from __future__ import annotations

import json
import os
import signal
from datetime import datetime, timedelta
from typing import Any

import pytest

from soloist.domain.instants import parse_time
from tests.api import crew as crews
from tests.api.crew import Controller, Crew, audit, children_of
from tests.api.desk import LONG
from tests.api.tending import now, ready
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.cluster.free_ports import free_ports
from tests.shells.parents import may_unshare, status

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
PARENT_KB, CHILD_KB = 20_000, 150_000
LEASE, PERIOD = (timedelta(seconds=int(LONG[f"SOLOIST_LEASE_{word}"])) for word in ("DURATION", "RETRY_PERIOD"))
AS_PID_1 = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def lease(crew: Crew) -> Raw:
    return crew.lease() or {}


def annotation(crew: Crew, name: str) -> Any:
    """The value of one of our annotations on the Lease, read as JSON; None where there is none."""
    text = lease(crew).get("metadata", {}).get("annotations", {}).get(f"soloist.dev/{name}")
    return json.loads(text) if text is not None else None


def moment(text: Any) -> datetime:
    found = parse_time(text)
    assert found is not None, text
    return found


def released(crew: Crew) -> Raw | None:
    """The stamp of the release, once nobody is named any more."""
    return annotation(crew, "released") if not crew.holder() else None


def said(member: Controller, message: str) -> list[Raw]:
    lines = [line for line in member.log().splitlines() if line.startswith("{")]
    return [found for line in lines if (found := json.loads(line)).get("message") == message]


def lead(crew: Crew, name: str, **env: str) -> Controller:
    """Start one, and wait until it knows that it leads: only then does its parent."""
    member = crew.start(name, **env)
    crew.wait(lambda: said(member, "leading"), what=f"{name} leads")
    return member


def test_the_lease_of_a_killed_child_is_given_back_and_says_when_its_term_ended(crew: Crew) -> None:
    leader = lead(crew, "a", **LONG)
    epoch, renewed = annotation(crew, "epoch"), moment(lease(crew)["spec"]["renewTime"])
    killed = now()
    leader.kill_child()
    stamp = crew.wait(lambda: released(crew), what="the Lease is given back")
    given_back = now()
    assert given_back - renewed < LEASE / 2, "it was not given back before it had nearly run out"
    assert stamp["epoch"] == epoch
    # Of a renewal that the child had sent and not heard of, the end counts as from the send before it.
    assert max(renewed, killed) <= moment(stamp["end"]) <= given_back + PERIOD


def test_the_next_leader_follows_a_killed_child_at_once_and_remembers_when_it_ended(
    crew: Crew, backend: Backend
) -> None:
    crew.job("sweep", schedule="@every 1s", timeoutSeconds=2, http={"url": backend.url("/s")})
    leader = lead(crew, "a", **LONG)
    backend.wait(1, timeout=90)
    (port,) = free_ports(1)
    crew.start("b", SOLOIST_HEALTH_ADDRESS="127.0.0.1", SOLOIST_HEALTH_PORT=str(port), **LONG)
    crew.wait(lambda: ready(port), what="b is ready")
    epoch = annotation(crew, "epoch")
    killed = now()
    leader.kill_child()
    crew.leader(other_than="a")
    acquired = moment(lease(crew)["spec"]["acquireTime"])
    print(f"hand-over after the child's death: {(acquired - killed).total_seconds():.3f} s")
    assert acquired - killed < LEASE / 2, "it waited for the Lease to run out"
    ends = dict(annotation(crew, "term-ends"))
    # Never too early: of a renewal that the child had sent and not heard of, the end counts as from the send before it.
    assert killed - timedelta(seconds=1) < moment(ends[epoch]) < acquired + PERIOD
    backend.wait(len(backend.received()) + 3, timeout=90)
    audit(crew, backend, "sweep", path="/s")


def test_a_lease_that_names_another_by_now_is_left_alone(crew: Crew) -> None:
    leader = lead(crew, "a")
    os.kill(leader.child(), signal.SIGSTOP)
    crew.namespace.kubectl("patch", "lease", "soloist", "--type=merge", "-p", '{"spec":{"holderIdentity":"stranger"}}')
    before = lease(crew)
    leader.kill_child()
    crew.wait(lambda: said(leader, "lease of the dead child"), what="the parent has looked")
    assert said(leader, "lease of the dead child")[0]["outcome"] == "not its own any more"
    assert lease(crew) == before


def test_the_lease_of_a_successor_is_left_alone(crew: Crew) -> None:
    leader = lead(crew, "a")
    os.kill(leader.child(), signal.SIGSTOP)
    crew.start("b", **LONG)
    crew.leader(other_than="a")
    term = annotation(crew, "epoch")
    leader.kill_child()
    crew.wait(lambda: said(leader, "lease of the dead child"), what="the parent has looked")
    assert said(leader, "lease of the dead child")[0]["outcome"] == "not its own any more"
    assert (crew.holder(), annotation(crew, "epoch")) == ("b", term)


def test_as_pid_1_a_stop_drains_what_runs_and_gives_the_lease_back(
    crew: Crew, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not may_unshare():
        pytest.skip("a PID namespace needs root (unshare --pid)")
    monkeypatch.setattr(crews, "ENTRY", [*AS_PID_1, *crews.ENTRY])
    backend.rule("/slow", delay=6)
    crew.job("slow", schedule="@every 1s", timeoutSeconds=20, http={"url": backend.url("/slow")})
    outer = crew.start("a").process
    first = until(lambda: next(iter(children_of(outer.pid)), 0), what="the parent runs", timeout=60)
    child = until(lambda: next(iter(children_of(first)), 0), what="its child runs", timeout=60)
    assert status(first, "NSpid").split()[-1] == "1"
    (running,) = backend.wait(1, timeout=90)
    os.kill(first, signal.SIGTERM)
    sizes = {name: int(status(pid, "VmHWM").split()[0]) for name, pid in (("parent", first), ("child", child))}
    print(f"resident at most: {sizes} kB")
    assert sizes["parent"] <= PARENT_KB
    assert sizes["child"] <= CHILD_KB
    crew.wait(lambda: not outer.alive(), what="the controller has gone")
    assert outer._running is not None
    assert outer._running.returncode == 0, "a stop is no failure"
    (again,) = backend.received()
    assert (again.number, again.ended_boot is not None) == (running.number, True), "it started something, or cut it off"
    run = next(run for run in crew.runs("slow") if run["metadata"]["name"] == again.header("Soloist-Run"))
    assert run["status"]["phase"] == "Succeeded"
    stamp = released(crew)
    assert stamp is not None, "the Lease was kept"
    launched, done = moment(run["status"]["startTime"]), moment(run["status"]["completionTime"])
    assert launched <= moment(stamp["end"]) <= done, "a term that drains starts nothing: it ends where it began to"
