"""One database as the adapters use it: what bounds a statement, who gets a connection, and how its failures read."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.pq import Trace

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.failures import RowRefused
from soloist.domain.errors import PermanentError, TransientError
from tests.cluster.children import until
from tests.cluster.free_ports import free_ports
from tests.cluster.proxy import TcpProxy
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database as Place
from tests.postgres.server import Postgres
from tests.queue.databases import opened, with_database

SETTINGS = b"SELECT current_setting('statement_timeout'), current_setting('search_path')"
SLEEP = b"SELECT pg_sleep(30)"
OURS = "FROM pg_stat_activity WHERE application_name = 'tests'"


def count(place: Place, where: str = "") -> int:
    with place.connect() as connection:
        row = connection.execute(f"SELECT count(*) {OURS} AND datname = current_database() {where}").fetchone()  # type: ignore[call-overload]
    return int(row[0])


def run(dsn: str, query: bytes, values: Any = (), **changed: Any) -> list[Any]:
    return with_database(dsn, lambda database: database.fetch(query, values), **changed)


async def fails_after(seconds: float, what: Any) -> tuple[TransientError, float]:
    began = time.monotonic()
    async with asyncio.timeout(seconds):
        with pytest.raises(TransientError) as raised:
            await what
    return raised.value, time.monotonic() - began


# What goes along with a statement


def test_nothing_is_connected_before_the_first_statement(database: Place) -> None:
    async def body(ours: Database) -> None:
        assert count(database) == 0
        await ours.fetch(b"SELECT 1")
        assert count(database) == 1

    with_database(database.dsn(), body)


def test_a_statement_is_bound_and_sees_the_schema_of_the_url(database: Place) -> None:
    assert run(f"{database.dsn()}?schema=My%20App&socket_timeout=7", SETTINGS) == [("7s", '"My App"')]
    assert run(database.dsn(), SETTINGS) == [("10s", '"$user", public')]


def test_behind_a_transaction_pooler_nothing_is_left_in_the_session(database: Place, postgres: Postgres) -> None:
    with PgBouncer(postgres, pool=1) as pooler:
        dsn = pooler.dsn(database.name)
        assert run(f"{dsn}?schema=app&pgbouncer=true&socket_timeout=7", SETTINGS) == [("7s", "app")]
        with pooler.connect(database.name) as other:
            assert other.execute(SETTINGS.decode()).fetchone() == ("0", '"$user", public')


def test_a_pooler_that_the_url_does_not_name_is_found_out(database: Place, postgres: Postgres) -> None:
    async def body(ours: Database) -> None:
        for _ in range(3):
            found = await asyncio.gather(*(ours.fetch(b"SELECT %s::text || 'a'", (str(n),)) for n in range(30)))
            assert [row[0][0] for row in found] == [f"{n}a" for n in range(30)]

    with PgBouncer(postgres, pool=3) as pooler:
        with_database(pooler.dsn(database.name), body)
        with pooler.connect(database.name) as other:
            assert other.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
            assert other.execute(SETTINGS.decode()).fetchone() == ("0", '"$user", public')


@pytest.mark.parametrize("statement", [b"SELECT %s::int", b"SELECT 1 / (%s::int - 1)"], ids=["good", "refused"])
def test_behind_a_pooler_the_end_of_a_statement_is_the_last_that_is_said_so_no_server_is_kept_from_others(
    pgbouncer: PgBouncer, postgres: Postgres, database: Place, tmp_path: Path, statement: bytes
) -> None:
    async def body(ours: Database) -> None:
        async with ours.lent(seconds=60) as connection:
            connection.pgconn.trace(said.fileno())
            connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        with suppress(PermanentError):
            await ours.fetch(statement, (1,))
        async with ours.lent(seconds=60) as again:
            assert again is connection
            again.pgconn.untrace()

    with (tmp_path / "said").open("w+") as said, TcpProxy(pgbouncer.port) as proxy:
        proxy.delay(0.05)  # the answer comes after all that a client may have to say without it
        with_database(postgres.dsn(database.name, port=proxy.port), body)
        ours = [line.split()[2] for line in (tmp_path / "said").read_text().splitlines() if line.startswith("F")]
    assert ours == ["Parse", "Bind", "Describe", "Execute"] * 2 + ["Sync"]


@pytest.mark.parametrize("road", ["directly", "through a pooler"])
def test_a_statement_that_is_larger_than_what_a_socket_takes_at_once_is_sent_whole(
    database: Place, pgbouncer: PgBouncer, road: str
) -> None:
    text = "x" * 32_000_000

    async def body(ours: Database) -> None:
        assert await ours.fetch(b"SELECT length(%s::text)", (text,), ahead=b"SELECT 1") == [(len(text),)]

    with_database(database.dsn() if road == "directly" else pgbouncer.dsn(database.name), body)


@pytest.mark.parametrize(("query", "prepared"), [("", 1), ("?pgbouncer=true", 0), ("?statement_cache_size=0", 0)])
def test_a_statement_that_comes_often_is_prepared_where_the_url_allows(
    database: Place, query: str, prepared: int
) -> None:
    async def body(ours: Database) -> None:
        for _ in range(10):
            await ours.fetch(b"SELECT %s::int", (1,))
        found = await ours.fetch(b"SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%%::int'")
        assert found == [(prepared,)]

    with_database(f"{database.dsn()}{query}", body)


# Time


@pytest.mark.parametrize("road", ["directly", "through a pooler"])
def test_a_statement_that_takes_too_long_is_ended_by_the_server(
    database: Place, pgbouncer: PgBouncer, road: str
) -> None:
    async def body(ours: Database) -> None:
        error, took = await fails_after(25, ours.fetch(SLEEP, most_seconds=0.3))
        assert "took too long: canceling statement due to statement timeout" in str(error)
        assert not error.sent
        assert took < 15, "half of what the statement would take"
        assert await ours.fetch(b"SELECT 1") == [(1,)]

    with_database(database.dsn() if road == "directly" else pgbouncer.dsn(database.name), body)
    until(lambda: count(database, "AND state = 'active'") == 0, what="nothing runs on", timeout=60)


def test_a_server_that_falls_silent_is_given_up_and_used_again_when_it_speaks(database: Place) -> None:
    async def body(ours: Database, proxy: TcpProxy) -> None:
        await ours.fetch(b"SELECT 1")
        proxy.blackhole()
        error, took = await fails_after(60, ours.fetch(b"SELECT 2", most_seconds=0.5))
        assert "did not answer within 2.5 s" in str(error)
        assert error.sent
        assert took < 30, "it would say nothing for ever"
        proxy.forward()
        assert await ours.fetch(b"SELECT 3") == [(3,)]

    with TcpProxy(database.server.port) as proxy:
        with_database(database.dsn(port=proxy.port), lambda ours: body(ours, proxy))


def test_a_server_that_takes_connections_and_says_nothing_is_given_up(database: Place) -> None:
    async def body(ours: Database) -> None:
        error, took = await fails_after(60, ours.fetch(b"SELECT 1"))
        assert "cannot be reached" in str(error)
        assert not error.sent
        assert took < 30, "it would say nothing for ever"

    with TcpProxy(database.server.port) as proxy:
        proxy.blackhole()
        with_database(database.dsn(port=proxy.port), body, connect_timeout=2)


# Connections


def test_never_more_connections_are_open_than_the_url_allows(database: Place) -> None:
    async def body(ours: Database) -> None:
        work = [ours.fetch(b"SELECT pg_sleep(0.01)", renewal=n % 6 == 0) for n in range(60)]
        most = asyncio.to_thread(lambda: max(count(database) for _ in range(20)))
        assert (await asyncio.gather(most, *work))[0] <= 3
        assert count(database) == 3

    with_database(f"{database.dsn()}?connection_limit=3", body)


def test_a_renewal_does_not_wait_for_a_pool_that_is_used_up(database: Place) -> None:
    async def body(ours: Database) -> None:
        busy = asyncio.create_task(ours.fetch(SLEEP))
        while count(database, "AND state = 'active'") == 0:
            await asyncio.sleep(0.01)
        error, _ = await fails_after(60, ours.fetch(b"SELECT 1"))
        assert "has no connection to spare: all 1 were in use for 3 s. Raise connection_limit" in str(error)
        assert not error.sent
        async with asyncio.timeout(30):
            assert await ours.fetch(b"SELECT 2", renewal=True) == [(2,)]
        assert not busy.done()
        busy.cancel()
        with pytest.raises(asyncio.CancelledError):
            await busy
        assert await ours.fetch(b"SELECT 3") == [(3,)]

    with_database(f"{database.dsn()}?connection_limit=2", body, pool_timeout=3)
    until(lambda: count(database) == 0, what="what was cancelled is gone", timeout=60)


def test_where_the_url_allows_one_connection_a_renewal_waits_its_turn(database: Place) -> None:
    async def body(ours: Database) -> None:
        seen = await asyncio.gather(*(ours.fetch(b"SELECT pg_backend_pid()", renewal=n % 2 == 0) for n in range(9)))
        assert len({row[0][0] for row in seen}) == 1

    with_database(f"{database.dsn()}?connection_limit=1", body)


def test_idle_connections_are_closed_after_a_while_and_old_ones_replaced(database: Place) -> None:
    async def body(ours: Database) -> None:
        await asyncio.gather(*(ours.fetch(b"SELECT pg_sleep(0.05)") for _ in range(5)))
        assert count(database) == 5
        async with asyncio.timeout(90):
            while count(database) > 1:
                await ours.fetch(b"SELECT 1")
                await asyncio.sleep(0.01)

    with_database(database.dsn(), body, idle=3)

    async def renewed(ours: Database) -> None:
        (first,) = await ours.fetch(b"SELECT pg_backend_pid()")
        async with asyncio.timeout(90):
            while await ours.fetch(b"SELECT pg_backend_pid()") == [first]:
                await asyncio.sleep(0.01)
            while count(database) > 1:
                await asyncio.sleep(0.01)

    with_database(database.dsn(), renewed, lifetime=0.2)


def test_a_closed_database_gives_nobody_a_connection(database: Place) -> None:
    async def body() -> None:
        ours = opened(database.dsn())
        await ours.fetch(b"SELECT 1")
        late = asyncio.create_task(ours.fetch(b"SELECT pg_sleep(3), 1"))
        while count(database, "AND state = 'active'") == 0:
            await asyncio.sleep(0.01)
        await ours.close()
        with pytest.raises(TransientError, match="no longer used by this process"):
            await ours.fetch(b"SELECT 1")
        assert (await late)[0][1] == 1

    asyncio.run(body())
    until(lambda: count(database) == 0, what="the last connection is closed", timeout=60)


def test_a_forked_process_leaves_its_parents_connections_alone(database: Place) -> None:
    async def body(ours: Database) -> None:
        before = await ours.fetch(b"SELECT pg_backend_pid()")
        child = os.fork()
        if child == 0:
            os._exit(in_the_child(ours))
        assert (await asyncio.to_thread(os.waitpid, child, 0))[1] == 0
        assert await ours.fetch(b"SELECT pg_backend_pid()") == before

    def in_the_child(ours: Database) -> int:
        ended = ours.close().send  # runs to its end without a loop: it has nothing to wait for
        try:
            ended(None)
        except StopIteration:
            return 0
        return 1

    with_database(database.dsn(), body)


# A database that is down


def test_after_a_restart_no_statement_finds_a_dead_connection(fresh_postgres: Callable[..., Postgres]) -> None:
    server = fresh_postgres()

    async def body(ours: Database) -> None:
        await asyncio.gather(*(ours.fetch(b"SELECT pg_sleep(0.05)") for _ in range(5)))
        server.restart("immediate")
        for _ in range(10):
            assert await ours.fetch(b"SELECT 1") == [(1,)]

    with_database(server.dsn(), body)


def test_a_database_that_is_down_says_so_at_once_and_stops_no_other(
    fresh_postgres: Callable[..., Postgres], database: Place
) -> None:
    server = fresh_postgres()

    async def body(ours: Database) -> None:
        other = opened(database.dsn())
        assert await ours.fetch(b"SELECT 1") == [(1,)]
        server.stop("immediate")
        for _ in range(3):
            error, took = await fails_after(30, ours.fetch(b"SELECT 1"))
            assert "The database postgres at 127.0.0.1 cannot be reached: " in str(error)
            assert "refused" in str(error)
            assert not error.sent
            assert took < 5, "half of what is waited for a connection to spare"
            assert await other.fetch(b"SELECT 1") == [(1,)]
        server.start()
        assert await ours.fetch(b"SELECT 1") == [(1,)]
        await other.close()

    with_database(server.dsn(), body)


def test_a_connection_that_is_cut_may_have_done_it(database: Place) -> None:
    async def body(ours: Database, proxy: TcpProxy) -> None:
        await ours.fetch(b"SELECT 1")
        proxy.hold_replies()
        late = asyncio.create_task(ours.fetch(b"SELECT 2"))
        await asyncio.sleep(0)
        while count(database, "AND query = 'SELECT 2'") == 0:
            await asyncio.sleep(0.01)
        proxy.cut()
        with pytest.raises(TransientError, match="does not answer") as raised:
            await late
        assert raised.value.sent
        proxy.forward()
        assert await ours.fetch(b"SELECT 3") == [(3,)]

    with TcpProxy(database.server.port) as proxy:
        with_database(database.dsn(port=proxy.port), lambda ours: body(ours, proxy))


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        ("postgresql://postgres:s3cret@127.0.0.1:{port}/none", 'at 127.0.0.1 answers and refuses: database "none" does not exist. Correct its URL if'),
        ("postgresql://nobody-known:s3cret@127.0.0.1:{port}/postgres", 'answers and refuses: role "nobody-known" does not exist. Correct its URL if'),
        ("postgresql://postgres:s3cret@127.0.0.1:{free},127.0.0.1:{port}/none", 'answers and refuses: database "none" does not exist'),
        ("postgresql://app:s3cret@127.0.0.1:{free}/none", "cannot be reached: connection failed: connection to server"),
        ("postgresql://app:s3cret@no-such-host.invalid/none", "The database none at no-such-host.invalid cannot be reached"),
    ],
)  # fmt: skip
def test_why_a_database_cannot_be_reached_is_said_without_the_password(postgres: Postgres, dsn: str, says: str) -> None:
    with pytest.raises(TransientError) as raised:
        run(dsn.format(port=postgres.port, free=free_ports(1)[0]), b"SELECT 1", connect_timeout=3)
    assert "s3cret" not in str(raised.value)
    assert says in str(raised.value)
    assert not raised.value.sent


# What the server refuses


@pytest.mark.parametrize(
    ("query", "kind", "says"),
    [
        ("INSERT INTO t VALUES (1), (1)", RowRefused, 'refuses: duplicate key value violates unique constraint "t_pkey"'),
        ("INSERT INTO t VALUES (-1)", RowRefused, 'violates check constraint "t_n_check"'),
        ("SELECT 'x'::int", RowRefused, "refuses: invalid input syntax for type integer"),
        ("DO $$ BEGIN RAISE EXCEPTION 'not this one'; END $$", RowRefused, "refuses: not this one"),
        ("DO $$ BEGIN RAISE EXCEPTION 'ours' USING ERRCODE = 'ZZ123'; END $$", RowRefused, "refuses: ours"),
        ("SELECT soloist.nothing()", PermanentError, "does not exist. Run soloist migrate"),
        ("SELECT * FROM nowhere", PermanentError, 'refuses: relation "nowhere" does not exist.'),
        ("SELEC", PermanentError, "syntax error"),
        ("DO $$ BEGIN SET LOCAL transaction_read_only = on; INSERT INTO t VALUES (2); END $$", TransientError, "takes no writes (cannot execute INSERT in a read-only transaction): it is a standby, or"),
        ("DO $$ BEGIN RAISE 'x' USING ERRCODE = '40001'; END $$", TransientError, "cannot do that now: x"),
        ("DO $$ BEGIN RAISE 'x' USING ERRCODE = '53300'; END $$", TransientError, "cannot do that now: x"),
        ("SELECT pg_terminate_backend(pg_backend_pid())", TransientError, "cannot do that now: terminating connection"),
    ],
)  # fmt: skip
def test_what_the_server_refuses_is_a_sentence_of_the_right_kind(
    database: Place, query: str, kind: type[Exception], says: str
) -> None:
    database.psql("CREATE TABLE t (n int PRIMARY KEY CHECK (n > 0))")
    with pytest.raises(kind) as raised:
        run(database.dsn(), query.encode())
    assert type(raised.value) is kind
    assert str(raised.value).startswith(f"The database {database.name} at 127.0.0.1 ")
    assert says in str(raised.value)


def test_a_right_that_is_missing_is_named_with_its_grant(database: Place) -> None:
    database.server.role("poor")
    database.psql("CREATE TABLE t (n int)")
    with pytest.raises(
        PermanentError, match=r"permission denied for table t\. Grant it: SELECT soloist\.allow_work\('poor'\)"
    ):
        run(database.dsn("poor"), b"SELECT * FROM t")


def test_a_refused_statement_leaves_its_connection_usable(database: Place) -> None:
    async def body(ours: Database) -> None:
        before = await ours.fetch(b"SELECT pg_backend_pid()")
        for seconds in (None, 5.0):
            with pytest.raises(RowRefused):
                await ours.fetch(b"SELECT 1 / 0", most_seconds=seconds)
        assert await ours.fetch(b"SELECT pg_backend_pid()") == before

    with_database(database.dsn(), body)


def test_statements_of_a_transaction_commit_together_or_not_at_all(database: Place) -> None:
    database.psql("CREATE TABLE t (n int)")

    async def all_but_the_last(ours: Database) -> None:
        async with ours.transaction(most_seconds=7) as connection:
            assert await (await connection.execute(SETTINGS)).fetchone() == ("7s", '"$user", public')
            await connection.execute("INSERT INTO t VALUES (3)")
            await connection.execute("SELECT 1 / 0")

    async def body(ours: Database) -> None:
        async with ours.transaction() as connection:
            await connection.execute("INSERT INTO t VALUES (1)")
            await connection.execute("INSERT INTO t VALUES (2)")
        with pytest.raises(RowRefused):
            await all_but_the_last(ours)
        assert await ours.fetch(b"SELECT n FROM t ORDER BY n") == [(1,), (2,)]
        with pytest.raises(TransientError, match="took too long"):
            async with ours.transaction(most_seconds=0.2) as connection:
                await connection.execute(SLEEP)

    with_database(database.dsn(), body)


def test_errors_keep_their_cause(database: Place) -> None:
    with pytest.raises(RowRefused) as raised:
        run(database.dsn(), b"SELECT 1 / 0")
    assert isinstance(raised.value.__cause__, psycopg.errors.DivisionByZero)
    assert raised.value.sqlstate == "22012"
