"""What a controller tells people of runs and ticks."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from soloist.domain.runs import Phase
from soloist.domain.steps import WriteRun
from soloist.ports import Raw
from soloist.shells.reporting import Reporter
from soloist.shells.telemetry import Metrics
from tests.domain.test_concurrency import run
from tests.domain.test_written_by_hand import a_view


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def event(self, regarding: Raw, *, reason: str, message: str, warning: bool = False) -> None:
        self.told.append((reason, message))


def settled(*runs: str, **how: Any) -> list[tuple[str, str]]:
    recorder = Recorder()
    reporter = Reporter(Metrics(CollectorRegistry()), recorder)
    for uid in runs:
        reporter.settled(a_view(), WriteRun(run=run(uid), attempt=len(uid), **how))
    return recorder.told


def test_runs_that_end_alike_are_one_event_that_is_counted() -> None:
    told = settled("a", "another", phase=Phase.FAILED, reason="UnexpectedStatus", message="The backend answered 500.")
    assert told == [("RunFailed", "A run ended Failed (UnexpectedStatus): The backend answered 500.")] * 2


def test_there_is_none_for_a_success_nor_for_an_attempt_that_is_not_the_last() -> None:
    assert settled("a", phase=Phase.SUCCEEDED, reason="") == []
    assert settled("a", phase=Phase.RETRYING, reason="UnexpectedStatus") == []
