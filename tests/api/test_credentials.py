"""Tokens that change and rights that are taken away, with real controllers and a real API server."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.api.account import REST, RUNS, Account, start_as
from tests.api.crew import Crew
from tests.api.desk import LONG
from tests.api.going_on import SOON, check, epoch, goes_on, tick, told
from tests.api.tending import STEADY, not_ready, ready
from tests.cluster.backend import Backend
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.cluster.https_proxy import HttpsProxy

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]


def test_a_rotated_token_is_read_again_and_one_that_came_late_ends_no_more_than_the_term(
    crew: Crew, backend: Backend, account: Account
) -> None:
    crew.job("sweep", schedule="@every 1s", timeoutSeconds=2, http={"url": backend.url("/s")})
    member = start_as(crew, account, "a", **STEADY)
    goes_on(backend, "/s")
    term, child = epoch(crew), member.child()
    old = account.current
    account.rotate()
    account.revoke(*old)
    goes_on(backend, "/s", 3, by=term)
    assert (epoch(crew), member.child()) == (term, child), "a rotation in time cost the term"
    account.revoke(*account.current)
    crew.wait(lambda: "child ended" in member.log(), what="the term is over", timeout=SOON)
    account.rotate()
    goes_on(backend, "/s", 3)
    assert epoch(crew) > term
    check(crew, backend, "sweep", "/s")


def test_a_right_that_is_taken_away_stops_the_jobs_that_need_it_only_and_says_so(
    crew: Crew, backend: Backend, account: Account, https_proxy: HttpsProxy
) -> None:
    api, other = crew.cluster.api(), Namespace(name=f"{crew.namespace.name}-other", cluster=crew.cluster)
    api.create("/api/v1/namespaces", {"metadata": {"name": other.name}})
    without = {**RUNS, "verbs": [verb for verb in RUNS["verbs"] if verb != "create"]}
    account.may(other.name, [RUNS, *REST])
    crew.job("well", schedule="@every 1s", http={"url": backend.url("/well")})
    theirs = Crew(crew.cluster, other, crew.folder)
    theirs.job("barred", schedule="@every 1s", http={"url": backend.url("/barred")})
    both = f"{crew.namespace.name},{other.name}"
    member = start_as(crew, account, "a", server=https_proxy.server, SOLOIST_NAMESPACE=both, **LONG)
    for path in ("/well", "/barred"):
        goes_on(backend, path)
    account.may(other.name, [without, *REST])
    before, began = len(https_proxy.seen), time.monotonic()
    event = crew.wait(lambda: told(other, "RunRefused"), what="an Event says why", timeout=SOON)
    assert "forbidden" in event["note"]
    assert 'cannot create resource "jobruns"' in event["note"]
    goes_on(backend, "/well", 8)
    of_theirs = [seen for seen in https_proxy.seen[before:] if f"/{other.name}/" in seen.path and seen.method != "GET"]
    assert len(of_theirs) <= 2 * max(8, time.monotonic() - began), f"a hot loop: {of_theirs}"
    assert "forbidden" in member.log()
    last = max(tick(seen) for seen in backend.received("/barred"))
    account.may(other.name, [RUNS, *REST])
    goes_on(backend, "/barred", 2)
    assert all(at > last for at in [tick(seen) for seen in backend.received("/barred")][-2:])
    for one, job in ((crew, "well"), (theirs, "barred")):
        check(one, backend, job, f"/{job}")
    api.delete(f"/api/v1/namespaces/{other.name}")


def test_a_controller_that_may_not_list_jobs_says_so_and_launches_them_when_it_may(
    crew: Crew, backend: Backend, account: Account
) -> None:
    (port,) = free_ports(1)
    jobs = {"apiGroups": ["soloist.dev"], "resources": ["scheduledjobs"], "verbs": ["get", "list", "watch"]}
    account.may(crew.namespace.name, [RUNS, *(rule for rule in REST if rule != jobs)])
    crew.job("sweep", schedule="@every 1s", http={"url": backend.url("/s")})
    member = start_as(crew, account, "a", SOLOIST_HEALTH_PORT=str(port), **LONG)
    forbidden = 'cannot list resource "scheduledjobs"'
    crew.wait(lambda: forbidden in not_ready(port), what="it says why it is not ready", timeout=SOON)
    event = crew.wait(lambda: told(crew.namespace, "JobsUnreadable"), what="an Event says so", timeout=SOON)
    assert forbidden in event["note"]
    assert "grant what manifests/rbac says" in event["note"]
    assert "cannot list resource" in member.log()
    assert backend.received("/s") == []
    account.may(crew.namespace.name, [RUNS, *REST])
    goes_on(backend, "/s")
    crew.wait(lambda: ready(port), what="it is ready")
