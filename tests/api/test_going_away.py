"""Told to go, or frozen: who leads next, how soon, and that nothing starts where it should not."""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta

import pytest

from soloist.domain.lease import EPOCH, instant
from tests.api.crew import Crew, audit
from tests.api.desk import LONG, tick
from tests.api.tending import (
    EVERY_TICK,
    KEEP,
    Crews,
    attempts_ascend,
    ended,
    fences,
    logged,
    nothing_twice_or_early,
    now,
    of_run,
    phase_of,
    start,
    start_each,
    through,
    worker,
)
from tests.cluster.backend import Backend
from tests.cluster.children import until

pytestmark = pytest.mark.cluster


def test_an_idle_leader_that_is_told_to_go_hands_over_at_once(crews: Crews, backend: Backend) -> None:
    """Idle between two ticks of a job, which loses none by it."""
    crew = crews("idle")
    start(crew, "a", "b", **LONG)
    crew.job("seldom", schedule="@every 10s", http={"url": backend.url("/seldom")})
    run = str(backend.wait(1, path="/seldom")[-1].header("Soloist-Run"))
    crew.wait(lambda: crew.phase(run) == "Succeeded", what="nothing goes on")
    told = now()
    crew.members["a"].terminate()
    crew.leader(other_than="a")
    assert now() - told < timedelta(seconds=int(LONG["SOLOIST_LEASE_DURATION"]) / 2), (
        "it waited for the Lease to run out"
    )
    assert went_well(crew, "a")
    backend.wait(2, path="/seldom", when=lambda seen: tick(seen) > told)
    audit(crew, backend, "seldom", path="/seldom")


def test_a_standby_that_goes_leaves_the_lease_alone(crews: Crews) -> None:
    crew = crews("standby")
    start(crew, "a", "b")
    before = crew.lease()
    crew.members["b"].terminate()
    assert went_well(crew, "b")
    gone = now()
    crew.wait(lambda: renewed(crew) > gone, what="the leader renews after that")
    assert term(crew.lease()) == term(before)


def term(lease: dict[str, object] | None) -> list[object]:
    spec, meta = (lease or {})["spec"], (lease or {})["metadata"]
    assert isinstance(spec, dict)
    assert isinstance(meta, dict)
    names = ("holderIdentity", "acquireTime", "leaseTransitions")
    return [meta["uid"], meta["annotations"][EPOCH], *(spec[name] for name in names)]


def renewed(crew: Crew) -> datetime:
    found = instant((crew.lease() or {})["spec"]["renewTime"])
    assert found is not None
    return found


def went_well(crew: Crew, name: str) -> bool:
    """It has ended, and the parent had nothing to say about it."""
    ended(crew, name)
    return "child ended" not in crew.members[name].log()


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_run_that_is_going_on_ends_under_its_own_leader(crews: Crews, backend: Backend, replicas: int) -> None:
    """A handler of 6 s: it is waited for, nothing else starts meanwhile, and only then another leads."""
    crew = crews("busy")
    backend.rule("/long", delay=6)
    start(crew, *"ab"[:replicas])
    crew.job("long", schedule="@every 30s", suspend=True, http={"url": backend.url("/long")}, **KEEP)
    crew.job("short", schedule="@every 1s", http={"url": backend.url("/short")}, **EVERY_TICK, **KEEP)
    crew.trigger("long", "by-hand")
    (call,) = backend.wait(1, path="/long")
    crew.members["a"].terminate()
    told = now()
    crew.wait(lambda: phase_of(crew.runs("long")[0]) == "Succeeded", what="it ends well")
    assert went_well(crew, "a")
    run = crew.runs("long")[0]
    assert fences([call]) == [run["status"]["epoch"]]
    assert len(of_run(backend, "/long", run)) == 1
    # A signal is heard a little after it is sent.
    later = [seen for seen in backend.received("/short") if tick(seen) > told + timedelta(seconds=2)]
    assert fences([call])[0] not in fences(later), "nothing starts there any more"
    if replicas == 1:
        start(crew, "a")
    crew.wait(lambda: crew.holder() not in ("", "a" if replicas == 2 else ""), what="somebody leads again")
    acquired = instant((crew.lease() or {})["spec"]["acquireTime"])
    assert acquired is not None
    assert acquired > call.at + timedelta(seconds=5.9), "not before the run was over"
    through(crew, "short", now())
    audit(crew, backend, "short", path="/short")


def test_a_leader_frozen_beyond_its_lease_dies_on_waking(crews: Crews, backend: Backend) -> None:
    """Stopped for 1.5 times the lease and let go on: the dead-man timer strikes before anything else does (k8s #89466, #23731, #67651, kyverno #14984)."""
    found = {f"/{whom}{replicas}": crews(f"{whom}{replicas}") for whom in ("child", "both") for replicas in (1, 2)}
    found["/both3"] = crews("both3")
    start_each(found.values(), "a")
    start_each([crew for path, crew in found.items() if path.endswith(("2", "3"))], "b")
    start_each([found["/both3"]], "c")
    for path, crew in found.items():
        crew.job("often", schedule="@every 1s", timeoutSeconds=5, http={"url": backend.url(path)}, **EVERY_TICK, **KEEP)
    frozen = {}
    for path, crew in found.items():
        backend.wait(2, path=path)
        frozen[path] = worker(crew.members["a"])
        send(crew, frozen[path], path, signal.SIGSTOP)
    stopped = now()
    until(lambda: now() - stopped > timedelta(seconds=15), what="1.5 leases are over", timeout=90)
    for path, crew in found.items():
        if not path.endswith("1"):
            crew.wait(lambda crew=crew: crew.holder() in ("b", "c"), what="the standby does not wait for it to wake")
        send(crew, frozen[path], path, signal.SIGCONT)
    woken = now()
    for path, crew in found.items():
        logged(crew, "a", f'"stopped by its dead-man timer", "code": 142, "pid": {frozen[path]}')
        through(crew, "often", woken)
        nothing_twice_or_early(backend, path)
        attempts_ascend(backend, path)
        audit(crew, backend, "often", path=path)


def send(crew: Crew, child: int, path: str, number: signal.Signals) -> None:
    if path.startswith("/both"):
        os.kill(crew.members["a"].parent, number)
    os.kill(child, number)
