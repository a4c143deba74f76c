"""What becomes of runs when the API server, the way to it, or the Lease fails: real controllers, a real API server.

Each test looks at what the backend received and at what the API server has recorded. Faults that cannot disturb each
other share a crew, one job for each.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from soloist.domain.instants import parse_time
from tests.api.crew import LEASE_SECONDS, Controller, Crew, audit
from tests.cluster.backend import Backend, Received
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import (
    BAD_GATEWAY,
    EMPTY,
    TOO_MANY,
    UNAVAILABLE,
    DropReply,
    Effect,
    Freeze,
    Hold,
    Seen,
    Truncate,
)
from tests.cluster.fixtures import Namespace
from tests.cluster.https_proxy import HttpsProxy

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
JOB_WATCH, RUN_WATCH = r"/scheduledjobs\?.*watch=", r"/jobruns\?.*watch="
SOON = 40.0


def utc_now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def let_pass(seconds: float) -> None:
    """The fault lasts so long: nothing is waited for."""
    time.sleep(seconds)


def tick(seen: Received) -> datetime:
    found = parse_time(seen.header("Soloist-Scheduled-Time"))
    assert found is not None
    return found


def fence(seen: Received) -> int:
    return int(seen.header("Soloist-Fence") or 0)


def epoch(crew: Crew) -> int:
    return int((crew.lease() or {}).get("metadata", {}).get("annotations", {}).get("soloist.dev/epoch", 0))


def goes_on(backend: Backend, path: str, count: int = 2, *, timeout: float = SOON, by: int = 0) -> None:
    """So many more requests arrive from now on; ``by`` the term of that epoch, if given."""
    before = {seen.number for seen in backend.received(path)}

    def new(seen: Received) -> bool:
        return seen.path == path and seen.number not in before and by in (0, fence(seen))

    backend.wait(count, path=path, timeout=timeout, when=new)


def check(crew: Crew, backend: Backend, job: str, path: str) -> None:
    """The books, once all that is due by now is decided."""
    now = utc_now()

    def caught_up() -> bool:
        watermark = parse_time(crew.status(job).get("watermark"))
        return watermark is not None and watermark > now - timedelta(seconds=1)

    crew.wait(caught_up, what=f"{job} has caught up", timeout=SOON)
    audit(crew, backend, job, path=path)


# ---- The Lease, in other people's hands


def delete(crew: Crew) -> None:
    crew.namespace.kubectl("delete", "lease", "soloist")


def blank(crew: Crew) -> None:
    crew.namespace.kubectl("patch", "lease", "soloist", "--type=merge", "-p", '{"spec":{"holderIdentity":""}}')


def take(crew: Crew) -> None:
    crew.namespace.kubectl("patch", "lease", "soloist", "--type=merge", "-p", '{"spec":{"holderIdentity":"stranger"}}')


@pytest.mark.parametrize("tamper", [delete, blank, take], ids=["deleted", "blanked", "taken by a stranger"])
def test_a_lease_in_other_hands_stops_its_leader_and_the_next_waits_a_whole_lease(
    crew: Crew, backend: Backend, tamper: Callable[[Crew], None]
) -> None:
    crew.job("sweep", schedule="@every 1s", missedRunPolicy="RunAll", timeoutSeconds=2, http={"url": backend.url("/s")})
    for name in "ab":
        crew.start(name)
    leader = crew.leader()
    other = next(member for member in crew.members.values() if member is not leader)
    # One that has never seen the Lease may take a missing one at once: both must have.
    crew.wait(lambda: "standing by" in other.log(), what="the other one stands by")
    goes_on(backend, "/s")
    old = epoch(crew)
    tamper(crew)
    done = utc_now()
    crew.wait(lambda: "lost its term" in leader.log(), what="the old leader's child ends", timeout=3)
    assert utc_now() - done < timedelta(seconds=2), "it did not stop at its next reading"
    crew.leader(timeout=SOON)
    crew.wait(lambda: epoch(crew) > old, what="a new term", timeout=SOON)
    acquired = parse_time((crew.lease() or {})["spec"]["acquireTime"])
    assert acquired is not None
    assert acquired - done > timedelta(seconds=LEASE_SECONDS - 0.5), "the next leader did not wait for the lease"
    goes_on(backend, "/s", 3)
    received = backend.received("/s")
    assert all(seen.at < done + timedelta(seconds=2) for seen in received if fence(seen) == old)
    assert all(seen.at >= acquired for seen in received if fence(seen) > old)
    check(crew, backend, "sweep", "/s")
    unknown = [run for run in crew.runs("sweep") if run.get("status", {}).get("phase") == "Unknown"]
    assert crew.status("sweep")["counters"]["unknown"] == len(unknown), "an unknown run is counted once"


# ---- The API server away


def test_ticks_go_on_unaided_after_the_api_server_was_away(
    fresh_control_plane: Callable[..., ControlPlane], backend: Backend, tmp_path: Path
) -> None:
    cluster = fresh_control_plane()
    crews = {}
    for replicas in (1, 2):
        namespace = Namespace(name=f"replicas-{replicas}", cluster=cluster)
        cluster.api().create("/api/v1/namespaces", {"metadata": {"name": namespace.name}})
        crews[f"/{replicas}"] = crew = Crew(cluster, namespace, tmp_path / namespace.name)
        crew.job("sweep", schedule="@every 1s", timeoutSeconds=2, http={"url": backend.url(f"/{replicas}")})
        for name in "ab"[:replicas]:
            crew.start(name)
    try:
        for path in crews:
            goes_on(backend, path, 3)
        cluster.stop_api()
        let_pass(5.0)
        gone = utc_now()
        cluster.start_api()
        for path, crew in crews.items():
            goes_on(backend, path, 3)
            check(crew, backend, "sweep", path)
            silent = [seen for seen in backend.received(path) if gone - timedelta(seconds=1) < seen.at < gone]
            assert not silent, "launched although nothing could be recorded"
    finally:
        for crew in crews.values():
            crew.stop()
            for member in crew.members.values():
                print(f"---- log of {crew.namespace.name} {member.name}\n{member.log()[-4000:]}")


# ---- Writes that arrive late


def test_a_dead_leaders_late_create_of_a_tick_that_ran_and_was_trimmed_ends_superseded(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    jobs = {"kept-none": 0, "kept-one": 1}
    held = {}
    for job, limit in jobs.items():
        held[job] = https_proxy.on("POST", r"/jobruns$", Hold(), when=about(job), times=1)
        crew.job(
            job,
            schedule="@every 4s",
            missedRunPolicy="RunAll",
            successfulRunsHistoryLimit=limit,
            http={"url": backend.url(f"/{job}")},
        )
    first = crew.start("a", server=https_proxy.server)
    late = {job: rule.wait(timeout=SOON).json() for job, rule in held.items()}
    old = epoch(crew)
    first.kill_both()
    crew.start("b")
    for job, body in late.items():
        name, at = body["metadata"]["name"], parse_time(body["spec"]["scheduledTime"])
        assert body["spec"]["lease"]["epoch"] == old
        backend.wait(1, path=f"/{job}", timeout=SOON, when=lambda seen, at=at: tick(seen) == at)
        crew.wait(lambda name=name: crew.phase(name) == "absent", what=f"the run of {job} is trimmed", timeout=SOON)
        held[job].release()
        crew.wait(lambda name=name: crew.phase(name) == "Superseded", what="the late one is superseded", timeout=10)
        goes_on(backend, f"/{job}", 1)
        check(crew, backend, job, f"/{job}")
        assert sum(tick(seen) == at for seen in backend.received(f"/{job}")) == 1
        assert not [seen for seen in backend.received(f"/{job}") if fence(seen) <= old]


def about(job: str) -> Callable[[Seen], bool]:
    return lambda seen: bool(seen.json()["spec"]["scheduledJobName"] == job)


def records(seen: Seen) -> bool:
    """A write of the job's status that puts a run into ``active``."""
    return bool(seen.json()["status"].get("active"))


def test_a_dead_leaders_late_record_fails_its_precondition_and_launches_nothing(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    crew.job("sweep", schedule="@every 1s", timeoutSeconds=2, http={"url": backend.url("/s")})
    first = crew.start("a", server=https_proxy.server)
    goes_on(backend, "/s")
    held = https_proxy.on("PUT", "/scheduledjobs/sweep/status", Hold(), when=records, times=1)
    record = held.wait().json()
    entry = record["status"]["active"][-1]
    old = epoch(crew)
    assert entry["epoch"] == old
    first.kill_both()
    crew.start("b")
    crew.leader(other_than="a", timeout=SOON)
    goes_on(backend, "/s", by=epoch(crew))
    crew.edit("sweep", {"suspend": True})
    crew.wait(lambda: crew.status("sweep")["observedSchedule"]["suspend"], what="the job is at rest")
    settled = crew.wait(lambda: at_rest(crew, "sweep"), what="nothing is written any more")
    conflicts = crew.cluster.requests().total("PUT", "scheduledjobs", "status", code="409")
    held.release()
    crew.wait(
        lambda: crew.cluster.requests().total("PUT", "scheduledjobs", "status", code="409") > conflicts,
        what="the late record is refused",
    )
    assert crew.status("sweep") == settled
    by_the_dead = [tick(seen) for seen in backend.received("/s") if fence(seen) == old]
    assert parse_time(record["status"]["watermark"]) not in by_the_dead
    audit(crew, backend, "sweep", path="/s")


def at_rest(crew: Crew, job: str) -> Raw | None:
    """The status, once all is accounted for and it stays as it is for a second."""
    status = crew.status(job)
    if status.get("active"):
        return None
    let_pass(1.0)
    return status if crew.status(job) == status else None


# ---- Watches that bring nothing


def test_a_leader_behind_a_dead_watch_starts_nothing_beside_the_run_of_the_one_before(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    backend.rule("/slow", delay=6)
    crew.job("slow", schedule="@every 2s", timeoutSeconds=7, http={"url": backend.url("/slow")})
    for name in "ab":
        crew.start(name, server=https_proxy.server)
    leader = crew.leader()
    (running,) = backend.wait(1, path="/slow")
    for watch in (JOB_WATCH, RUN_WATCH):
        https_proxy.on("GET", watch, Freeze())
    leader.kill_both()
    crew.leader(other_than=leader.name)
    backend.wait(2, path="/slow", timeout=SOON)
    assert backend.most_at_once("/slow") == 1
    run = next(run for run in crew.runs("slow") if parse_time(run["spec"]["scheduledTime"]) == tick(running))
    assert run["status"]["phase"] == "Unknown"
    blocked = [line for line in crew.status("slow")["recent"] if line["result"] == "Blocked"]
    assert blocked, "the ticks meanwhile have no reason"
    check(crew, backend, "slow", "/slow")


def test_an_edit_behind_a_dead_watch_is_seen_at_the_next_record(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    for job in ("suspended", "edited", "deleted"):
        crew.job(job, schedule="@every 1s", http={"url": backend.url(f"/{job}")})
    crew.start("a", server=https_proxy.server)
    for job in ("suspended", "edited", "deleted"):
        goes_on(backend, f"/{job}")
    frozen = [https_proxy.on("GET", watch, Freeze()) for watch in (JOB_WATCH, RUN_WATCH)]
    crew.edit("suspended", {"suspend": True})
    crew.edit("edited", {"schedule": "@every 3s"})
    crew.cluster.api().delete(crew.namespace.ours("scheduledjobs", "deleted"))
    done = utc_now()
    backend.wait(2, path="/edited", when=lambda seen: tick(seen) > done + timedelta(seconds=1))
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


# ---- Replies that are lost, and answers that make no sense


def test_a_write_whose_reply_is_lost_launches_once_all_the_same(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    jobs = {"create": ("POST", r"/jobruns$"), "record": ("PUT", "/scheduledjobs/"), "outcome": ("PATCH", "/jobruns/")}
    for job, (method, path) in jobs.items():
        crew.job(job, schedule="@every 2s", http={"url": backend.url(f"/{job}")})
        https_proxy.on(method, path, DropReply(), when=every_other(job))
    crew.start("a", server=https_proxy.server)
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


ANSWERS: dict[str, Effect] = {
    "too-many": TOO_MANY,
    "unavailable": UNAVAILABLE,
    "bad-gateway": BAD_GATEWAY,
    "truncated": Truncate(),
    "empty": EMPTY,
}
FAULT_SECONDS = 6.0


def test_garbage_in_answer_to_status_writes_costs_no_other_job_a_tick_and_makes_no_spin(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    for job in (*ANSWERS, "well"):
        crew.job(job, schedule="@every 1s", http={"url": backend.url(f"/{job}")})
    member = crew.start("a", server=https_proxy.server)
    for job in (*ANSWERS, "well"):
        goes_on(backend, f"/{job}")
    child = member.child()
    began = utc_now()
    rules = {
        job: [https_proxy.on(method, rf"/{job}(-[^/]*)?/status", effect) for method in ("PUT", "PATCH")]
        for job, effect in ANSWERS.items()
    }
    let_pass(FAULT_SECONDS)
    counts = {job: sum(len(rule.caught) for rule in both) for job, both in rules.items()}
    https_proxy.clear()
    ended = utc_now()
    for job in (*ANSWERS, "well"):
        goes_on(backend, f"/{job}")
        check(crew, backend, job, f"/{job}")
    assert all(1 <= count <= 3 * FAULT_SECONDS for count in counts.values()), counts
    assert member.child() == child, "the controller did not survive"
    meanwhile = {tick(seen) for seen in backend.received("/well") if began <= tick(seen) <= ended}
    assert len(meanwhile) >= FAULT_SECONDS - 1, "a job that was well lost ticks"


# ---- Credentials and rights


class Account:
    """A ServiceAccount, its rights, and a token file whose token can be taken from it."""

    def __init__(self, crew: Crew, file: Path) -> None:
        self.crew, self.file, self._api = crew, file, crew.cluster.api()
        self._secret = ""
        self.token = ""
        self._api.create(crew.namespace.path("serviceaccounts"), {"metadata": {"name": "controller"}})

    def may(self, namespace: str, rules: list[Raw]) -> None:
        """Exactly this, in that namespace, from now on."""
        meta, group = {"name": "controller", "namespace": namespace}, "rbac.authorization.k8s.io"
        account = {"kind": "ServiceAccount", "name": "controller", "namespace": self.crew.namespace.name}
        role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules}
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "subjects": [account],
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "controller"},
        }
        self.crew.cluster.kubectl(
            "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [role, binding]})
        )

    def rotate(self) -> None:
        """Another token in the file. It is bound to a Secret, so that it can be revoked."""
        self._secret = f"bound-{uuid.uuid4().hex[:8]}"
        made = self._api.create(self.crew.namespace.path("secrets"), {"metadata": {"name": self._secret}})
        bound = {"kind": "Secret", "apiVersion": "v1", "name": self._secret, "uid": made["metadata"]["uid"]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
        answer = self._api.create(self.crew.namespace.path("serviceaccounts", "controller/token"), body)
        self.token = answer["status"]["token"]
        made_file = self.file.with_suffix(".new")
        made_file.write_text(self.token)
        made_file.replace(self.file)

    def revoke(self, secret: str, token: str) -> None:
        """Returns when the API server, which remembers tokens for ten seconds, says 401 to it."""
        self._api.delete(self.crew.namespace.path("secrets", secret))
        api = self.crew.cluster.api(token=token)
        self.crew.wait(lambda: api.raw("GET", self.crew.namespace.ours("jobruns"))[0] == 401, what="a 401", timeout=20)

    @property
    def current(self) -> tuple[str, str]:
        return self._secret, self.token


RUNS: Raw = {
    "apiGroups": ["soloist.dev"],
    "resources": ["jobruns"],
    "verbs": ["get", "list", "watch", "create", "delete"],
}
REST: list[Raw] = [
    {"apiGroups": ["soloist.dev"], "resources": ["scheduledjobs"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["soloist.dev"], "resources": ["scheduledjobs/status"], "verbs": ["update"]},
    {"apiGroups": ["soloist.dev"], "resources": ["jobruns/status"], "verbs": ["patch"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "update"],
    },
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch"]},
]


@pytest.fixture
def account(crew: Crew, tmp_path: Path) -> Account:
    made = Account(crew, tmp_path / "token")
    made.may(crew.namespace.name, [RUNS, *REST])
    made.rotate()
    return made


def start_as(crew: Crew, account: Account, name: str, *, server: str | None = None, **env: str) -> Controller:
    config = crew.cluster.kubeconfig(
        crew.folder / "by-token-file", user="controller", token_file=account.file, server=server
    )
    return crew.start(name, KUBECONFIG=str(config), **env)


def test_a_rotated_token_is_read_again_and_one_that_came_late_ends_no_more_than_the_term(
    crew: Crew, backend: Backend, account: Account
) -> None:
    crew.job("sweep", schedule="@every 1s", timeoutSeconds=2, http={"url": backend.url("/s")})
    member = start_as(crew, account, "a")
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
    member = start_as(crew, account, "a", server=https_proxy.server, SOLOIST_NAMESPACE=both)
    for path in ("/well", "/barred"):
        goes_on(backend, path)
    account.may(other.name, [without, *REST])
    before = len(https_proxy.seen)
    event = crew.wait(lambda: told(other, "RunRefused"), what="an Event says why", timeout=SOON)
    assert "forbidden" in event["note"]
    assert 'cannot create resource "jobruns"' in event["note"]
    goes_on(backend, "/well", 8)
    of_theirs = [seen for seen in https_proxy.seen[before:] if f"/{other.name}/" in seen.path and seen.method != "GET"]
    assert len(of_theirs) <= 16, f"a hot loop: {of_theirs}"
    assert "forbidden" in member.log()
    last = max(tick(seen) for seen in backend.received("/barred"))
    account.may(other.name, [RUNS, *REST])
    goes_on(backend, "/barred", 2, timeout=15)
    assert all(at > last for at in [tick(seen) for seen in backend.received("/barred")][-2:])
    for one, job in ((crew, "well"), (theirs, "barred")):
        check(one, backend, job, f"/{job}")
    api.delete(f"/api/v1/namespaces/{other.name}")


def told(namespace: Namespace, reason: str) -> Raw | None:
    events = namespace.api.items(namespace.path("events", group="events.k8s.io"))
    return next((event for event in events if event["reason"] == reason), None)
