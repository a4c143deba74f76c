"""Real workers on the managed table: each row delivered and accepted once, whoever is killed, frozen or told to go."""

from __future__ import annotations

import itertools
import json
import os
from datetime import datetime
from typing import Any

import pytest

from tests.cluster.children import until
from tests.queue.workers import Crew

LEASE = 5
ROWS = int(os.environ.get("SOLOIST_TEST_ROWS", "2000"))
"""Rows for one worker; four get ten thousand anyway."""
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("workers", "rows"), [(1, ROWS), (4, max(ROWS, 10_000))])
def test_each_row_is_received_and_accepted_once(crew: Crew, workers: int, rows: int) -> None:
    """keda #525, #2488, #5537."""
    crew.queue()
    crew.fill(rows)
    members = [crew.start(f"w{number}") for number in range(workers)]
    crew.until_empty(timeout=240)
    found = crew.audit(rows)
    assert {len(requests) for requests in found.values()} == {1}, "nobody was disturbed, so nothing came twice"
    until(lambda: total(members, "soloist_queue_attempts_total") == rows, what="all are counted", timeout=10)
    assert total(members, "soloist_queue_claims_lost_total") == 0
    assert total(members, "soloist_queue_in_flight") == 0
    assert [round(worker.resident_mb()) for worker in members if worker.resident_mb() > 90] == []


def total(members: list[Any], name: str) -> float:
    return sum(worker.metric(name) for worker in members)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_worker_killed_every_second_loses_nothing_and_repeats_under_the_same_key(crew: Crew, workers: int) -> None:
    crew.queue(
        leaseSeconds=LEASE, maxReclaims=100, concurrency={"perWorker": 32 // workers}, http={"timeoutSeconds": 3}
    )
    crew.backend.rule(delay=0.2)
    crew.fill(2000)
    names = itertools.count()
    alive = [crew.ready(f"w{next(names)}") for _ in range(workers)]
    for _ in range(5):
        before = len(crew.backend.received("/q"))
        until(lambda before=before: len(crew.backend.received("/q")) > before + 50, what="they are at it", timeout=60)
        alive.pop(0).kill()
        alive.append(crew.start(f"w{next(names)}"))
    crew.until_empty(timeout=180)
    found = crew.audit(2000)
    again = sum(len(requests) - 1 for requests in found.values())
    assert 0 < again <= 5 * 4 * 32 // workers, "only what was in a dead one's hands came again"


def test_a_row_whose_worker_died_comes_again_when_its_lease_ends_and_not_before(crew: Crew) -> None:
    crew.queue(leaseSeconds=LEASE, http={"timeoutSeconds": 3})
    crew.fill(4)
    crew.backend.rule(hang=True, times=4)
    dead = crew.ready("dead")
    crew.backend.wait(4)
    ends = crew.ask("SELECT max(lease_until) FROM soloist.work_items")
    dead.kill()
    crew.ready("alive")
    crew.until_empty()
    found = crew.audit(4)
    assert {len(requests) for requests in found.values()} == {2}
    late = [(requests[1].at - ends).total_seconds() for requests in found.values()]
    assert min(late) >= -1.0, "the lease of the first may end a little sooner than that of the last"
    assert max(late) <= 0.25 + 1.0


@pytest.mark.parametrize("others", [0, 1])
def test_a_worker_frozen_past_its_lease_writes_nothing_for_what_it_held(crew: Crew, others: int) -> None:
    crew.queue(leaseSeconds=LEASE, http={"timeoutSeconds": 3}, concurrency={"perWorker": 8})
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
    until(lambda: crew.ask(lapsed), what="its leases are over", timeout=30)
    frozen.thaw()
    until(lambda: frozen.metric("soloist_queue_claims_lost_total") == 8, what="it knows of each", timeout=30)
    crew.until_empty()
    crew.audit(40)
    assert len(frozen.said("claim lost")) == 8
    assert len(crew.backend.received("/q")) == 48, "what it held was sent again, once, and nothing else"
    assert total(list(crew.members.values()), "soloist_queue_reclaimed_total") == 8
    crew.fill(20, first=40)
    crew.until_empty()
    crew.audit(60)


def test_a_worker_that_is_told_to_go_under_load_leaves_nothing_behind_and_uses_no_attempt(crew: Crew) -> None:
    crew.queue(leaseSeconds=600, concurrency={"perWorker": 32}, http={"timeoutSeconds": 60})
    crew.backend.rule(delay=0.3)
    crew.fill(300)
    going = crew.ready("going", SOLOIST_GRACE="6")
    crew.backend.wait(100)
    crew.backend.rule(hang=True)
    until(lambda: crew.served() >= 32, what="all slots hang", timeout=30)
    going.terminate()
    assert going.gone(timeout=20) == 0
    assert crew.claimed() == 0, "nothing is orphaned"
    rest = crew.left()
    with crew.connect() as connection:
        assert connection.execute("SELECT DISTINCT attempt, reclaims FROM soloist.work_items").fetchall() == [(1, 0)]
    crew.backend.clear()
    before = len(crew.backend.received("/q"))
    crew.ready("next")
    crew.until_empty(timeout=30)
    crew.audit(300)
    assert len(crew.backend.received("/q")) == before + rest, "taken at once, long before a lease would have ended"


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


def test_with_hold_nothing_is_sent_twice_and_what_was_in_a_dead_ones_hands_is_parked(crew: Crew) -> None:
    crew.queue(leaseSeconds=LEASE, afterCrash="Hold", concurrency={"perWorker": 8}, http={"timeoutSeconds": 3})
    crew.fill(200)
    crew.backend.rule(delay=0.05)
    names = itertools.count()
    member = crew.ready(f"w{next(names)}")
    for _ in range(3):
        before = len(crew.backend.received("/q"))
        until(lambda before=before: len(crew.backend.received("/q")) > before + 20, what="it is at it", timeout=60)
        member.kill()
        member = crew.start(f"w{next(names)}")
    crew.until_empty()
    found = crew.received()
    assert {len(requests) for requests in found.values()} == {1}, "each at most once"
    parked = crew.dead()
    assert 0 < parked <= 3 * 8 * 4
    assert crew.ask("SELECT count(*) FROM soloist.dead_items WHERE reason <> 'Interrupted'") == 0
    assert crew.claimed() == 0
    letters = set(crew.ask("SELECT array_agg((payload ->> 'n')::int) FROM soloist.dead_items"))
    assert len(letters) == parked
    assert found.keys() | letters == set(range(200)), "parked and done are all"


def test_in_an_idle_queue_rows_are_picked_up_within_a_poll_interval_of_their_time(crew: Crew) -> None:
    crew.queue()
    worker = crew.ready("w")
    late = []
    for number in range(20):
        crew.fill(1, due_in=1.0 + 0.037 * number, first=number)
        due = crew.ask("SELECT max(due_at) FROM soloist.work_items")
        (request,) = crew.backend.wait(1, when=lambda each, number=number: json.loads(each.body)["n"] == number)
        late.append((request.at - due).total_seconds())
    crew.until_empty(timeout=10)
    crew.audit(20)
    print(f"picked up {min(late):.3f} to {max(late):.3f} s after their time")
    assert min(late) >= 0
    assert sorted(late)[10] <= 0.25
    assert max(late) <= 0.25 + 0.5, "a busy machine may be late by itself"
    assert worker.metric("soloist_queue_errors_total") == 0


def test_with_listen_a_new_row_is_picked_up_long_before_the_next_look(crew: Crew) -> None:
    crew.queue(poll={"minMilliseconds": 60000, "maxMilliseconds": 60000, "listen": True})
    worker = crew.ready("w")
    listened = "SELECT count(*) FROM soloist.listening"
    until(lambda: crew.ask(listened) == 1, what="it listens", timeout=20)
    late = []
    for number in range(20):
        crew.fill(1, first=number)
        due = crew.ask("SELECT clock_timestamp()")
        (request,) = crew.backend.wait(1, when=lambda each, number=number: json.loads(each.body)["n"] == number)
        late.append((request.at - due).total_seconds())
    crew.until_empty(timeout=10)
    crew.audit(20)
    print(f"picked up up to {max(late):.3f} s after the commit")
    assert max(late) < 1.0
    assert worker.metric("soloist_queue_errors_total") == 0


def test_a_failed_row_comes_again_when_it_is_due_with_no_other_traffic(crew: Crew) -> None:
    crew.queue(retry={"schedule": ["4s"], "jitter": 0, "maxAttempts": 3})
    crew.backend.rule(status=503, times=1)
    crew.ready("w")
    crew.fill(1)
    (first,) = crew.backend.wait(1)
    due = until(lambda: retried_at(crew), what="it is due again", timeout=10)
    crew.until_empty()
    first, second = crew.backend.received()
    assert [each.header("Soloist-Attempt") for each in (first, second)] == ["1", "2"]
    assert 0 <= (second.at - due).total_seconds() <= 0.25 + 0.5
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
    until(lambda: crew.dead() == 1, what="it is given up", timeout=30)
    assert len(crew.backend.received()) == 3
    assert "500: no luck" in crew.ask("SELECT last_error FROM soloist.dead_items")
    assert worker.metric("soloist_queue_attempts_total", result="failed") == 3
    until(lambda: worker.metric("soloist_queue_dead_total", reason="Failed") == 1, what="it is counted", timeout=5)
    assert worker.said("row given up")[0]["attempt"] == 3


def test_a_row_that_kills_its_worker_ends_as_a_dead_letter_and_starves_no_other(crew: Crew) -> None:
    crew.queue(leaseSeconds=LEASE, maxReclaims=1, concurrency={"perWorker": 1}, http={"timeoutSeconds": 3})
    crew.backend.rule(holding='"n": 0}', kill_caller=True)
    names = itertools.count()
    member = crew.start(f"w{next(names)}")
    crew.fill(100)
    for _ in range(2):
        member.gone()
        member = crew.start(f"w{next(names)}")
    crew.until_empty()
    assert set(crew.received()) == set(range(100))
    assert {n: len(requests) for n, requests in crew.received().items() if len(requests) > 1} == {0: 2}
    with crew.connect() as connection:
        (letter,) = connection.execute("SELECT payload, reason, reclaims FROM soloist.dead_items").fetchall()
    assert letter == ({"n": 0}, "ReclaimedTooOften", 2)
    buried = "soloist_queue_dead_total"
    until(lambda: member.metric(buried, reason="ReclaimedTooOften") == 1, what="it is counted", timeout=10)


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
