"""Answers of the API server that make no sense, to everything that a leader asks of it: real controllers, a real API server.

Each kind of garbage has a job of its own, and one job is well: it loses no tick, the controller survives, nothing spins, and
whoever got garbage goes on once it is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pytest

from soloist.domain.schedule import parse_schedule
from tests.api.crew import Crew, Raw
from tests.api.desk import LONG
from tests.api.going_on import SOON, check, goes_on, let_pass, tick
from tests.api.tending import EVERY_TICK, KEEP, now
from tests.api.test_job_action import action
from tests.api.test_job_crashes import Kubelet
from tests.cluster.backend import Backend
from tests.cluster.faults import BAD_GATEWAY, EMPTY, GONE_IN_WATCH, TOO_MANY, UNAVAILABLE, Effect, Rule, Seen, Truncate
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.proxy import TcpProxy

pytestmark = pytest.mark.cluster

JOB_WATCH, RUN_WATCH = r"/scheduledjobs\?.*watch=", r"/jobruns\?.*watch="
ANSWERS: dict[str, Effect] = {
    "too-many": TOO_MANY,
    "unavailable": UNAVAILABLE,
    "bad-gateway": BAD_GATEWAY,
    "truncated": Truncate(),
    "empty": EMPTY,
}
FAULT_SECONDS = 6.0
LISTS = (r"/scheduledjobs(\?(?!.*watch=)|$)", r"/jobruns(\?(?!.*watch=)|$)")


def test_garbage_in_answer_to_status_writes_costs_no_other_job_a_tick_and_makes_no_spin(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    for job in ANSWERS:
        crew.job(job, schedule="@every 1s", http={"url": backend.url(f"/{job}")})
    crew.job("well", schedule="@every 1s", http={"url": backend.url("/well")}, **EVERY_TICK)
    member = crew.start("a", server=https_proxy.server, **LONG)
    for job in (*ANSWERS, "well"):
        goes_on(backend, f"/{job}")
    child = member.child()
    began, clock = now(), time.monotonic()
    rules = {
        job: [https_proxy.on(method, rf"/{job}(-[^/]*)?/status", effect) for method in ("PUT", "PATCH")]
        for job, effect in ANSWERS.items()
    }
    let_pass(FAULT_SECONDS)
    crew.wait(lambda: all(caught(both) for both in rules.values()), what="each job's writes are answered so")
    counts = {job: caught(both) for job, both in rules.items()}
    seconds = time.monotonic() - clock
    https_proxy.clear()
    ended = now()
    for job in (*ANSWERS, "well"):
        goes_on(backend, f"/{job}")
        check(crew, backend, job, f"/{job}")
    assert all(count <= 3 * seconds for count in counts.values()), f"a spin: {counts} in {seconds:.1f} s"
    assert member.child() == child, "the controller did not survive"
    due = set(parse_schedule("@every 1s").newest(after=began, until=ended, limit=1000))
    crew.wait(
        lambda: due <= {tick(seen) for seen in backend.received("/well")}, what="a job that was well lost no tick"
    )


def test_garbage_in_answer_to_lists_delays_a_term_and_ends_none(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    """At the beginning of a term, and where the watches lost their place in mid-term."""
    first = [https_proxy.on("GET", path, effect, times=1) for path in LISTS for effect in ANSWERS.values()]
    crew.job("well", schedule="@every 1s", http={"url": backend.url("/well")}, **EVERY_TICK, **KEEP)
    with TcpProxy(https_proxy.port) as wire:
        member = crew.start("a", server=wire.server, **LONG)
        crew.wait(lambda: all(rule.caught for rule in first), what="the first lists are answered so", timeout=SOON)
        goes_on(backend, "/well")
        child, clock = member.child(), time.monotonic()
        lists = [[https_proxy.on("GET", path, each, times=1) for each in (*ANSWERS.values(),) * 20] for path in LISTS]
        for path in (JOB_WATCH, RUN_WATCH):
            https_proxy.on("GET", path, GONE_IN_WATCH, times=1)
        wire.cut()
        let_pass(FAULT_SECONDS)
        crew.wait(
            lambda: all(caught(rules) >= len(ANSWERS) for rules in lists), what="each kind of list is answered so"
        )
        counts, seconds = [caught(rules) for rules in lists], time.monotonic() - clock
        https_proxy.clear()
        crew.trigger("well", "by-hand")
        crew.job("later", schedule="@every 1s", http={"url": backend.url("/later")})
        crew.wait(lambda: crew.phase("by-hand") == "Succeeded", what="a run that a watch or list must tell of")
        for job in ("well", "later"):
            goes_on(backend, f"/{job}")
            check(crew, backend, job, f"/{job}")
        assert all(count <= 3 * seconds for count in counts), f"a spin: {counts} in {seconds:.1f} s"
        assert member.child() == child, "the controller did not survive"


def caught(rules: list[Rule]) -> int:
    return sum(len(rule.caught) for rule in rules)


SECRET = "sesame-5b0d9c3e71"
NEEDED: dict[str, tuple[str, str]] = {
    "runs": ("POST", r"/jobruns$"),
    "Jobs": ("POST", r"/jobs$"),
    "Secrets": ("GET", r"/secrets/"),
}
"""What a launch asks of the API server: the creates of its runs and Jobs, the reads of its Secrets."""


@pytest.mark.parametrize("what", NEEDED)
def test_garbage_in_answer_to_what_a_launch_needs_costs_no_other_job_a_tick_and_makes_no_spin(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy, what: str
) -> None:
    for job in ANSWERS:
        secret = {"metadata": {"name": job}, "stringData": {"token": SECRET}}
        crew.namespace.api.create(crew.namespace.path("secrets"), secret)
        crew.job(job, schedule="@every 5s", **EVERY_TICK, **KEEP, **needy(what, job, backend))
    crew.job("well", schedule="@every 2s", http={"url": backend.url("/well")}, **EVERY_TICK)
    member = crew.start("a", server=https_proxy.server, **LONG)
    with Kubelet([crew]) as kubelet:
        succeed(crew, ("well", *ANSWERS))
        child, began, clock = member.child(), now(), time.monotonic()
        rules = {job: https_proxy.on(*NEEDED[what], effect, when=of(job)) for job, effect in ANSWERS.items()}
        let_pass(FAULT_SECONDS)
        crew.wait(lambda: all(rule.caught for rule in rules.values()), what="each job's requests are answered so")
        counts, seconds = {job: len(rule.caught) for job, rule in rules.items()}, time.monotonic() - clock
        https_proxy.clear()
        ended = now()
        succeed(crew, ("well", *ANSWERS))
        for job in ANSWERS:
            if what == "Jobs":
                one_job_and_one_pod_a_run(crew, job, kubelet)
            else:
                check(crew, backend, job, f"/{job}")
    assert all(count <= 3 * seconds for count in counts.values()), f"a spin: {counts} in {seconds:.1f} s"
    assert member.child() == child, "the controller did not survive"
    assert SECRET not in member.log()
    due = set(parse_schedule("@every 2s").newest(after=began, until=ended, limit=1000))
    crew.wait(
        lambda: due <= {tick(seen) for seen in backend.received("/well")}, what="a job that was well lost no tick"
    )


def needy(what: str, job: str, backend: Backend) -> Raw:
    if what == "Jobs":
        return {"job": action()}
    token = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": job, "key": "token"}}}
    return {"http": {"url": backend.url(f"/{job}"), "headers": [token] if what == "Secrets" else []}}


def of(job: str) -> Callable[[Seen], bool]:
    """Whether a request concerns the job: a Secret's path ends with its name, whatever is made for it bears its label."""

    def concerns(seen: Seen) -> bool:
        if seen.method == "GET":
            return seen.path.endswith(f"/{job}")
        return bool(seen.json()["metadata"]["labels"]["soloist.dev/scheduled-job"] == job)

    return concerns


def succeed(crew: Crew, jobs: Iterable[str]) -> None:
    """One more run of each succeeds."""

    def count(job: str) -> int:
        return int(crew.status(job).get("counters", {}).get("succeeded", 0))

    before = {job: count(job) for job in jobs}
    for job, seen in before.items():
        crew.wait(lambda job=job, seen=seen: count(job) > seen, what=f"another run of {job} succeeds", timeout=SOON)


def one_job_and_one_pod_a_run(crew: Crew, job: str, kubelet: Kubelet) -> None:
    runs = [run["metadata"]["name"] for run in crew.runs(job)]
    assert runs
    made = {run: (len(kubelet.uids[run]), len(kubelet.pods[run])) for run in runs}
    assert all(jobs <= 1 and pods <= 1 for jobs, pods in made.values()), made
