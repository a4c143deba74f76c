"""What a worker says of its queues: metrics under their agreed names, and log lines for what a person may look at."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Verdict
from soloist.domain.errors import TransientError
from soloist.domain.queue_name import QueueName
from soloist.domain.spec_fields import Invalid
from soloist.shells.queue_telemetry import QueueMetrics, QueueReporter

NAME = QueueName("shop", "emails")
CLAIM = Claim(row=("7",), fence=99, attempt=2, tries=2)
LABELS = 'namespace="shop",queue="emails"'


class Said:
    """A reporter, the page of its metrics, and what it logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.metrics, self.caplog = QueueMetrics(CollectorRegistry()), caplog
        self.reporter = QueueReporter(self.metrics, lambda name: 3)
        caplog.set_level(logging.INFO, "soloist")

    def page(self) -> str:
        return generate_latest(self.metrics.registry).decode()

    def value(self, name: str, labels: str = "") -> float:
        start = f"soloist_queue_{name}{{{LABELS}{labels}}} "
        lines = [line for line in self.page().splitlines() if line.startswith(start)]
        return float(lines[0].removeprefix(start)) if lines else 0.0

    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.caplog.records]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    return Said(caplog)


def test_a_row_that_goes_well_is_counted_and_not_logged(said: Said) -> None:
    said.reporter.claimed(NAME, 10, 2)
    said.reporter.delivered(NAME, Done(claim=CLAIM), 0.3)
    said.reporter.settled(NAME, Done(claim=CLAIM), Verdict.ACCEPTED, unanswered=False)
    assert (said.value("claimed_total"), said.value("reclaimed_total")) == (10, 2)
    assert said.value("attempts_total", ',result="done"') == 1
    assert said.value("delivery_seconds_sum") == 0.3
    assert said.messages() == []


def test_a_row_that_is_given_up_is_counted_by_its_reason_and_logged(said: Said) -> None:
    again = Failed(claim=CLAIM, error="HTTP 500", retry_in=timedelta(seconds=5))
    dead = Failed(claim=CLAIM, error="HTTP 410", retry_in=None)
    for outcome in (again, dead, Parked(claim=CLAIM, error="no reply")):
        said.reporter.delivered(NAME, outcome, 0.1)
        said.reporter.settled(NAME, outcome, Verdict.ACCEPTED, unanswered=False)
    said.reporter.settled(NAME, Done(claim=CLAIM), Verdict.REFUSED, unanswered=False)
    assert said.value("attempts_total", ',result="failed"') == 2
    assert said.value("attempts_total", ',result="parked"') == 1
    reasons = ("Failed", "Interrupted", "Refused")
    assert [said.value("dead_total", f',reason="{reason}"') for reason in reasons] == [1, 1, 1]
    assert said.messages() == ["row given up"] * 3
    record = vars(said.caplog.records[0])
    assert (record["row"], record["attempt"], record["fence"], record["error"]) == ("7", 2, 99, "HTTP 410")


@pytest.mark.parametrize(
    ("verdict", "unanswered", "metric", "message"),
    [
        (Verdict.LOST, False, "claims_lost_total", ["claim lost"]),
        (Verdict.LOST, True, "outcomes_unanswered_total", []),
        (Verdict.CHANGED, False, "changed_total", ["row changed underneath"]),
        (Verdict.STILL_DUE, False, "still_due_total", ["row still due after a success"]),
    ],
)
def test_what_became_of_an_outcome_is_counted(
    said: Said, verdict: Verdict, unanswered: bool, metric: str, message: list[str]
) -> None:
    said.reporter.settled(NAME, Done(claim=CLAIM), verdict, unanswered=unanswered)
    assert said.value(metric) == 1
    assert said.messages() == message


def test_a_row_put_back_is_no_attempt(said: Said) -> None:
    said.reporter.delivered(NAME, PutBack(claim=CLAIM), 0.1)
    said.reporter.settled(NAME, PutBack(claim=CLAIM), Verdict.ACCEPTED, unanswered=False)
    assert said.value("put_back_total") == 1
    assert "attempts_total{" not in said.page()


def test_a_queue_is_open_while_it_is_worked_and_what_is_in_flight_is_asked_when_it_is_looked_at(said: Said) -> None:
    said.reporter.started(NAME)
    assert (said.value("open"), said.value("in_flight")) == (1, 3)
    said.reporter.stopped(NAME)
    assert said.value("open") == 0


def test_an_error_is_counted_by_where_and_a_fault_of_ours_shows_where_it_is(said: Said) -> None:
    said.reporter.failed(NAME, "claim", TransientError("down"))
    said.reporter.failed(NAME, "deliver", KeyError("x"))
    assert said.value("errors_total", ',where="claim"') == said.value("errors_total", ',where="deliver"') == 1
    assert [record.exc_info is not None for record in said.caplog.records] == [False, True]


def test_a_spec_that_cannot_be_used_is_told_of_once_and_again_when_it_is_wrong_in_another_way(said: Said) -> None:
    short = Invalid(field="spec.leaseSeconds", reason="FieldInvalid", message="spec.leaseSeconds is too short.")
    other = Invalid(field="spec.poll", reason="FieldInvalid", message="spec.poll is odd.")
    for invalid in ({NAME: short}, {NAME: short}, {NAME: other}, {}, {NAME: short}):
        said.reporter.unusable(invalid)
    assert [vars(record)["field"] for record in said.caplog.records] == [short.field, other.field, short.field]
