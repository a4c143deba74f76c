"""What becomes of runs when the API server, the way to it, or the Lease fails: real controllers, a real API server.

Each test looks at what the backend received and at what the API server has recorded. Faults that cannot disturb each
other share a crew, one job for each.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from soloist.domain.instants import parse_time
from soloist.domain.lease import EPOCH
from tests.api.crew import FAST, Controller, Crew, Raw, audit
from tests.api.desk import LONG, log_lines
from tests.api.going_on import SOON, at_rest, check, epoch, fence, goes_on, let_pass, tick, told
from tests.api.tending import CALM, KEEP, Crews, now
from tests.cluster.backend import Backend
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import (
    FORBIDDEN,
    DropReply,
    Freeze,
    Seen,
)
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.cluster.https_proxy import HttpsProxy

pytestmark = pytest.mark.cluster

JOB_WATCH, RUN_WATCH = r"/scheduledjobs\?.*watch=", r"/jobruns\?.*watch="


# ---- The Lease, in other people's hands


def delete(crew: Crew) -> None:
    crew.namespace.api.delete(lease_path(crew))


def blank(crew: Crew) -> None:
    crew.namespace.api.patch(lease_path(crew), {"spec": {"holderIdentity": ""}})


def take(crew: Crew) -> None:
    crew.namespace.api.patch(lease_path(crew), {"spec": {"holderIdentity": "stranger"}})


def lease_path(crew: Crew) -> str:
    return crew.namespace.path("leases", "soloist", group="coordination.k8s.io")


TAMPERED = {delete: {"LeaseDeleted", "LeaseReplaced"}, blank: {"LeaseBlanked"}, take: {"HolderChanged"}}
"""What is done to the Lease, and what its holder reads in it; another may have made it again by then."""


@pytest.mark.parametrize("tamper", TAMPERED, ids=["deleted", "blanked", "taken by a stranger"])
def test_a_lease_in_other_hands_stops_its_leader_and_the_next_waits_a_whole_lease(
    crews: Crews, backend: Backend, tamper: Callable[[Crew], None]
) -> None:
    """With one, two and three; alone, its own next child is the next leader."""
    found = {f"/{number}": crews(f"lease{number}") for number in (1, 2, 3)}
    for number, (path, crew) in enumerate(found.items(), 1):
        every = {"schedule": "@every 1s", "missedRunPolicy": "RunAll", "timeoutSeconds": 2, **KEEP}
        crew.job("sweep", **every, http={"url": backend.url(path)})
        for name in "abc"[:number]:
            crew.start(name)
    with ThreadPoolExecutor(len(found)) as pool:
        for each in [pool.submit(tampered_with, crew, backend, path, tamper) for path, crew in found.items()]:
            each.result()


def tampered_with(crew: Crew, backend: Backend, path: str, tamper: Callable[[Crew], None]) -> None:
    first = crew.leader()
    for other in crew.members.values():
        # One that has never seen the Lease may take a missing one at once: all must have.
        if other is not first:
            crew.wait(lambda other=other: "standing by" in other.log(), what="the other one stands by")
    goes_on(backend, path)
    leader, old = crew.leader(), epoch(crew)
    lost = losses(leader)
    began = now()
    tamper(crew)
    crew.wait(lambda: losses(leader) != lost, what="the old leader's child ends")
    assert losses(leader)[len(lost)] in TAMPERED[tamper], "it did not stop at its next reading"

    def next_term() -> Raw | None:
        found = crew.lease() or {}
        known = found.get("spec", {}).get("holderIdentity") and found["metadata"].get("annotations", {}).get(EPOCH)
        return found if known and int(known) > old else None

    acquired = parse_time(crew.wait(next_term, what="a new term", timeout=SOON)["spec"]["acquireTime"])
    assert acquired is not None
    if len(crew.members) > 1 or tamper is not delete:
        assert acquired - began > timedelta(seconds=int(CALM["SOLOIST_LEASE_DURATION"])), (
            "the next leader did not wait for the lease"
        )
    goes_on(backend, path, 3, after=old)
    received = backend.received(path)
    assert all(seen.at < acquired for seen in received if fence(seen) == old)
    assert all(seen.at >= acquired for seen in received if fence(seen) > old)
    check(crew, backend, "sweep", path)
    crew.edit("sweep", {"suspend": True})
    status = crew.wait(lambda: at_rest(crew, "sweep"), what="all is accounted for", timeout=SOON)
    unknown = [run for run in crew.runs("sweep") if run.get("status", {}).get("phase") == "Unknown"]
    assert status["counters"]["unknown"] == len(unknown), "an unknown run is counted once"


def losses(member: Controller) -> list[str]:
    """Why its children lost their terms, so far."""
    return [line["reason"] for line in log_lines(member.log()) if line["message"] == "lease lost"]


# ---- The API server away


def test_ticks_go_on_unaided_after_the_api_server_was_away(
    fresh_control_plane: Callable[..., ControlPlane], backend: Backend, tmp_path: Path
) -> None:
    """dkron #998."""
    cluster = fresh_control_plane()
    crews = {}
    for replicas in (1, 2, 3):
        namespace = Namespace(name=f"replicas-{replicas}", cluster=cluster)
        cluster.api().create("/api/v1/namespaces", {"metadata": {"name": namespace.name}})
        crews[f"/{replicas}"] = crew = Crew(cluster, namespace, tmp_path / namespace.name)
        crew.job("sweep", schedule="@every 1s", timeoutSeconds=2, http={"url": backend.url(f"/{replicas}")})
        for name in "abc"[:replicas]:
            crew.start(name)
    try:
        for path in crews:
            goes_on(backend, path, 3)
        cluster.stop_api()
        # A record comes before its time, by two seconds at the most.
        unrecorded = now() + timedelta(seconds=2)
        let_pass(5.0)
        gone = now()
        cluster.start_api()
        for path, crew in crews.items():
            goes_on(backend, path, 3)
            check(crew, backend, "sweep", path)
            silent = [seen for seen in backend.received(path) if tick(seen) > unrecorded and seen.at < gone]
            assert not silent, "launched although nothing could be recorded"
            crew.wait(
                lambda crew=crew: told(crew.namespace, "LeaseUnreachable"), what="an Event tells of it", timeout=SOON
            )
    finally:
        for crew in crews.values():
            crew.stop()
            for member in crew.members.values():
                print(f"---- log of {crew.namespace.name} {member.name}\n{member.log()[-4000:]}")


# ---- Watches that bring nothing


def test_a_leader_behind_a_dead_watch_starts_nothing_beside_the_run_of_the_one_before(
    crews: Crews, backend: Backend, https_proxy: HttpsProxy
) -> None:
    """With one, which is started again, with two and with three."""
    backend.rule("/slow", delay=6)
    found = {f"/slow{number}": crews(f"slow{number}") for number in (1, 2, 3)}
    for number, (path, crew) in enumerate(found.items(), 1):
        crew.env |= FAST
        crew.job("slow", schedule="@every 2s", timeoutSeconds=9, http={"url": backend.url(path)})
        for name in "abc"[:number]:
            crew.start(name, server=https_proxy.server)
    running = {path: backend.wait(1, path=path, timeout=SOON)[0] for path in found}
    for watch in (JOB_WATCH, RUN_WATCH):
        https_proxy.on("GET", watch, Freeze())
    old = {}
    for path, crew in found.items():
        leader, old[path] = crew.leader(), epoch(crew)
        leader.kill_both()
    found["/slow1"].start("a", server=https_proxy.server)
    for path, crew in found.items():
        crew.wait(lambda crew=crew, path=path: epoch(crew) > old[path], what="the next one leads", timeout=SOON)
        backend.wait(len(backend.received(path)) + 1, path=path, timeout=SOON)
        assert backend.most_at_once(path) == 1
        run = next(run for run in crew.runs("slow") if parse_time(run["spec"]["scheduledTime"]) == tick(running[path]))
        assert run["status"]["phase"] in ("Unknown", "Succeeded"), "Succeeded, where it had ended before the leader did"
        blocked = [line for line in crew.status("slow")["recent"] if line["result"] == "Blocked"]
        assert blocked, "the ticks meanwhile have no reason"
        check(crew, backend, "slow", path)


def test_an_edit_behind_a_dead_watch_is_seen_at_the_next_record(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    for job in ("suspended", "edited", "deleted"):
        crew.job(job, schedule="@every 1s", http={"url": backend.url(f"/{job}")})
    crew.start("a", server=https_proxy.server, **LONG)
    for job in ("suspended", "edited", "deleted"):
        goes_on(backend, f"/{job}")
    frozen = [https_proxy.on("GET", watch, Freeze()) for watch in (JOB_WATCH, RUN_WATCH)]
    crew.edit("suspended", {"suspend": True})
    crew.edit("edited", {"schedule": "@every 3s"})
    crew.cluster.api().delete(crew.namespace.ours("scheduledjobs", "deleted"))
    done = now()
    backend.wait(2, path="/edited", timeout=SOON, when=lambda seen: tick(seen) > done + timedelta(seconds=1))
    assert all(
        tick(seen) <= done + timedelta(seconds=1)
        for job in ("/suspended", "/deleted")
        for seen in backend.received(job)
    )
    late = [tick(seen) for seen in backend.received("/edited") if tick(seen) > done + timedelta(seconds=1)]
    assert all(at.timestamp() % 3 == 0 for at in late), late
    for rule in frozen:
        rule.remove()
    check(crew, backend, "edited", "/edited")
    audit(crew, backend, "suspended", path="/suspended")


def test_a_replica_whose_watch_never_comes_up_is_not_ready_and_says_so(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    """Its lists are answered, so it leads and launches all the same."""
    (port,) = free_ports(1)
    refused = https_proxy.on("GET", JOB_WATCH, FORBIDDEN)
    crew.job("listed", schedule="@every 1s", http={"url": backend.url("/listed")})
    crew.start("a", server=https_proxy.server, SOLOIST_HEALTH_PORT=str(port), **LONG)
    goes_on(backend, "/listed")
    refused.wait(2, SOON)
    code, said = probed(port)
    assert code == 503
    assert "ok   cache: 1 jobs are known" in said
    assert "FAIL watch: no watch of the jobs has come up yet" in said
    refused.remove()
    crew.wait(lambda: probed(port)[0] == 200, what="it is ready when the watch is up", timeout=SOON)


def probed(port: int) -> tuple[int, str]:
    """The code and the text of /readyz."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        asked.request("GET", "/readyz")
        answer = asked.getresponse()
        return answer.status, answer.read().decode()
    finally:
        asked.close()


# ---- Replies that are lost, and answers that make no sense


def test_a_write_whose_reply_is_lost_launches_once_all_the_same(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    jobs = {"create": ("POST", r"/jobruns$"), "record": ("PUT", "/scheduledjobs/"), "outcome": ("PATCH", "/jobruns/")}
    for job, (method, path) in jobs.items():
        crew.job(job, schedule="@every 2s", http={"url": backend.url(f"/{job}")})
        https_proxy.on(method, path, DropReply(), when=every_other(job))
    crew.start("a", server=https_proxy.server, **LONG)
    for job in jobs:
        goes_on(backend, f"/{job}", 4)
    https_proxy.clear()
    for job in jobs:
        crew.edit(job, {"suspend": True})
    for job in jobs:
        crew.wait(lambda job=job: at_rest(crew, job), what=f"all of {job} is accounted for", timeout=SOON)
        counters = crew.status(job)["counters"]
        received = len(backend.received(f"/{job}"))
        assert (counters["launched"], counters["succeeded"], counters["unknown"]) == (received, received, 0), job
        audit(crew, backend, job, path=f"/{job}")


def every_other(job: str) -> Callable[[Seen], bool]:
    """Every second write that concerns the job."""
    count = 0

    def when(seen: Seen) -> bool:
        nonlocal count
        named = seen.path if seen.method in ("PUT", "PATCH") else seen.json()["spec"]["scheduledJobName"]
        if not re.search(rf"(^|/){job}(-|/|$)", named):
            return False
        count += 1
        return count % 2 == 1

    return when
