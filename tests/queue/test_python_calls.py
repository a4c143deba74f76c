"""``soloist.queue`` in the application's own transactions: each driver, what is undone with them, and what is refused."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from soloist import queue
from soloist.queue import aio
from tests.postgres.server import Database
from tests.queue.rows import Connection, claim, items, scalar

NEVER_LOADED = ("kopf", "kubernetes", "aiohttp", "click", "prometheus_client", "yaml", "sqlalchemy")
Opened = Callable[[Database], AbstractContextManager[Any]]


@contextmanager
def by_psycopg(database: Database) -> Iterator[Any]:
    with database.connect(autocommit=False, row_factory=dict_row) as connection:
        yield connection


@contextmanager
def by_sqlalchemy(database: Database) -> Iterator[Any]:
    with sqlalchemy.create_engine(alchemy(database), poolclass=NullPool).connect() as connection:
        yield connection


@contextmanager
def by_a_session(database: Database) -> Iterator[Any]:
    with Session(sqlalchemy.create_engine(alchemy(database), poolclass=NullPool)) as session:
        yield session


def alchemy(database: Database) -> str:
    return database.dsn().replace("postgresql://", "postgresql+psycopg://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    row: int
    fence: int


EVERY_DRIVER = pytest.mark.parametrize("opened", [by_psycopg, by_sqlalchemy, by_a_session])


def test_an_application_loads_nothing_of_the_operators() -> None:
    code = f"import sys, soloist.queue; print([m for m in {NEVER_LOADED} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@EVERY_DRIVER
def test_a_row_is_there_if_and_only_if_the_transaction_commits(
    queue_database: Database, connection: Connection, opened: Opened
) -> None:
    with opened(queue_database) as ours:
        assert isinstance(queue.enqueue(ours, "q", {"n": 1}), int)
        assert items(connection) == []
        ours.rollback()
        assert items(connection) == []
        made = queue.enqueue(ours, "q", {"n": 2})
        ours.commit()
    assert [(row["id"], row["payload"]) for row in items(connection)] == [(made, {"n": 2})]


@EVERY_DRIVER
def test_a_row_has_the_due_time_key_and_priority_that_it_was_given(
    queue_database: Database, connection: Connection, opened: Opened
) -> None:
    due = datetime(2031, 5, 1, 7, 30, 0, 123456, tzinfo=UTC)
    with opened(queue_database) as ours:
        first = queue.enqueue(ours, "q", ["a %s", "b"], due_at=due, unique_key="k%s", priority=0)
        assert queue.enqueue(ours, "q", 1, unique_key="k%s") is None
        ours.commit()
    (row,) = items(connection)
    assert (row["id"], row["payload"], row["due_at"]) == (first, ["a %s", "b"], due)
    assert (row["unique_key"], row["priority"]) == ("k%s", 0)


@EVERY_DRIVER
def test_many_are_enqueued_at_once_and_taken_back(
    queue_database: Database, connection: Connection, opened: Opened
) -> None:
    payloads: list[Any] = [{"n": 1}, None, 'quotes " \\ {}', [1, 2]]
    with opened(queue_database) as ours:
        made = queue.enqueue_many(ours, "q", payloads, unique_keys=["a", "b", None, "a"])
        assert queue.enqueue_many(ours, "q", []) == []
        ours.commit()
        assert sorted(json.dumps(row["payload"]) for row in items(connection)) == sorted(map(json.dumps, payloads[:3]))
        assert len(queue.cancel_key(ours, "q", "a")) == 1
        assert queue.cancel(ours, made[1], 10**12) == [made[1]]
        ours.commit()
    assert len(items(connection)) == 1


@EVERY_DRIVER
def test_the_claim_ends_with_the_effect_or_not_at_all(
    queue_database: Database, connection: Connection, opened: Opened
) -> None:
    connection.execute("CREATE TABLE effects (row bigint)")
    with opened(queue_database) as ours:
        queue.enqueue(ours, "q", {})
        ours.commit()
        (first,) = claim(connection)
        claimed = Held(row=first.id, fence=first.fence)
        queue.complete(ours, claimed)
        ours.rollback()
        assert len(items(connection)) == 1
        queue.complete(ours, claimed)
        ours.commit()
        with pytest.raises(queue.ClaimLost, match=f"the claim of row {first.id} under fence {first.fence} is lost"):
            queue.complete(ours, claimed)
        ours.rollback()
    assert items(connection) == []


@EVERY_DRIVER
def test_once_is_true_once_and_refuses_an_older_fence(queue_database: Database, opened: Opened) -> None:
    with opened(queue_database) as ours:
        assert queue.once(ours, "payday", 7) is True
        ours.rollback()
        assert queue.once(ours, "payday", 7) is True
        ours.commit()
        assert queue.once(ours, "payday", 8) is False
        ours.commit()
        with pytest.raises(queue.StaleFence, match="fence 7 is older"):
            queue.once(ours, "payday", 7)
        ours.rollback()


@EVERY_DRIVER
def test_a_checkpoint_is_not_set_back_by_an_older_fence(queue_database: Database, opened: Opened) -> None:
    with opened(queue_database) as ours:
        assert queue.read_checkpoint(ours, "cursor") is None
        queue.checkpoint(ours, "cursor", {"seen": "2031-05-01"}, 8)
        ours.commit()
        with pytest.raises(queue.StaleFence, match="older"):
            queue.checkpoint(ours, "cursor", None, 7)
        ours.rollback()
        assert queue.read_checkpoint(ours, "cursor") == {"seen": "2031-05-01"}


async def everything(ours: Any, connection: Connection) -> None:
    """Every call that is awaited, on one connection."""
    made = await aio.enqueue(ours, "q", {"n": 1}, due_at=datetime.now(UTC) - timedelta(hours=1))
    assert len(await aio.enqueue_many(ours, "q", [2, 3], unique_keys=["two", None])) == 2
    await ours.commit()
    assert len(await aio.cancel_key(ours, "q", "two")) == 1
    await ours.commit()
    (first,) = claim(connection)
    assert first.id == made
    assert await aio.once(ours, "key", first.fence) is True
    await aio.checkpoint(ours, "cursor", [1], first.fence)
    assert await aio.read_checkpoint(ours, "cursor") == [1]
    await aio.complete(ours, Held(row=first.id, fence=first.fence))
    await ours.commit()
    with pytest.raises(queue.ClaimLost):
        await aio.complete(ours, Held(row=first.id, fence=first.fence))
    await ours.rollback()
    with pytest.raises(queue.StaleFence):
        await aio.once(ours, "key", first.fence - 1)
    await ours.rollback()
    (last,) = items(connection)
    assert await aio.cancel(ours, last["id"]) == [last["id"]]
    await ours.rollback()
    assert len(items(connection)) == 1


def test_every_call_can_be_awaited_on_psycopg(queue_database: Database, connection: Connection) -> None:
    async def inside() -> None:
        async with await psycopg.AsyncConnection.connect(queue_database.dsn()) as ours:
            await everything(ours, connection)

    asyncio.run(inside())


@pytest.mark.parametrize("session", [False, True])
def test_every_call_can_be_awaited_on_sqlalchemy(
    queue_database: Database, connection: Connection, session: bool
) -> None:
    async def inside() -> None:
        engine = create_async_engine(alchemy(queue_database), poolclass=NullPool)
        async with AsyncSession(engine) if session else engine.connect() as ours:
            await everything(ours, connection)
        await engine.dispose()

    asyncio.run(inside())


def test_a_due_time_without_a_zone_is_refused(connection: Connection) -> None:
    with pytest.raises(ValueError, match="names no time zone"):
        queue.enqueue(connection, "q", {}, due_at=datetime(2031, 5, 1))  # noqa: DTZ001 - that is the point
    assert items(connection) == []


def test_what_needs_a_transaction_is_refused_where_each_statement_commits(
    queue_database: Database, connection: Connection
) -> None:
    with pytest.raises(ValueError, match="open a transaction first"):
        queue.once(connection, "k", 1)
    engine = sqlalchemy.create_engine(alchemy(queue_database), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as ours, pytest.raises(ValueError, match="open a transaction first"):
        queue.once(ours, "k", 1)
    with connection.transaction():
        assert queue.once(connection, "k", 1) is True


def test_the_database_s_other_errors_stay_what_they_are(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        queue.enqueue(connection, "q", {}, priority=9)
    assert scalar(connection, "SELECT 1") == 1


@pytest.mark.parametrize("wrong", [object(), None, "postgresql://"])
def test_what_is_no_connection_is_named(wrong: object) -> None:
    with pytest.raises(TypeError, match="is no connection of psycopg 3"):
        queue.enqueue(wrong, "q", {})
    with pytest.raises(TypeError, match="is no connection of psycopg 3"):
        asyncio.run(aio.enqueue(wrong, "q", {}))
