"""Writes of a dead leader that arrive late, at a real API server: none launches a run, and none stays unaccounted for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from soloist.domain.instants import parse_time
from tests.api.crew import Crew, audit
from tests.api.going_on import SOON, at_rest, check, fence, goes_on, tick
from tests.cluster.backend import Backend
from tests.cluster.faults import (
    Hold,
    Seen,
)
from tests.cluster.https_proxy import HttpsProxy

pytestmark = pytest.mark.cluster


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
            maxMissedRuns=100,
            successfulRunsHistoryLimit=limit,
            http={"url": backend.url(f"/{job}")},
        )
    first = crew.start("a", server=https_proxy.server)
    late = {job: rule.wait(timeout=SOON).json() for job, rule in held.items()}
    first.kill_both()
    crew.start("b")
    for job, body in late.items():
        name, at = body["metadata"]["name"], parse_time(body["spec"]["scheduledTime"])
        old = body["spec"]["lease"]["epoch"]
        backend.wait(1, path=f"/{job}", timeout=SOON, when=lambda seen, at=at: tick(seen) == at)
        crew.wait(lambda name=name: crew.phase(name) == "absent", what=f"the run of {job} is trimmed", timeout=SOON)
        held[job].release()
        crew.wait(lambda name=name: crew.phase(name) == "Superseded", what="the late one is superseded", timeout=SOON)
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
    old = record["status"]["active"][-1]["epoch"]
    first.kill_both()
    crew.start("b")
    crew.leader(other_than="a", timeout=SOON)
    goes_on(backend, "/s", after=old)
    crew.edit("sweep", {"suspend": True})
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
