"""The main job: every tick once, with two controllers, with one, and after the leader is gone."""

import pytest

from tests.api.crew import Crew, audit
from tests.cluster.backend import Backend

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("replicas", [1, 2])
def test_every_tick_is_launched_once(crew: Crew, backend: Backend, replicas: int) -> None:
    """apscheduler #160, #655, #864, celery #4808, #2856, redbeat #271, telemetry-analysis-service #417."""
    crew.job("sweep", schedule="@every 1s", http={"url": backend.url("/sweep")})
    for name in "ab"[:replicas]:
        crew.start(name)
    backend.wait(6, timeout=90)
    crew.wait(lambda: crew.status("sweep").get("counters", {}).get("succeeded", 0) >= 5, what="five are accounted for")
    audit(crew, backend, "sweep", path="/sweep")


def test_a_killed_leader_is_replaced_and_no_tick_runs_twice(crew: Crew, backend: Backend) -> None:
    crew.job(
        "sweep", schedule="@every 1s", missedRunPolicy="RunAll", timeoutSeconds=2, http={"url": backend.url("/sweep")}
    )
    for name in "abc":
        crew.start(name)
    backend.wait(3, timeout=90)
    first = crew.leader()
    first.kill_both()
    crew.leader(other_than=first.name)
    before = len(backend.received())
    backend.wait(before + 4, timeout=90)
    audit(crew, backend, "sweep", path="/sweep")
