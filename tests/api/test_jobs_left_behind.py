"""Jobs that a dead leader has recorded and not started, or whose start is still on its way: at a real API server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.api.crew import Crew, Raw
from tests.api.desk import moment
from tests.api.going_on import SOON
from tests.api.tending import Crews, ended, now
from tests.api.test_job_action import action, end, jobs_of, settled, started
from tests.cluster.children import until
from tests.cluster.faults import Hold
from tests.cluster.https_proxy import HttpsProxy

pytestmark = pytest.mark.cluster


def test_a_dead_leaders_late_start_of_a_job_whose_run_was_skipped_starts_nothing(
    crew: Crew, https_proxy: HttpsProxy
) -> None:
    held = https_proxy.on("PATCH", r"/apis/batch/v1/namespaces/[^/]+/jobs/", Hold(), times=1)
    crew.job("work", schedule="@every 4s", job=action())
    first = crew.start("a", server=https_proxy.server)
    run = held.wait(timeout=SOON).path.rpartition("/")[2]
    first.kill_both()
    crew.edit("work", {"suspend": True})
    crew.start("b")
    crew.wait(lambda: crew.phase(run) == "Skipped", what="the run is skipped", timeout=SOON)
    held.release()
    assert held.wait_for_answer(timeout=SOON) in (404, 422)
    assert [job for job in jobs_of(crew, "work") if not job["spec"]["suspend"]] == []
    assert crew.cluster.api().items(crew.namespace.path("pods")) == []


def by_hand(crew: Crew) -> None:
    """A run that a person asks for is claimed by nobody ahead of its time."""
    crew.start("a", SOLOIST_CRASH_AT="recorded:both")
    crew.job("work", schedule="0 0 29 2 *", job=action())
    crew.leader()
    crew.trigger("work", "by-hand")


def late(crew: Crew) -> None:
    """Nobody leads at the time of a tick."""
    made = moment(crew.job("work", schedule="@every 20s", job=action())["metadata"]["creationTimestamp"])
    until(lambda: now().timestamp() // 20 > made.timestamp() // 20, what="a tick has passed", timeout=60)
    crew.start("a", SOLOIST_CRASH_AT="recorded:both")


@pytest.mark.parametrize("comes", [by_hand, late])
def test_a_leader_that_dies_once_it_has_recorded_what_nobody_claimed_ahead_leaves_a_job_that_tells(
    crews: Crews, comes: Callable[[Crew], None]
) -> None:
    crew = crews("left-behind")
    comes(crew)
    ended(crew, "a")
    (run,) = crew.runs("work")
    (left,) = jobs_of(crew, "work")
    assert left["spec"]["suspend"] is True
    crew.start("b")
    job: Raw = started(crew, "work")
    assert (job["metadata"]["name"], job["metadata"]["uid"]) == (run["metadata"]["name"], left["metadata"]["uid"])
    end(crew, job)
    assert settled(crew, run["metadata"]["name"])["phase"] == "Succeeded"
