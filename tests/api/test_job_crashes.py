"""Killed at each point of the life of a run whose action is a Job: the Job itself tells what became of it, so nothing is unknown.

The same crashes as of calls (``test_crashes``): they strike the first leader, once, and whoever comes after it is told of none.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Self

import pytest

from tests.api.crew import PATIENCE, Crew, Raw
from tests.api.reasons import due_ticks, moment, uncounted, unexplained
from tests.api.tending import EVERY_TICK, KEEP, Crews, ended, now, phase_of, start_each, through, tick_of
from tests.api.test_crashes import STAGES, decided, runs_by_tick
from tests.api.test_job_action import action, early_in, jobs_of

pytestmark = [pytest.mark.cluster, pytest.mark.long]

JOB, PERIOD = "work", 3


class Kubelet:
    """There is no node: says of each Pod that it has succeeded, and keeps what Jobs and Pods each run was ever seen to have."""

    def __init__(self, crews: Iterable[Crew]) -> None:
        self._crews = {crew.namespace.name: crew for crew in crews}
        self._api = next(iter(self._crews.values())).cluster.api()
        self.uids: dict[str, set[str]] = defaultdict(set)
        self.started: set[str] = set()
        self.pods: dict[str, dict[str, datetime]] = defaultdict(dict)
        self._over, self._pool = threading.Event(), ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._going = self._pool.submit(self._go_round)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._pool.shutdown()
        self._going.result()

    def _go_round(self) -> None:
        while not self._over.wait(0.2):
            for job in self._ours("/apis/batch/v1/jobs"):
                name = job["metadata"]["name"]
                self.uids[name].add(job["metadata"]["uid"])
                if not job["spec"]["suspend"]:
                    self.started.add(name)
            for pod in self._ours("/api/v1/pods"):
                meta = pod["metadata"]
                self.pods[meta["labels"]["soloist.dev/run"]][meta["uid"]] = moment(meta["creationTimestamp"])
                if pod["status"]["phase"] == "Pending":
                    path = self._crews[meta["namespace"]].namespace.path("pods", meta["name"])
                    self._api.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})

    def _ours(self, path: str) -> list[Raw]:
        found = self._api.items(f"{path}?labelSelector=soloist.dev/run")
        return [each for each in found if each["metadata"]["namespace"] in self._crews]


@pytest.mark.parametrize("company", [False, True], ids=["alone", "in company"])
@pytest.mark.parametrize("whom", ["child", "both"])
def test_a_crash_at_any_stage_of_a_job_leaves_one_job_for_each_tick_and_nothing_unknown(
    crews: Crews, whom: str, company: bool
) -> None:
    struck = {stage: crews(f"job-{stage}") for stage in STAGES}
    for stage, crew in struck.items():
        crew.start("a", SOLOIST_CRASH_AT=f"{stage}:{whom}")
    for crew in struck.values():
        crew.leader()
    if company:
        start_each(struck.values(), "b")
    with Kubelet(struck.values()) as kubelet:
        early_in(PERIOD)
        for crew in struck.values():
            crew.job(JOB, schedule=f"@every {PERIOD}s", job=action(), **EVERY_TICK, **KEEP)
        for crew in struck.values():
            ended(crew, "a")
            if not company:
                crew.start("a")
        crashed = now()
        for crew in struck.values():
            through(crew, JOB, crashed)
            each_tick_is_explained(crew, kubelet)
    for stage, crew in struck.items():
        each_tick_had_one_job_and_no_sooner(crew, kubelet)
        the_struck_term_did_what_its_stage_says(crew, stage)


def each_tick_is_explained(crew: Crew, kubelet: Kubelet) -> None:
    """By a Job that was started, or by a reason that is written down."""
    ticks = due_ticks(crew.status(JOB), now())

    def probe() -> bool:
        runs = crew.runs(JOB)
        started = {tick_of(run) for run in runs if run["metadata"]["name"] in kubelet.started}
        return not unexplained(ticks, crew.status(JOB), runs, started)

    crew.wait(probe, what=f"each tick of {crew.namespace.name} is explained", timeout=PATIENCE)
    assert uncounted(crew.status(JOB)) >= 0, "something was counted twice"


def each_tick_had_one_job_and_no_sooner(crew: Crew, kubelet: Kubelet) -> None:
    """Every tick ran, as the policy asks: one Job, never made anew, one Pod, neither of them begun before its time."""
    ticks, runs = decided(crew, JOB), runs_by_tick(crew, JOB)
    jobs = {job["metadata"]["name"]: job for job in jobs_of(crew, JOB)}
    assert ticks
    for tick in ticks:
        run = runs[tick]
        name, phase = run["metadata"]["name"], phase_of(run)
        if phase in ("Pending", "Running"):
            continue
        assert phase == "Succeeded", run
        job = jobs[name]
        assert kubelet.uids[name] == {job["metadata"]["uid"]}, f"{name}: its Job was made anew"
        assert [made >= tick for made in kubelet.pods[name].values()] == [True], (name, tick, kubelet.pods[name])
        assert moment(job["status"]["startTime"]) >= tick, job
        resumed = [each for each in job["status"]["conditions"] if (each["type"], each["status"]) == RESUMED]
        assert all(moment(each["lastTransitionTime"]) >= tick for each in resumed), job


RESUMED = ("Suspended", "False")


def the_struck_term_did_what_its_stage_says(crew: Crew, stage: str) -> None:
    """Before a launch it started no Job; of what it was answered it had started the Job; only at the last had it written an outcome."""
    runs = crew.runs(JOB)
    epoch = int(min(runs, key=tick_of)["spec"]["lease"]["epoch"])
    its = [job["metadata"]["name"] for job in jobs_of(crew, JOB) if fence(job) == epoch]
    if stage in ("claimed", "recorded"):
        assert not its, its
    if stage in ("answered", "settled"):
        assert its
    wrote = [run for run in runs if run.get("status", {}).get("epoch") == epoch]
    assert bool(wrote) is (stage == "settled"), (stage, wrote)


def fence(job: Raw) -> int:
    """Of the term that started it; 0 where none has."""
    annotations = job["spec"]["template"]["metadata"].get("annotations") or {}
    return int(annotations.get("soloist.dev/fence", 0))
