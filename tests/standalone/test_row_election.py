"""Real processes on one row: one leads at a time, and a hand-over takes as long as it must and no longer."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from soloist.adapters.clock import SystemClock
from soloist.adapters.postgres.migrate import migrate
from soloist.adapters.postgres.row_lease import RowLease
from soloist.domain.lease import parse
from tests.cluster.children import Child, until
from tests.postgres.server import Database, Postgres

LEASE, STEADY, LONG = 4.0, 60.0, 900.0
SOON = 120.0
Start = Callable[..., "Candidate"]


class Candidate:
    """A process and what it has said."""

    def __init__(self, child: Child) -> None:
        self.child = child

    def said(self, event: str) -> list[dict[str, Any]]:
        lines = [
            line for line in self.child.log.read_text().splitlines() if line.startswith("{") and line.endswith("}")
        ]
        return [said for said in map(json.loads, lines) if said["event"] == event]

    def leads(self) -> bool:
        return bool(self.said("elected"))

    def send(self, signum: signal.Signals) -> None:
        assert self.child.pid is not None
        os.kill(self.child.pid, signum)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Child] = []

    def begin(dsn: str, lease: float = LEASE) -> Candidate:
        argv = [sys.executable, "-m", "tests.standalone.candidate", json.dumps({"dsn": dsn, "lease": lease})]
        started.append(Child(f"candidate-{len(started)}", argv, log=tmp_path / f"candidate-{len(started)}.log"))
        started[-1].start()
        return Candidate(started[-1])

    yield begin
    for child in started:
        child.stop()


def wait(true: Callable[[], Any], what: str) -> None:
    until(true, what=what, timeout=SOON)


def leader_of(candidates: list[Candidate]) -> tuple[Candidate, list[Candidate]]:
    wait(lambda: any(each.leads() for each in candidates), "somebody leads")
    first = next(each for each in candidates if each.leads())
    return first, [each for each in candidates if each is not first]


def assert_one_at_a_time(candidates: list[Candidate]) -> None:
    """No two believed in themselves at the same moment, and no epoch was given twice."""
    trusts = [(said["sent"], said["until"], said["epoch"]) for each in candidates for said in each.said("trusts")]
    terms: dict[int, tuple[float, float]] = {}
    for sent, ends, epoch in trusts:
        began, ended = terms.get(epoch, (sent, ends))
        terms[epoch] = (min(began, sent), max(ended, ends))
    for (former, (_, ended)), (later, (began, _)) in pairwise(sorted(terms.items())):
        released = [said["boot"] for each in candidates for said in each.said("released")]
        assert ended <= began or any(at <= ended for at in released), f"term {later} began in term {former}"
    epochs = [said["epoch"] for each in candidates for said in each.said("elected")]
    assert len(epochs) == len(set(epochs))


def test_a_release_hands_over_at_once(start: Start, queue_database: Database) -> None:
    candidates = [start(queue_database.dsn(), lease=LONG) for _ in range(3)]
    first, others = leader_of(candidates)
    wait(lambda: all(each.said("stands") for each in others), "the others stand by")
    first.send(signal.SIGTERM)
    # Sooner than the next reading is, not to speak of the end of the lease.
    wait(lambda: any(each.leads() for each in others), "another leads")
    wait(lambda: first.said("released"), "the first says that it has given it back")
    assert_one_at_a_time(candidates)


def test_after_a_kill_the_lease_runs_out_and_then_another_leads(start: Start, queue_database: Database) -> None:
    candidates = [start(queue_database.dsn()) for _ in range(3)]
    first, others = leader_of(candidates)
    first.send(signal.SIGKILL)
    wait(lambda: any(each.leads() for each in others), "another leads")
    assert_one_at_a_time(candidates)


def test_one_that_was_frozen_past_its_trust_dies_on_waking(start: Start, queue_database: Database) -> None:
    candidates = [start(queue_database.dsn()) for _ in range(2)]
    first, [second] = leader_of(candidates)
    first.send(signal.SIGSTOP)
    wait(second.leads, "the other leads")
    first.send(signal.SIGCONT)
    wait(lambda: not first.child.alive(), "the frozen one is dead")
    assert_one_at_a_time(candidates)
    lease = RowLease(queue_database.dsn(), namespace="standalone", name="soloist")
    raw = lease.read(timeout=10).lease
    lease.close()
    assert raw is not None
    assert parse(raw).epoch == second.said("elected")[0]["epoch"]


def test_whoever_leads_has_taken_the_epoch_that_transactions_are_checked_by(
    start: Start, queue_database: Database
) -> None:
    candidate = start(queue_database.dsn())
    wait(candidate.leads, "it leads")
    [elected] = candidate.said("elected")
    with queue_database.connect() as connection:
        row = connection.execute("SELECT epoch FROM soloist.leader_epoch WHERE shard = 'standalone/soloist'").fetchone()
    assert row == (elected["epoch"],)


def test_a_database_that_restarts_costs_nobody_the_lease(start: Start, fresh_postgres: Callable[..., Postgres]) -> None:
    server = fresh_postgres()
    place = server.create_database("election")
    migrate(place.dsn())
    candidates = [start(place.dsn(), lease=STEADY) for _ in range(2)]
    first, [second] = leader_of(candidates)
    server.restart("immediate")
    back = SystemClock().boottime()
    wait(lambda: any(said["sent"] > back for said in first.said("trusts")) or first.said("lost"), "it renews again")
    assert not first.said("lost")
    assert not second.leads()


def test_a_database_that_stays_away_ends_the_term_and_another_one_begins(
    start: Start, fresh_postgres: Callable[..., Postgres]
) -> None:
    server = fresh_postgres()
    place = server.create_database("election")
    migrate(place.dsn())
    candidates = [start(place.dsn()) for _ in range(2)]
    first, [second] = leader_of(candidates)
    server.stop("immediate")
    wait(lambda: not first.child.alive(), "the leader has ended")
    server.start()
    wait(second.leads, "the other leads")
    assert_one_at_a_time(candidates)
