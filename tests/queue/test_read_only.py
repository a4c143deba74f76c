"""A database that takes no writes, as a standby or by a default: it is told in a sentence, and over once it takes them again."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from soloist.adapters.postgres.migrate import migrate
from soloist.adapters.postgres.queue_databases import SurveyedDatabase
from soloist.domain.actions import FailedKnown
from soloist.domain.errors import TransientError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.queue_validity import Unfit
from soloist.shells.cli import cli
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.postgres.account import give
from tests.postgres.server import Database, Postgres
from tests.queue.databases import opened
from tests.queue.runs import action_of, leading, play
from tests.queue.user_tables import PRISMA, PRISMA_DDL, PRISMA_NEW
from tests.queue.workers import Crew, Worker

SOON = 90.0
ROWS = 5
ON = "ALTER DATABASE {} SET default_transaction_read_only = on"
RESET = "ALTER DATABASE {} RESET default_transaction_read_only"


def demote(server: Postgres) -> None:
    """A hot standby with nobody to follow: all that a promotion needs."""
    server.stop()
    signal = server.data / "standby.signal"
    signal.touch()
    give(signal)
    server.start()


def sentences(worker: Worker, queue: str) -> list[str]:
    return [line["error"] for line in worker.said("error survived") if line["queue"] == queue]


def until_it_says_of_both(worker: Worker, word: str) -> None:
    for queue in ("q", "own"):
        until(
            lambda queue=queue: any(word in said for said in sentences(worker, queue)),
            what=f"the worker says what {queue} waits for",
            timeout=SOON,
            needs=[worker.process],
        )


def checked(crew: Crew, queue: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(cli, ["queue", "check", queue, "-f", str(crew.manifest), "-o", "json"])
    return result.exit_code, [each["reason"] for each in json.loads(result.output)["findings"]]


def two_queues(crew: Crew) -> None:
    """One in soloist.work_items, one on a table of Prisma's, each with rows that are due."""
    with crew.connect() as connection:
        connection.execute("CREATE SCHEMA app")
        connection.execute(PRISMA_DDL)
        connection.execute(PRISMA_NEW.format(due="now()", count=ROWS))
    crew.fill(ROWS, "q")
    crew.queue("q")
    crew.queue("own", table=PRISMA, http={"bodyColumn": "payload"})


def sent(crew: Crew) -> dict[str, Counter[int]]:
    return {
        name: Counter(json.loads(each.body)["n"] for each in crew.backend.received(f"/{name}")) for name in ("q", "own")
    }


def delivered(crew: Crew) -> bool:
    left = crew.ask("SELECT count(*) FROM app.\"WebhookDelivery\" WHERE status <> 'DELIVERED'")
    return crew.left("q") == 0 and left == 0


def learned(database: Database) -> object:
    """What the condition of a queue in soloist.work_items is made of."""
    spec = parse_queue(
        {"database": {"secretName": "db", "key": "uri"}, "deliver": {"http": {"url": "http://backend/"}}}
    )
    assert isinstance(spec, QueueSpec)
    name = QueueName("default", "q")

    async def ask() -> object:
        surveyed = SurveyedDatabase(opened(database.dsn()), boottime=time.monotonic)
        try:
            return (await surveyed.learn({name: spec}))[name].answer
        finally:
            await surveyed.close()

    return asyncio.run(ask())


def enqueued_by_a_run(database: Database) -> object:
    async def scene() -> object:
        async with leading(database.dsn()) as leader:
            return await leader.launch(action_of(enqueue={"queue": "other"}))

    return play(scene())


def test_queues_on_a_standby_say_so_and_go_on_once_it_is_promoted(
    fresh_postgres: Callable[..., Postgres], tmp_path: Path, receiver: Backend
) -> None:
    server = fresh_postgres()
    database = server.create_database("backend")
    migrate(database.dsn())
    crew = Crew(tmp_path, database, receiver)
    two_queues(crew)
    demote(server)
    try:
        worker = crew.start("w")
        until_it_says_of_both(worker, "standby")
        assert all("target_session_attrs=read-write" in said for said in sentences(worker, "q"))
        for queue in ("q", "own"):
            code, reasons = checked(crew, queue)
            assert (code, reasons[0]) == (1, "Standby")
        answer = learned(database)
        assert isinstance(answer, Unfit)
        assert "is a standby" in answer.sentence
        run = enqueued_by_a_run(database)
        assert isinstance(run, FailedKnown)
        assert run.retryable
        assert "is a standby" in run.message
        with pytest.raises(TransientError, match="is a standby"):
            migrate(database.dsn())
        assert worker.ask("/healthz")[0] == 200, "nobody is restarted for it"
        assert receiver.received() == []

        with server.connect() as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
        until(lambda: delivered(crew), what="all is delivered", timeout=SOON, needs=[worker.process])
        worker.terminate()
        assert worker.gone() == 0
        assert sent(crew) == {"q": Counter(range(ROWS)), "own": Counter(range(1, ROWS + 1))}
    finally:
        crew.stop()


def test_queues_of_a_database_that_is_read_only_by_default_go_on_once_it_is_not_any_more(crew: Crew) -> None:
    two_queues(crew)
    name, server = crew.database.name, crew.database.server
    with server.connect() as connection:
        connection.execute(ON.format(name))
        worker = crew.start("w")
        until_it_says_of_both(worker, "read_only")
        for queue in ("q", "own"):
            code, reasons = checked(crew, queue)
            assert (code, reasons[0]) == (1, "ReadOnly")
        with crew.connect() as application, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            application.execute("SELECT soloist.enqueue('default/q', '{}')")
        # Sessions that were told so keep to it; whoever waits for these waits for an hour.
        connection.execute(RESET.format(name))
    until(lambda: delivered(crew), what="all is delivered", timeout=SOON, needs=[worker.process])
    worker.terminate()
    assert worker.gone() == 0
    assert sent(crew) == {"q": Counter(range(ROWS)), "own": Counter(range(1, ROWS + 1))}
