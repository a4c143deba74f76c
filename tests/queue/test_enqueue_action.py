"""The enqueue action on a real server: one row in the queue for each run, and what its queue may be."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from soloist.adapters.postgres.ledger import TermIsOver
from soloist.domain.actions import FailedKnown, Outcome, Succeeded
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import QueueSpec
from tests.postgres.server import Database
from tests.queue.rows import Connection, claim, scalar
from tests.queue.runs import JOB, action_of, leading, play

DATABASE = {"secretName": "backend-db", "key": "uri"}


def queue(**more: Any) -> QueueSpec:
    parsed = parse_queue({"database": DATABASE, "deliver": {"http": {"url": "http://backend/"}}, **more})
    assert isinstance(parsed, QueueSpec), parsed
    return parsed


MAPPED = queue(
    table={
        "name": 'public."Mail"',
        "id": "id",
        "status": {"column": "status", "pending": ["new"], "done": "sent", "failed": "failed"},
    }
)


def outcomes(database: Database, action: Any, times: int = 1) -> list[Outcome]:
    async def scene() -> list[Outcome]:
        async with leading(database.dsn(), queues={"emails": queue(), "own": MAPPED}) as leader:
            return [await leader.launch(action, tick) for tick in range(times)]

    return play(scene())


def said(outcome: Outcome) -> str:
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.response is not None
    return outcome.response.excerpt


def test_a_row_is_there_for_whoever_claims(queue_database: Database, connection: Connection) -> None:
    action = action_of(enqueue={"queue": "q", "payload": {"run": "{key}", "n": 1, "deep": [{"é": None}]}})
    (outcome,) = outcomes(queue_database, action)
    (row,) = claim(connection, 10)
    assert said(outcome) == f"row {row.id} of queue q"
    assert row.payload == {"run": f"{JOB}/2026-03-01T00:00:00Z", "n": 1, "deep": [{"é": None}]}
    assert (row.priority, row.unique_key, row.attempt) == (1, None, 1)


def test_a_row_of_a_work_queue_is_in_the_queue_of_that_name(queue_database: Database, connection: Connection) -> None:
    outcomes(queue_database, action_of(enqueue={"workQueue": "emails"}))
    (row,) = claim(connection, 10, queue="shop/emails")
    assert row.payload == {}


def test_a_row_may_be_due_later_and_go_before_others(queue_database: Database, connection: Connection) -> None:
    outcomes(queue_database, action_of(enqueue={"queue": "q", "dueInSeconds": 3600, "priority": 0}))
    assert claim(connection, 10) == []
    due, priority = connection.execute("SELECT due_at - created_at, priority FROM soloist.work_items").fetchone() or ()
    assert (due, priority) == (timedelta(hours=1), 0)


def test_a_run_is_one_row_however_often_it_is_launched(queue_database: Database, connection: Connection) -> None:
    async def scene() -> None:
        action = action_of(enqueue={"queue": "q"})
        for epoch in (1, 2, 3):
            async with leading(queue_database.dsn(), epoch) as leader:
                assert isinstance(await leader.launch(action), Succeeded)
                assert isinstance(await leader.found(), Succeeded)

    play(scene())
    assert scalar(connection, "SELECT count(*) FROM soloist.work_items") == 1


def test_while_a_row_with_the_key_waits_no_other_is_added_and_the_run_says_so(
    queue_database: Database, connection: Connection
) -> None:
    action = action_of(enqueue={"queue": "q", "uniqueKey": "digest of {job}"})
    first, second = outcomes(queue_database, action, times=2)
    assert said(first).startswith("row ")
    assert said(second) == "none added: queue q has a row with this uniqueKey already"
    assert scalar(connection, "SELECT array_agg(unique_key) FROM soloist.work_items") == ["digest of sweep"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own", 'WorkQueue shop/own works the table public."Mail", to which only the application adds rows'),
        ("absent", "WorkQueue shop/absent does not exist"),
    ],
)
def test_a_work_queue_that_cannot_take_a_row_is_a_failure_that_says_why(
    queue_database: Database, connection: Connection, name: str, words: str
) -> None:
    (failed,) = outcomes(queue_database, action_of(enqueue={"workQueue": name}))
    assert isinstance(failed, FailedKnown)
    assert (failed.reason, failed.retryable) == ("DatabaseNotFound", True)
    assert words in failed.message
    assert scalar(connection, "SELECT count(*) FROM soloist.work_items") == 0


TOGETHER = 60


def test_runs_that_are_due_together_share_transactions_and_each_adds_its_row_once(
    queue_database: Database, connection: Connection
) -> None:
    action = action_of(enqueue={"queue": "q", "payload": {"run": "{key}"}})

    async def scene() -> tuple[list[Outcome], list[Outcome]]:
        async with leading(queue_database.dsn()) as leader:
            first = await asyncio.gather(*(leader.launch(action, tick) for tick in range(TOGETHER)))
            return first, await asyncio.gather(*(leader.launch(action, tick) for tick in range(TOGETHER)))

    first, again = play(scene())
    rows = claim(connection, TOGETHER + 1)
    assert len({row.payload["run"] for row in rows}) == len(rows) == TOGETHER
    assert {said(outcome) for outcome in first} == {f"row {row.id} of queue q" for row in rows}
    assert [said(outcome) for outcome in again] == [said(outcome) for outcome in first]
    transactions = "SELECT count(DISTINCT xmin::text) FROM soloist.job_runs"
    assert scalar(connection, transactions) < TOGETHER / 4


def test_runs_with_a_unique_key_and_without_and_of_several_queues_share_a_transaction(
    queue_database: Database, connection: Connection
) -> None:
    kinds = [
        action_of(enqueue={"queue": "q", "payload": {"run": "{key}"}}),
        action_of(enqueue={"queue": "later", "payload": {"run": "{key}"}, "dueInSeconds": 3600, "priority": 2}),
        action_of(enqueue={"queue": "keyed", "payload": {"run": "{key}"}, "uniqueKey": "one"}),
    ]

    async def scene() -> list[Outcome]:
        async with leading(queue_database.dsn()) as leader:
            runs = (leader.launch(kinds[tick % 3], tick) for tick in range(TOGETHER))
            return list(await asyncio.gather(*runs))

    found = [said(outcome) for outcome in play(scene())]
    rows = connection.execute(
        "SELECT w.id, w.queue, w.due_at > now(), w.priority, r.outcome ->> 'said' FROM soloist.work_items AS w"
        " JOIN soloist.job_runs AS r ON r.run_key = w.payload ->> 'run'"
    ).fetchall()
    assert len(rows) == 2 * TOGETHER // 3 + 1
    assert {queue: (later, priority) for _, queue, later, priority, _ in rows} == {
        "q": (False, 1),
        "later": (True, 2),
        "keyed": (False, 1),
    }
    assert {text for *_, text in rows} == {f"row {id_} of queue {queue}" for id_, queue, *_ in rows}
    assert {text for *_, text in rows} < set(found)
    assert sum(text.startswith("none added: queue keyed") for text in found) == TOGETHER // 3 - 1
    assert scalar(connection, "SELECT count(*) FROM soloist.job_runs") == TOGETHER


def test_a_tick_whose_record_was_pruned_adds_no_row_again(queue_database: Database, connection: Connection) -> None:
    action = action_of(enqueue={"queue": "q"})

    async def scene() -> list[Outcome]:
        async with leading(queue_database.dsn()) as leader:
            await leader.launch(action, 3)
            connection.execute("SELECT soloist.prune_runs('0 s')")
            return list(await asyncio.gather(*(leader.launch(action, tick) for tick in range(6))))

    found = play(scene())
    assert all(isinstance(outcome, Succeeded) for outcome in found)
    assert ["a time so old counts as done" in getattr(outcome, "message", "") for outcome in found] == [True] * 4 + [False] * 2  # fmt: skip
    assert scalar(connection, "SELECT count(*) FROM soloist.work_items") == 3
    assert scalar(connection, "SELECT count(*) FROM soloist.job_runs") == 2


def test_whoever_may_do_what_workers_do_may_enqueue_runs(queue_database: Database, connection: Connection) -> None:
    role = queue_database.server.role("enqueuer")
    connection.execute(f"SELECT soloist.allow_work('{role}')")

    async def scene() -> Outcome:
        async with leading(queue_database.dsn(role)) as leader:
            return await leader.launch(action_of(enqueue={"queue": "q"}))

    assert said(play(scene())).startswith("row ")


def test_a_run_that_has_to_wait_for_somebody_else_holds_up_no_other(
    queue_database: Database, connection: Connection
) -> None:
    plain = action_of(enqueue={"queue": "q"})
    keyed = action_of(enqueue={"queue": "q", "uniqueKey": "taken"})

    async def scene() -> Outcome:
        async with leading(queue_database.dsn()) as leader:
            with queue_database.connect() as another, another.transaction(force_rollback=True):
                another.execute("SELECT soloist.enqueue('q', '{}', unique_key => 'taken')")
                waiting = asyncio.create_task(leader.launch(keyed, 0))
                others = await asyncio.gather(*(leader.launch(plain, tick) for tick in range(1, TOGETHER)))
                assert all(said(outcome).startswith("row ") for outcome in others)
                assert not waiting.done()
            return await waiting

    assert said(play(scene())).startswith("row ")
    assert scalar(connection, "SELECT count(*) FROM soloist.work_items") == TOGETHER


def test_a_run_that_the_database_refuses_fails_alone(queue_database: Database, connection: Connection) -> None:
    connection.execute(
        "ALTER TABLE soloist.work_items ADD CONSTRAINT no_threes CHECK (payload ->> 'tick' NOT LIKE '%:03:%')"
    )
    action = action_of(enqueue={"queue": "q", "payload": {"tick": "{scheduledTime}"}})

    async def scene() -> list[Outcome]:
        async with leading(queue_database.dsn()) as leader:
            return list(await asyncio.gather(*(leader.launch(action, tick) for tick in range(8))))

    try:
        found = play(scene())
    finally:
        connection.execute("ALTER TABLE soloist.work_items DROP CONSTRAINT no_threes")
    failed = [tick for tick, outcome in enumerate(found) if isinstance(outcome, FailedKnown)]
    assert failed == [3]
    assert scalar(connection, "SELECT count(*) FROM soloist.job_runs") == 7


def test_after_a_takeover_none_of_a_batch_is_added(queue_database: Database, connection: Connection) -> None:
    action = action_of(enqueue={"queue": "q"})

    async def scene() -> list[Any]:
        async with leading(queue_database.dsn(), 1) as old, leading(queue_database.dsn(), 2) as new:
            await old.launch(action, 0)
            assert await new.found(1) is None
            runs = (old.launch(action, tick) for tick in range(1, 9))
            return list(await asyncio.gather(*runs, return_exceptions=True))

    assert all(isinstance(each, TermIsOver) for each in play(scene()))
    assert scalar(connection, "SELECT count(*) FROM soloist.work_items") == 1
