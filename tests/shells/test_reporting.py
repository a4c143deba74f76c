"""What a controller tells people of runs and ticks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from soloist.domain.adoption import record_anew
from soloist.domain.names import run_name
from soloist.domain.recording import record, record_person
from soloist.domain.runs import Phase
from soloist.domain.steps import Launch, WriteJob, WriteRun
from soloist.domain.ticks import Reason
from soloist.ports import Raw
from soloist.shells.reporting import TOO_OLD_SECONDS, Reporter
from soloist.shells.telemetry import Metrics
from tests.domain.test_concurrency import run
from tests.domain.test_written_by_hand import EPOCH, NOON, RUN, a_view


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def event(self, regarding: Raw, *, reason: str, message: str, warning: bool = False) -> None:
        self.told.append((reason, message))


def settled(*runs: str, **how: Any) -> list[tuple[str, str]]:
    recorder = Recorder()
    reporter = Reporter(Metrics(CollectorRegistry()), recorder, boottime=lambda: 0.0)
    for uid in runs:
        reporter.settled(a_view(), WriteRun(run=run(uid), attempt=len(uid), **how))
    return recorder.told


def test_runs_that_end_alike_are_one_event_that_is_counted() -> None:
    told = settled("a", "another", phase=Phase.FAILED, reason="UnexpectedStatus", message="The backend answered 500.")
    assert told == [("RunFailed", "A run ended Failed (UnexpectedStatus): The backend answered 500.")] * 2


def test_there_is_none_for_a_success_nor_for_an_attempt_that_is_not_the_last() -> None:
    assert settled("a", phase=Phase.SUCCEEDED, reason="") == []
    assert settled("a", phase=Phase.RETRYING, reason="UnexpectedStatus") == []


CLAIMED = {
    "metadata": {**RUN["metadata"], "name": run_name("sweep", "u", NOON)},
    "spec": {**RUN["spec"], "lease": {"namespace": "shop", "name": "soloist", "epoch": EPOCH}},
}
BY_HAND = {
    "metadata": RUN["metadata"],
    "spec": {"scheduledJobName": "sweep", "trigger": "Manual"},
    "status": {"takenBy": EPOCH},
}


def counted(metrics: Metrics) -> tuple[float | None, ...]:
    names = ("soloist_due_total", "soloist_launched_total")
    return tuple(metrics.registry.get_sample_value(name, {"namespace": "shop"}) for name in names)


def test_a_tick_is_due_once_and_launched_once_however_often_its_run_is_recorded_and_tried() -> None:
    metrics = Metrics(CollectorRegistry())
    reporter, view = Reporter(metrics, None, boottime=lambda: 0.0), a_view(run=CLAIMED)
    step, (run,) = record(view), view.runs
    assert isinstance(step, WriteJob)
    reporter.decided(view, step)
    assert counted(metrics) == (1, None), "recorded, and not launched yet"
    for attempt in (1, 2):
        reporter.launched(view, Launch(run=run, attempt=attempt))
    anew = record_anew(view, step.add[0], run)
    assert isinstance(anew, WriteJob)
    reporter.decided(view, anew)
    assert counted(metrics) == (1, 1)


def test_a_tick_that_is_let_go_was_due_and_a_run_of_a_persons_was_not() -> None:
    metrics = Metrics(CollectorRegistry())
    reporter, view = Reporter(metrics, None, boottime=lambda: 0.0), a_view(run=BY_HAND)
    let_go = ((NOON - timedelta(hours=1), Reason.MISSED), (NOON, Reason.SUSPENDED))
    reporter.decided(view, WriteJob(watermark=NOON, decided=let_go))
    step, (run,) = record_person(view), view.runs
    assert isinstance(step, WriteJob)
    assert step.add
    reporter.decided(view, step)
    reporter.launched(view, Launch(run=run, attempt=1))
    assert counted(metrics) == (2, None)


def test_crds_that_cut_a_status_short_are_told_until_nothing_has_met_them_for_a_while() -> None:
    clock = [0.0]
    reporter = Reporter(Metrics(CollectorRegistry()), None, boottime=lambda: clock[0])
    assert reporter.crds_will_do()[0]
    reporter.stands_in_the_way(a_view().job, "NameTaken", "an object is in the way")
    assert reporter.crds_will_do()[0]
    for _ in range(3):
        clock[0] += 31.0
        reporter.stands_in_the_way(a_view().job, "CrdsTooOld", "apply the CRDs of this version")
    clock[0] += TOO_OLD_SECONDS - 1
    assert reporter.crds_will_do() == (False, "apply the CRDs of this version")
    clock[0] += 1
    assert reporter.crds_will_do() == (True, "no status was seen to be cut short")
