"""The main job: every tick once, with two controllers, with one, and after the leader is gone."""

from collections import Counter
from functools import partial

import pytest

from tests.api.crew import Crew, audit
from tests.api.desk import Desk, phase
from tests.api.tending import KEEP
from tests.cluster.backend import Backend
from tests.cluster.children import until

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


def test_the_leader_counts_what_it_launched_and_what_it_did_not(desk: Desk) -> None:
    """Compared once nothing goes on any more: the job has a tick a year by then."""
    never = "0 0 1 1 *"
    desk.backend.rule("^/counted$", status=500, delay=5, times=1)
    desk.http("counted", schedule="@every 1s", **KEEP)
    desk.recent("counted", "Blocked")
    desk.called("counted", 4)
    desk.crew.edit("counted", {"schedule": never})
    status = desk.quiet("counted", lambda s: s["observedSchedule"]["schedule"] == never, what="no tick is due")
    phases = Counter(phase(run) for run in desk.crew.runs("counted"))
    launched = len({seen.header("Soloist-Scheduled-Time") for seen in desk.calls("counted")})
    assert launched == phases["Succeeded"] + phases["Failed"] >= 4
    assert phases["Failed"] == 1
    skipped = status["counters"]["skipped"]  # a few of them may have a run that says so, and are no missed ticks
    ours = {"namespace": desk.namespace.name}
    for name, labels, least, most in (
        ("soloist_due_total", ours, launched + skipped, launched + skipped),
        ("soloist_launched_total", ours, launched, launched),
        ("soloist_launch_skew_seconds_count", {"action": "http"}, launched, launched),
        ("soloist_runs_total", ours | {"result": "Succeeded"}, phases["Succeeded"], phases["Succeeded"]),
        ("soloist_runs_total", ours | {"result": "Failed"}, 1, 1),
        ("soloist_ticks_missed_total", ours, skipped - phases["Skipped"], skipped),
    ):
        shown = partial(within, desk, name, labels, least, most)
        until(shown, what=f"{name} {labels} is {least} to {most}", timeout=90)


def within(desk: Desk, name: str, labels: dict[str, str], least: int, most: int) -> bool:
    return least <= desk.metric(name, **labels) <= most
