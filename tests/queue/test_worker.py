"""Real workers on the managed table: each row delivered and accepted once, whoever is killed, frozen or told to go."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from statistics import median
from typing import Any

import pytest

from tests.cluster.children import until
from tests.queue.workers import Crew

LEASE = 10
ROWS = int(os.environ.get("SOLOIST_TEST_ROWS", "2000"))
"""Rows for one worker; four get ten thousand anyway."""
pytestmark = pytest.mark.slow
POLL = 0.25
APART = """
SELECT soloist.enqueue(
    'default/q', jsonb_build_object('n', n), clock_timestamp() + (2 + 0.73 * n + 0.037 * mod(n, 7)) * interval '1 s'
) FROM generate_series(0, %s - 1) AS n"""


@pytest.mark.parametrize(("workers", "rows"), [(1, ROWS), (4, max(ROWS, 10_000))])
def test_each_row_is_received_and_accepted_once(crew: Crew, workers: int, rows: int) -> None:
    """keda #525, #2488, #5537."""
    crew.queue()
    crew.fill(rows)
    members = [crew.start(f"w{number}") for number in range(workers)]
    crew.until_empty(timeout=600)
    found = crew.audit(rows)
    assert {len(requests) for requests in found.values()} == {1}, "nobody was disturbed, so nothing came twice"
    until(lambda: total(members, "soloist_queue_attempts_total") == rows, what="all are counted", timeout=60)
    assert total(members, "soloist_queue_claims_lost_total") == 0
    assert total(members, "soloist_queue_in_flight") == 0
    assert [round(worker.resident_mb()) for worker in members if worker.resident_mb() > 90] == []


def total(members: list[Any], name: str) -> float:
    return sum(worker.metric(name) for worker in members)


@pytest.mark.parametrize("others", [0, 1])
def test_a_worker_frozen_past_its_lease_writes_nothing_for_what_it_held(crew: Crew, others: int) -> None:
    crew.queue(leaseSeconds=LEASE, http={"timeoutSeconds": 8}, concurrency={"perWorker": 8})
    crew.fill(40)
    crew.backend.rule(hang=True, times=8)
    frozen = crew.ready("frozen")
    crew.backend.wait(8)
    frozen.freeze()
    if others:
        crew.ready("other")
        crew.until_empty()
        crew.audit(40)
    lapsed = "SELECT count(*) = 0 FROM soloist.work_items WHERE lease_until > clock_timestamp()"
    until(lambda: crew.ask(lapsed), what="its leases are over", timeout=90)
    frozen.thaw()
    until(lambda: frozen.metric("soloist_queue_claims_lost_total") == 8, what="it knows of each", timeout=90)
    crew.until_empty()
    crew.audit(40)
    assert len(frozen.said("claim lost")) == 8
    assert len(crew.backend.received("/q")) == 48, "what it held was sent again, once, and nothing else"
    assert total(list(crew.members.values()), "soloist_queue_reclaimed_total") == 8
    crew.fill(20, first=40)
    crew.until_empty()
    crew.audit(60)


def test_a_worker_that_is_told_to_go_finishes_what_ends_within_the_grace(crew: Crew) -> None:
    crew.queue(leaseSeconds=600)
    crew.backend.rule(delay=2.0)
    crew.fill(64)
    going = crew.ready("going")
    crew.backend.wait(64)
    going.terminate()
    assert going.gone() == 0
    assert crew.left() == 0
    crew.audit(64)
    assert going.said("going away")


@pytest.mark.parametrize(("rows", "of_four"), [(20, 1), pytest.param(200, 3, marks=pytest.mark.long)])
def test_in_an_idle_queue_rows_are_picked_up_within_a_poll_interval_of_their_time(
    crew: Crew, rows: int, of_four: int
) -> None:
    """So far apart that the queue is asked as seldom as ever in between; nobody else asks the database for anything."""
    crew.queue()
    worker = crew.ready("w")
    with crew.connect() as connection:
        connection.execute(APART, (rows,))
        due = dict(connection.execute("SELECT (payload ->> 'n')::int, due_at FROM soloist.work_items").fetchall())
    crew.backend.wait(rows, timeout=rows + 90)
    crew.until_empty()
    late = sorted((requests[0].at - due[n]).total_seconds() for n, requests in crew.audit(rows).items())
    began, before = time.monotonic(), transactions(crew)
    until(lambda: time.monotonic() >= began + 10, what="ten seconds are over", timeout=90)
    per_second = (transactions(crew) - before) / (time.monotonic() - began)
    print(f"picked up {late[0]:.3f} to {late[-1]:.3f} s after their time, {median(late):.3f} in the middle of {rows}")
    print(f"{per_second:.1f} statements a second of an idle worker")
    assert late[0] >= 0
    assert late[rows * of_four // 4] <= POLL, "the others may wait for the machine, and not for the queue"
    assert 0 < per_second < 20
    assert worker.metric("soloist_queue_errors_total") == 0


def transactions(crew: Crew) -> int:
    """Of one statement each, as those of an idle worker are; asked for in another database."""
    query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"
    with crew.database.server.connect() as connection:
        (count,) = connection.execute(query, (crew.database.name,)).fetchone() or (0,)
    return int(count)


def test_with_listen_a_new_row_is_picked_up_long_before_the_next_look(crew: Crew) -> None:
    crew.queue(poll={"minMilliseconds": 60000, "maxMilliseconds": 60000, "listen": True})
    worker = crew.ready("w")
    listened = "SELECT count(*) FROM soloist.listening"
    until(lambda: crew.ask(listened) == 1, what="it listens", timeout=90)
    late = []
    for number in range(20):
        crew.fill(1, first=number)
        due = crew.ask("SELECT clock_timestamp()")
        (request,) = crew.backend.wait(1, when=lambda each, number=number: json.loads(each.body)["n"] == number)
        late.append((request.at - due).total_seconds())
    crew.until_empty()
    crew.audit(20)
    print(f"picked up up to {max(late):.3f} s after the commit")
    assert max(late) < 30.0, "half of what the next look is away"
    assert worker.metric("soloist_queue_errors_total") == 0


def test_a_failed_row_comes_again_when_it_is_due_with_no_other_traffic(crew: Crew) -> None:
    crew.queue(retry={"schedule": ["4s"], "jitter": 0, "maxAttempts": 3})
    crew.backend.rule(status=503, times=1)
    crew.ready("w")
    crew.fill(1)
    (first,) = crew.backend.wait(1)
    due = until(lambda: retried_at(crew), what="it is due again", timeout=60)
    crew.until_empty()
    first, second = crew.backend.received()
    assert [each.header("Soloist-Attempt") for each in (first, second)] == ["1", "2"]
    assert 0 <= (second.at - due).total_seconds() < 30, "and not when something else happens to come"
    assert first.header("Idempotency-Key") == second.header("Idempotency-Key")
    assert crew.dead() == crew.claimed() == 0


def retried_at(crew: Crew) -> datetime | None:
    found = crew.ask("SELECT max(due_at) FROM soloist.work_items WHERE attempt = 2 AND fence IS NULL")
    return found if isinstance(found, datetime) else None


def test_a_row_that_always_fails_ends_as_a_dead_letter_with_its_last_error(crew: Crew) -> None:
    crew.queue(retry={"schedule": ["1s"], "jitter": 0, "maxAttempts": 3})
    crew.backend.rule(status=500, body="no luck")
    worker = crew.ready("w")
    crew.fill(1)
    until(lambda: crew.dead() == 1, what="it is given up", timeout=90)
    assert len(crew.backend.received()) == 3
    assert "500: no luck" in crew.ask("SELECT last_error FROM soloist.dead_items")
    failed = "soloist_queue_attempts_total"
    until(lambda: worker.metric(failed, result="failed") == 3, what="its attempts are counted", timeout=60)
    until(lambda: worker.metric("soloist_queue_dead_total", reason="Failed") == 1, what="it is counted", timeout=60)
    assert worker.said("row given up")[0]["attempt"] == 3


def test_more_urgent_rows_go_first(crew: Crew) -> None:
    crew.queue(concurrency={"perWorker": 1})
    with crew.connect() as connection:
        for priority in (3, 1, 0, 2):
            connection.execute(
                "SELECT soloist.enqueue('default/q', %s::jsonb, clock_timestamp() - interval '1 s', NULL, %s::smallint)",
                (json.dumps({"n": priority}), priority),
            )
    crew.ready("w")
    crew.until_empty()
    assert [json.loads(each.body)["n"] for each in crew.backend.received()] == [0, 1, 2, 3]
