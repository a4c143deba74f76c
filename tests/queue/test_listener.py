"""Notices of new rows: who is woken, when nobody is notified at all, and what happens when the connection is of no use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import psycopg
import pytest

from soloist.adapters.postgres import listener as module
from soloist.adapters.postgres.listener import Listener
from soloist.adapters.postgres.migrate import migrate
from soloist.domain.errors import SoloistError
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database, Postgres
from tests.queue.databases import opened
from tests.queue.rows import Connection, enqueue, scalar

SOON = 90.0


class Ear:
    """One queue's: how often it was woken, and what it was told."""

    def __init__(self) -> None:
        self.woken, self.told = 0, []  # type: int, list[str]
        self.news = asyncio.Event()

    def wake(self) -> None:
        self.woken += 1
        self.news.set()

    def tell(self, error: SoloistError) -> None:
        self.told.append(str(error))
        self.news.set()

    async def until(self, probe: Callable[[], object]) -> None:
        async with asyncio.timeout(SOON):
            while not probe():
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def listening(dsn: str, *queues: str) -> AsyncIterator[list[Ear]]:
    """Each ear has been woken once, as it is when the connection stands."""
    database = opened(dsn)
    listener, ears = Listener(database), [Ear() for _ in queues]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        for queue, ear in zip(queues, ears, strict=True):
            listener.hear(queue, ear.wake, ear.tell, stack)
        for ear in ears:
            await ear.until(lambda ear=ear: ear.woken or ear.told)
        yield ears


async def registered(connection: Connection, queue: str) -> None:
    async with asyncio.timeout(SOON):
        while not scalar(connection, "SELECT count(*) FROM soloist.listening WHERE queue = %s", (queue,)):
            await asyncio.sleep(0.01)


def test_a_queue_is_woken_by_its_own_rows_that_are_due_and_by_no_others(
    queue_database: Database, connection: Connection
) -> None:
    async def body() -> None:
        async with listening(queue_database.dsn(), "a", "b") as (a, b):
            await registered(connection, "b")
            enqueue(connection, queue="c")
            connection.execute("SELECT soloist.enqueue('a', '{}', now() + interval '1 h')")
            with connection.transaction(force_rollback=True):
                enqueue(connection, queue="a")
            connection.execute("SELECT soloist.enqueue_many('b', ARRAY['1', '2']::jsonb[])")
            await b.until(lambda: b.woken == 2)
            assert a.woken == 1, "none of what came before was for it"
            enqueue(connection, queue="a")
            await a.until(lambda: a.woken == 2)
            assert b.woken == 2

    asyncio.run(body())


def test_a_transaction_notifies_once_however_many_rows_it_makes(
    queue_database: Database, connection: Connection
) -> None:
    async def body() -> None:
        async with listening(queue_database.dsn(), "a") as (a,):
            await registered(connection, "a")
            with connection.transaction():
                enqueue(connection, 100, queue="a")
            await a.until(lambda: a.woken >= 2)
            enqueue(connection, queue="a")
            await a.until(lambda: a.woken >= 3)
            assert a.woken == 3

    asyncio.run(body())


def test_nobody_is_notified_where_nobody_wants_to_be(queue_database: Database, connection: Connection) -> None:
    with queue_database.connect() as hears:
        hears.execute("LISTEN soloist")
        enqueue(connection, queue="a")
        connection.execute("INSERT INTO soloist.listening VALUES ('b', now() - interval '1 s')")
        enqueue(connection, queue="b")
        connection.execute("INSERT INTO soloist.listening VALUES ('c', now() + interval '1 min')")
        enqueue(connection, queue="c")
        assert [notice.payload for notice in hears.notifies(timeout=SOON, stop_after=1)] == ["c"]


def test_who_may_only_enqueue_can_do_so_while_somebody_listens(
    postgres: Postgres, own_queue_database: Database
) -> None:
    own_queue_database.psql(f"SELECT soloist.allow_enqueue('{postgres.role('producer')}')")
    own_queue_database.psql("INSERT INTO soloist.listening VALUES ('q', now() + interval '1 min')")
    with own_queue_database.connect("producer") as producer:
        assert enqueue(producer)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            producer.execute("DELETE FROM soloist.listening")


def test_a_queue_that_comes_later_is_told_of_too_and_who_leaves_is_not(
    queue_database: Database, connection: Connection
) -> None:
    async def body() -> None:
        database = opened(queue_database.dsn())
        listener, first, second = Listener(database), Ear(), Ear()
        async with AsyncExitStack() as stack:
            listener.hear("a", first.wake, first.tell, stack)
            await first.until(lambda: first.woken)
            async with AsyncExitStack() as inner:
                listener.hear("b", second.wake, second.tell, inner)
                await registered(connection, "b")
                enqueue(connection, queue="b")
                await second.until(lambda: second.woken)
            seen = second.woken
            enqueue(connection, queue="b")
            enqueue(connection, queue="a")
            await first.until(lambda: first.woken == 2)
            assert second.woken == seen
        await database.close()

    asyncio.run(body())


def test_when_nobody_wants_to_hear_any_more_there_is_no_connection_left(
    queue_database: Database, connection: Connection
) -> None:
    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tests'"

    def sessions() -> set[int]:
        return {pid for (pid,) in connection.execute(query).fetchall()}

    async def body() -> None:
        others = sessions()
        async with listening(queue_database.dsn(), "a"):
            own = sessions() - others
            assert own
        async with asyncio.timeout(SOON):
            while sessions() & own:
                await asyncio.sleep(0.01)

    asyncio.run(body())


def test_after_the_server_was_away_it_listens_again_and_everybody_looks_at_once(
    fresh_postgres: Callable[..., Postgres],
) -> None:
    server = fresh_postgres()
    database = server.create_database("away")
    migrate(database.dsn())

    async def body() -> None:
        async with listening(database.dsn(), "a") as (a,):
            await asyncio.to_thread(server.restart, "immediate")
            await a.until(lambda: a.told)
            await a.until(lambda: a.woken >= 2)
            before = a.woken
            with database.connect() as connection:
                enqueue(connection, queue="a")
            await a.until(lambda: a.woken > before)

    asyncio.run(body())


def test_behind_a_pooler_that_delivers_nothing_it_says_so(
    postgres: Postgres, queue_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER", 1.0)

    async def body() -> None:
        with PgBouncer(postgres) as pooler:
            async with listening(pooler.dsn(queue_database.name) + "?pgbouncer=true", "a") as (a,):
                (said,) = a.told
                assert "delivers no notifications, so poll.listen is of no use" in said
                assert "a pooler in transaction mode lies in between" in said

    asyncio.run(body())


def test_a_server_that_stands_still_is_given_up(
    fresh_postgres: Callable[..., Postgres], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAY_AGAIN", 1.0)
    monkeypatch.setattr(module, "ANSWER", 1.0)
    server = fresh_postgres()
    database = server.create_database("still")
    migrate(database.dsn())

    async def body() -> None:
        async with listening(database.dsn(), "a") as (a,):
            server.pause()
            try:
                async with asyncio.timeout(SOON):
                    while not a.told:
                        await asyncio.sleep(0.05)
            finally:
                server.resume()

    asyncio.run(body())


def test_one_of_many_workers_writes_that_a_queue_is_listened_to(
    queue_database: Database, connection: Connection
) -> None:
    async def body() -> None:
        async with listening(queue_database.dsn(), "a"):
            await registered(connection, "a")
            before = scalar(connection, "SELECT xmin::text || ctid::text FROM soloist.listening")
            async with listening(queue_database.dsn(), "a"), listening(queue_database.dsn(), "a"):
                pass
            assert scalar(connection, "SELECT xmin::text || ctid::text FROM soloist.listening") == before
            until = scalar(connection, "SELECT until - clock_timestamp() FROM soloist.listening")
            assert timedelta(seconds=60) < until <= timedelta(seconds=90)

    asyncio.run(body())
