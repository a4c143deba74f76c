"""The sql action on a real server: done once, with its record, and every failure a known one that says what to do."""

from __future__ import annotations

import asyncio
import resource
from datetime import timedelta
from typing import Any

import pytest

from soloist.domain.actions import FailedKnown, KeyRef, Outcome, SqlAction, Succeeded
from soloist.domain.errors import TransientError
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database, Postgres
from tests.queue.rows import Connection, scalar
from tests.queue.runs import FIRST, JOB, action_of, leading, play

NOTE = "INSERT INTO notes (words) VALUES ('done')"


@pytest.fixture
def notes(queue_database: Database, connection: Connection) -> Connection:
    connection.execute("CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY, words text CHECK (words <> 'bad'))")
    return connection


def noted(connection: Connection) -> list[str | None]:
    return [row[0] for row in connection.execute("SELECT words FROM notes ORDER BY id")]


def launched(database: Database | str, action: Any, **more: Any) -> Outcome:
    async def scene() -> Outcome:
        async with leading(database if isinstance(database, str) else database.dsn()) as leader:
            return await leader.launch(action, **more)

    return play(scene())


def failure(database: Database | str, action: Any, **more: Any) -> FailedKnown:
    outcome = launched(database, action, **more)
    assert isinstance(outcome, FailedKnown), outcome
    return outcome


def test_the_effect_and_the_record_of_the_run_are_there_together(queue_database: Database, notes: Connection) -> None:
    outcome = launched(queue_database, NOTE)
    assert isinstance(outcome, Succeeded)
    assert outcome.response is not None
    assert (outcome.response.status_code, outcome.response.excerpt) == (None, "INSERT 0 1")
    assert noted(notes) == ["done"]
    row = notes.execute("SELECT job_uid, run_key, tick, epoch, outcome->>'said' FROM soloist.job_runs").fetchone()
    assert row == (JOB, f"{JOB}/2026-03-01T00:00:00Z", FIRST, 1, "INSERT 0 1")
    assert scalar(notes, "SELECT (shard, epoch, holder)::text FROM soloist.leader_epoch") == (
        "(cluster/soloist/soloist,1,pod-1)"
    )


@pytest.mark.parametrize("tick", [0, None], ids=["scheduled", "manual"])
def test_a_run_that_was_done_is_not_done_again(queue_database: Database, notes: Connection, tick: int | None) -> None:
    async def scene() -> None:
        async with leading(queue_database.dsn(), 1) as leader, leading(queue_database.dsn(), 2) as other:
            await leader.launch(NOTE, tick)
            again = [await leader.launch(NOTE, tick, attempt=2), await other.launch(NOTE, tick)]
            for outcome in again:
                assert isinstance(outcome, Succeeded)
                assert outcome.message == "It was committed under fence 1."
                assert outcome.response is not None
                assert outcome.response.excerpt == "INSERT 0 1"
            await other.launch(NOTE, 1)

    play(scene())
    assert noted(notes) == ["done", "done"]


def test_one_of_many_that_are_at_one_run_does_it(queue_database: Database, notes: Connection) -> None:
    async def scene() -> list[Outcome]:
        async with leading(queue_database.dsn()) as one, leading(queue_database.dsn()) as two:
            slow = "WITH x AS (SELECT pg_sleep(0.05)) INSERT INTO notes (words) SELECT 'done' FROM x"
            return await asyncio.gather(*(leader.launch(slow) for leader in [one, two] * 4))

    assert all(isinstance(outcome, Succeeded) for outcome in play(scene()))
    assert noted(notes) == ["done"]


def test_values_are_bound_with_their_types_and_never_become_text_of_the_statement(
    queue_database: Database, notes: Connection
) -> None:
    action = action_of(
        sql={
            "statement": """INSERT INTO notes (words) SELECT jsonb_build_object('text', :text::text, 'n', :n, 'big', :big,
                'x', :x, 'yes', :yes, 'at', :at::timestamptz, 'due', now() - make_interval(days => :n) < now(),
                'fence', :fence::bigint, 'percent', '%s %', 'pair', ':n')::text""",
            "parameters": {
                "text": "'); DROP TABLE notes; --",
                "n": 30,
                "big": 2**62,
                "x": 1.5,
                "yes": True,
                "at": "{scheduledTime}",
                "fence": "{fence}",
            },
        }
    )
    launched(queue_database, action)
    (text,) = noted(notes)
    assert text is not None
    assert scalar(notes, "SELECT %s::jsonb - 'at'", (text,)) == {
        "text": "'); DROP TABLE notes; --",
        "n": 30,
        "big": 2**62,
        "x": 1.5,
        "yes": True,
        "due": True,
        "fence": 1,
        "percent": "%s %",
        "pair": ":n",
    }
    assert scalar(notes, "SELECT (%s::jsonb->>'at')::timestamptz", (text,)) == FIRST


def test_a_manual_run_has_no_scheduled_time(queue_database: Database, notes: Connection) -> None:
    sql = {"statement": "INSERT INTO notes (words) VALUES (:at::timestamptz::text)"}
    launched(queue_database, action_of(sql={**sql, "parameters": {"at": "{scheduledTime}"}}), tick=None)
    assert noted(notes) == [None]


@pytest.mark.parametrize(
    ("statement", "code", "retryable"),
    [
        ("SELEC 1", "42601", False),
        ("SELECT 1 FROM nowhere", "42P01", False),
        ("SELECT 1 / 0", "22012", False),
        ("INSERT INTO notes (words) VALUES ('bad')", "23514", True),
        ("DO $$ BEGIN RAISE EXCEPTION 'not yet'; END $$", "P0001", True),
        ("DO $$ BEGIN COMMIT; END $$", "2D000", True),
        ("SELECT 1; SELECT 2", "42601", False),
        ("VACUUM", "25001", True),
    ],
)
def test_what_the_server_refuses_is_rolled_back_with_its_record(
    queue_database: Database, notes: Connection, statement: str, code: str, retryable: bool
) -> None:
    failed = failure(queue_database, statement)
    assert (failed.reason, failed.retryable) == ("StatementFailed", retryable)
    assert f"SQLSTATE {code}" in failed.message
    assert noted(notes) == []
    assert scalar(notes, "SELECT count(*) FROM soloist.job_runs") == 0


def test_what_was_put_off_to_the_commit_is_done_before_it_and_may_refuse(
    queue_database: Database, notes: Connection
) -> None:
    notes.execute(
        "ALTER TABLE notes ADD UNIQUE (id), ADD also bigint REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED"
    )
    failed = failure(queue_database, "INSERT INTO notes (words, also) VALUES ('done', 77)")
    assert "SQLSTATE 23503" in failed.message
    assert noted(notes) == []


def test_a_statement_has_as_long_as_the_run(queue_database: Database, notes: Connection) -> None:
    failed = failure(queue_database, "SELECT pg_sleep(60)", timeout=2.5)
    assert (failed.reason, failed.retryable) == ("StatementTimedOut", True)
    assert "timeoutSeconds (2.5 s)" in failed.message


def test_a_wait_for_a_lock_is_told_as_one(queue_database: Database, notes: Connection) -> None:
    with queue_database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE notes")
        failed = failure(queue_database, NOTE, timeout=3)
    assert "SQLSTATE 55P03" in failed.message
    assert failed.retryable


def test_a_result_of_any_size_passes_through(queue_database: Database, notes: Connection) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = launched(queue_database, "SELECT repeat('x', 200) FROM generate_series(1, 500000)")
    assert isinstance(outcome, Succeeded)
    assert outcome.response is not None
    assert outcome.response.excerpt == "SELECT 500000"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "KB, of 100 MB that came"


@pytest.mark.parametrize("statement", ["COPY notes FROM STDIN", "COPY notes TO STDOUT"])
def test_a_copy_from_or_to_the_client_is_refused(queue_database: Database, notes: Connection, statement: str) -> None:
    async def scene() -> None:
        async with leading(queue_database.dsn()) as leader:
            failed = await leader.launch(statement)
            assert isinstance(failed, FailedKnown)
            assert failed.message.startswith("COPY from or to the client is not for a job")
            assert not failed.retryable
            assert isinstance(await leader.launch(NOTE, 1), Succeeded)

    play(scene())


def test_nothing_is_left_in_the_session(queue_database: Database, notes: Connection) -> None:
    """Neither after a commit nor after a roll-back; the same connection goes on to other jobs."""
    settings = "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE name = ANY(%s)"
    names = ["application_name", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]

    async def scene() -> None:
        async with leading(queue_database.dsn() + "?connection_limit=1") as leader:
            ledger, _ = await leader.ledgers.of(leader.order(""))
            before = await ledger.database.fetch(settings.encode(), (names[:1] + names[2:],))
            for statement in (NOTE, "SELECT 1 / 0"):
                await leader.launch(statement, 1)
            assert await ledger.database.fetch(settings.encode(), (names[:1] + names[2:],)) == before

    play(scene())


def test_a_transaction_is_bound_in_time_and_its_commit_is_on_disk(own_queue_database: Database) -> None:
    with own_queue_database.connect() as connection:
        connection.execute("CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY, words text)")
        connection.execute(f"ALTER DATABASE {own_queue_database.name} SET synchronous_commit = off")
        inside = (
            "INSERT INTO notes (words) SELECT string_agg(name || '=' || setting, ' ' ORDER BY name)"
            " FROM pg_settings WHERE name = ANY('{statement_timeout,lock_timeout,"
            "idle_in_transaction_session_timeout,client_connection_check_interval,synchronous_commit}')"
        )
        launched(own_queue_database, inside)
        assert noted(connection) == [
            "client_connection_check_interval=500 idle_in_transaction_session_timeout=2000 lock_timeout=27000"
            " statement_timeout=30000 synchronous_commit=on"
        ]


def test_a_schema_in_the_url_is_the_search_path(queue_database: Database, notes: Connection) -> None:
    notes.execute('DROP SCHEMA IF EXISTS "My Shop" CASCADE; CREATE SCHEMA "My Shop"')
    notes.execute('CREATE TABLE "My Shop".notes (words text)')
    launched(queue_database.dsn() + "?schema=My%20Shop", NOTE)
    assert noted(notes) == []
    assert scalar(notes, 'SELECT words FROM "My Shop".notes') == "done"
    notes.execute('DROP SCHEMA "My Shop" CASCADE')


def test_it_works_through_a_transaction_pooler(
    queue_database: Database, notes: Connection, pgbouncer: PgBouncer
) -> None:
    async def scene() -> None:
        async with leading(pgbouncer.dsn(queue_database.name) + "?pgbouncer=true") as leader:
            outcomes = await asyncio.gather(*(leader.launch(NOTE, tick) for tick in range(20)))
            assert all(isinstance(outcome, Succeeded) for outcome in outcomes), outcomes
            assert isinstance(await leader.found(3), Succeeded)
            assert await leader.found(77) is None

    play(scene())
    assert noted(notes) == ["done"] * 20


def test_it_works_on_a_newer_server(newer_postgres: Postgres) -> None:
    from soloist.adapters.postgres.migrate import migrate

    database = newer_postgres.create_database("newer_runs")
    try:
        migrate(database.dsn())
        with database.connect() as connection:
            connection.execute("CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY, words text)")
            assert isinstance(launched(database, NOTE), Succeeded)
            assert noted(connection) == ["done"]
    finally:
        newer_postgres.drop_database(database.name)


# Failures that are nobody's statement


def test_a_database_that_cannot_be_reached_is_a_known_failure_that_says_so(queue_database: Database) -> None:
    failed = failure("postgresql://me:s3cret@127.0.0.1:1/shop", NOTE)
    assert (failed.reason, failed.retryable) == ("DatabaseUnavailable", True)
    assert failed.message.startswith("The database shop at 127.0.0.1 cannot be reached: ")
    assert "s3cret" not in failed.message


def test_a_database_without_the_schema_says_how_to_get_it(database: Database) -> None:
    failed = failure(database, NOTE)
    assert (failed.reason, failed.retryable) == ("DatabaseUnavailable", True)
    assert "Run soloist migrate" in failed.message


def test_a_role_without_grants_says_which_it_needs(queue_database: Database, postgres: Postgres) -> None:
    postgres.role("nobody_much")
    failed = failure(queue_database.dsn("nobody_much"), NOTE)
    assert "permission denied for schema soloist" in failed.message
    assert "SELECT soloist.allow_work('nobody_much')" in failed.message


def test_a_role_with_those_grants_needs_no_more(own_queue_database: Database, postgres: Postgres) -> None:
    role = postgres.role("worker_only")
    with own_queue_database.connect() as connection:
        connection.execute("SELECT soloist.allow_work(%s)", (role,))

    async def scene() -> None:
        async with leading(own_queue_database.dsn(role)) as leader:
            assert isinstance(await leader.launch("SELECT 1"), Succeeded)
            assert isinstance(await leader.found(), Succeeded)
            row = action_of(enqueue={"queue": "emails"})
            assert isinstance(await leader.launch(row, 1), Succeeded)

    play(scene())


def test_a_url_that_cannot_be_read_names_the_secret_and_shows_nothing_of_it(queue_database: Database) -> None:
    failed = failure("postgresql://me:s3cret@host/shop?connection_limits=3", NOTE)
    assert (failed.reason, failed.retryable) == ("DatabaseNotFound", True)
    assert failed.message.startswith("Secret shop/db, key uri: The database URL has a parameter")
    assert "connection_limit" in failed.message
    assert "s3cret" not in failed.message


def test_a_secret_that_is_not_there_is_named(queue_database: Database) -> None:
    absent = SqlAction(database=KeyRef(kind="Secret", name="absent", key="uri"), statement=NOTE)
    failed = failure(queue_database, absent)
    assert (failed.reason, failed.retryable) == ("DatabaseNotFound", True)
    assert failed.message.startswith("Secret shop/absent does not exist")


def test_a_term_that_is_no_longer_trusted_begins_nothing(queue_database: Database, notes: Connection) -> None:
    async def scene() -> None:
        async with leading(queue_database.dsn(), trusted=lambda: False) as leader:
            with pytest.raises(TransientError) as raised:
                await leader.launch(NOTE)
            assert not raised.value.sent

    play(scene())
    assert noted(notes) == []


def test_a_url_that_changes_is_followed_and_the_former_database_let_go(
    queue_database: Database, own_queue_database: Database, notes: Connection
) -> None:
    urls = [own_queue_database.dsn()]
    with own_queue_database.connect() as connection:
        connection.execute("CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY, words text)")

        async def scene() -> None:
            async with leading(lambda: urls[0]) as leader:
                await leader.launch(NOTE)
                assert sessions(connection, own_queue_database.name) == 1
                urls[0] = queue_database.dsn()
                await leader.launch(NOTE, 1)
                async with asyncio.timeout(60):
                    while sessions(connection, own_queue_database.name):
                        await asyncio.sleep(0.02)

        play(scene())
        assert noted(notes) == noted(connection) == ["done"]


def sessions(connection: Connection, name: str) -> int:
    """Those of leaders, in that database."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND application_name LIKE 'soloist%%'"
    count: int = scalar(connection, query, (name,))
    return count


# The ledger's own life


def test_old_rows_are_pruned_now_and_then_and_their_runs_stay_done(queue_database: Database, notes: Connection) -> None:
    async def scene() -> None:
        async with leading(queue_database.dsn(), 1) as leader:
            for tick in range(3):
                await leader.launch(NOTE, tick)
        notes.execute(
            "UPDATE soloist.job_runs SET recorded_at = now() - interval '8 days' WHERE tick < %s",
            (FIRST + timedelta(minutes=2),),
        )
        async with leading(queue_database.dsn(), 2) as leader:
            await leader.launch(NOTE, 3)
            async with asyncio.timeout(60):
                while scalar(notes, "SELECT count(*) FROM soloist.job_runs") > 2:
                    await asyncio.sleep(0.02)
            again = await leader.launch(NOTE, 0)
            assert isinstance(again, Succeeded)
            assert "rows of later times only" in again.message
            assert isinstance(await leader.found(1), Succeeded)
            notes.execute("UPDATE soloist.job_runs SET recorded_at = now() - interval '8 days'")
            await leader.launch(NOTE, 4)
            assert scalar(notes, "SELECT count(*) FROM soloist.job_runs") == 3, "not at every run"

    play(scene())
    assert noted(notes) == ["done"] * 5


def test_a_database_that_has_lost_the_epoch_is_given_it_again(queue_database: Database, notes: Connection) -> None:
    async def scene() -> None:
        async with leading(queue_database.dsn(), 7) as leader:
            await leader.launch(NOTE)
            notes.execute("DELETE FROM soloist.leader_epoch")
            assert isinstance(await leader.launch(NOTE, 1), Succeeded)

    play(scene())
    assert noted(notes) == ["done", "done"]
    assert scalar(notes, "SELECT epoch FROM soloist.leader_epoch") == 7


def test_two_installations_on_one_database_do_not_stop_each_other(queue_database: Database, notes: Connection) -> None:
    async def scene() -> None:
        async with leading(queue_database.dsn(), 9) as one, leading(queue_database.dsn(), 3, shard="other") as two:
            for tick in range(2):
                assert isinstance(await one.launch(NOTE, 2 * tick), Succeeded)
                assert isinstance(await two.launch(NOTE, 2 * tick + 1), Succeeded)

    play(scene())
    assert noted(notes) == ["done"] * 4


def test_a_cancelled_transaction_leaves_nothing(queue_database: Database, notes: Connection) -> None:
    async def scene() -> None:
        async with leading(queue_database.dsn()) as leader:
            slow = "WITH x AS (SELECT pg_sleep(60)) INSERT INTO notes (words) SELECT 'done' FROM x"
            task = asyncio.create_task(leader.launch(slow))
            async with asyncio.timeout(60):
                while "ledger" not in leader.stages:
                    await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait({task}, timeout=60)
            assert task.cancelled()
            assert isinstance(await leader.launch(NOTE), Succeeded)

    play(scene())
    assert noted(notes) == ["done"]


def test_psycopg_is_asked_for_nothing_that_a_prepared_statement_would_need(queue_database: Database) -> None:
    """The same statement many times: behind a pooler a statement that is prepared by name may be another client's."""

    async def scene() -> None:
        async with leading(queue_database.dsn() + "?pgbouncer=true&connection_limit=1") as leader:
            for tick in range(12):
                await leader.launch("SELECT 1", tick)
            ledger, _ = await leader.ledgers.of(leader.order(""))
            assert await ledger.database.fetch(b"SELECT count(*) FROM pg_prepared_statements") == [(0,)]

    play(scene())
