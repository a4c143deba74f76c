"""The schema and how it comes to be: alike on every road, whole or not at all, and never behind the program's back."""

from __future__ import annotations

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from soloist.adapters.postgres.migrate import Migration, known, look, migrate, script
from soloist.domain.errors import PermanentError, TransientError
from soloist.shells.cli import cli
from tests.cluster.children import until
from tests.docs.pages import DOCS
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database, Postgres
from tests.queue.schema_dump import CHECKSUMS, SCHEMA, checksums, dump

NOTHING = ("SELECT FROM pg_namespace WHERE nspname = 'soloist'", 0)
LIFTS = 730945321600001
"""The advisory lock under which the fence is lifted."""
LOCKS = """
SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database AND d.datname = current_database()
WHERE l.locktype = 'advisory' AND l.granted = %s"""
BEHIND = "SELECT setval('soloist.fence', 17)"
LIFTED = "SELECT soloist.lift_fence() >= extract(epoch FROM now()) * 1000000 - 100000"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner(env={"SOLOIST_DATABASE": ""}).invoke(cli, ["migrate", *arguments])
    return result.exit_code, result.output


def rows_of(database: Database, query: str) -> int:
    with database.connect() as connection:
        return connection.execute(query).rowcount


def test_the_schema_is_what_the_golden_dump_says(queue_database: Database) -> None:
    assert dump(queue_database) == SCHEMA.read_text(), "python -m tests.queue.schema_dump writes it anew"


def test_a_migration_is_never_edited_once_it_is_released() -> None:
    assert checksums() == CHECKSUMS.read_text(), "add a migration instead; an unreleased one: tests.queue.schema_dump"


def test_versions_are_counted_from_one_without_a_gap() -> None:
    assert [migration.version for migration in known()] == list(range(1, len(known()) + 1))


@pytest.mark.parametrize("version", range(1, len(known())))
def test_every_earlier_version_is_upgraded_to_the_same_schema(
    postgres: Postgres, database: Database, version: int
) -> None:
    migrate(database.dsn(), known()[:version])
    assert [migration.version for migration in look(database.dsn())] == list(range(version + 1, len(known()) + 1))
    migrate(database.dsn())
    assert dump(database) == SCHEMA.read_text()


def test_several_that_start_at_once_migrate_once(database: Database) -> None:
    with ThreadPoolExecutor(4) as pool:
        applied = [done.result() for done in [pool.submit(migrate, database.dsn()) for _ in range(4)]]
    assert sorted(map(len, applied)) == [0, 0, 0, len(known())]
    assert rows_of(database, "SELECT FROM soloist.migrations") == len(known())


def test_a_migration_that_fails_leaves_nothing_of_any(database: Database) -> None:
    broken = Migration(version=len(known()) + 1, name="broken", text="CREATE TABLE soloist.more (); SELECT 1 / 0;")
    with pytest.raises(PermanentError, match="division by zero"):
        migrate(database.dsn(), [*known(), broken])
    assert rows_of(database, NOTHING[0]) == NOTHING[1]


def test_a_database_of_a_newer_release_is_refused_and_left_alone(own_queue_database: Database) -> None:
    with own_queue_database.connect() as connection:
        connection.execute("INSERT INTO soloist.migrations (version, name, checksum) VALUES (9999, 'later', 'x')")
    with pytest.raises(PermanentError, match=rf"at version 9999, and this program knows versions up to {len(known())}"):
        migrate(own_queue_database.dsn())


def test_an_applied_migration_with_another_text_is_refused_by_name(own_queue_database: Database) -> None:
    edited = [replace(known()[0], text=known()[0].text + "\n"), *known()[1:]]
    with pytest.raises(PermanentError, match="Migration 0001 schema was applied to the database with another text"):
        migrate(own_queue_database.dsn(), edited)


def test_a_missing_row_of_the_record_is_refused(own_queue_database: Database) -> None:
    with own_queue_database.connect() as connection:
        connection.execute("DELETE FROM soloist.migrations WHERE version = 2")
    with pytest.raises(PermanentError, match="lacks version 2"):
        migrate(own_queue_database.dsn())


def test_the_printed_sql_makes_the_same_schema_and_record(database: Database) -> None:
    code, text = run("--sql")
    assert code == 0
    database.psql(text)
    assert dump(database) == SCHEMA.read_text()
    assert migrate(database.dsn()) == ()


def test_the_printed_sql_starts_where_the_database_is(database: Database) -> None:
    migrate(database.dsn(), known()[:2])
    code, text = run("--sql", "--database", database.dsn())
    assert code == 0
    assert "CREATE SCHEMA" not in text
    database.psql(text)
    assert run("--sql", "--database", database.dsn()) == (0, "-- The schema soloist is up to date.\n")


def test_the_command_says_what_it_would_do_does_it_and_says_when_nothing_is_left(database: Database) -> None:
    titles = "".join(f"  {migration.title}\n" for migration in known())
    assert run("--dry-run", "--database", database.dsn()) == (0, f"Would apply:\n{titles}")
    assert rows_of(database, NOTHING[0]) == NOTHING[1]
    assert run("--database", database.dsn()) == (0, f"Applied:\n{titles}")
    assert run("--database", database.dsn()) == (0, "The schema soloist is up to date.\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "Name the database: --database postgresql://user@host/name, or SOLOIST_DATABASE."),
        (("--dry-run", "--sql"), 2, "Write --dry-run or --sql, not both."),
        (("--database", "postgresql://u:secret@127.0.0.1:1/x"), 1, "The database x at 127.0.0.1 cannot be reached: "),
        (("--database", "postgresql://u:secret@[/x"), 1, "The database URL's host cannot be read"),
        (
            ("--database", "nonsense://u:secret@h/x"),
            1,
            "The database URL begins with nonsense://, which is not PostgreSQL's",
        ),
        (
            ("--database", "postgresql://u:secret@h/x?sslmodus=require"),
            1,
            'a parameter "sslmodus", which is not known: write sslmode.',
        ),
    ],
)
def test_what_cannot_be_done_is_a_sentence_without_the_password(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    exit_code, output = run(*arguments)
    assert exit_code == code
    assert said in output
    assert "secret" not in output


def test_the_url_that_an_application_on_prisma_has_is_taken(database: Database) -> None:
    assert run("--database", f"{database.dsn()}?schema=public&pgbouncer=true")[1].startswith("Applied:\n")


def test_an_unreachable_database_is_worth_another_try() -> None:
    with pytest.raises(TransientError) as raised:
        migrate("postgresql://nobody@127.0.0.1:1/x")
    assert raised.value.sent is False


def test_a_role_without_rights_is_told_so(postgres: Postgres, database: Database) -> None:
    with pytest.raises(PermanentError, match="permission denied for database"):
        migrate(database.dsn(postgres.role("plain")))


def test_a_schema_that_an_administrator_made_for_a_role_is_enough(postgres: Postgres, database: Database) -> None:
    database.psql(f"CREATE SCHEMA soloist AUTHORIZATION {postgres.role('plain')}")
    migrate(database.dsn("plain"))
    assert dump(database) == SCHEMA.read_text()


def test_it_migrates_through_a_transaction_pooler(pgbouncer: PgBouncer, database: Database) -> None:
    assert len(migrate(pgbouncer.dsn(database.name))) == len(known())
    assert migrate(pgbouncer.dsn(database.name)) == ()


def test_a_newer_postgresql_takes_the_schema_and_works(newer_postgres: Postgres) -> None:
    made = newer_postgres.create_database("newer")
    migrate(made.dsn())
    assert dump(made) == SCHEMA.read_text()
    with made.connect() as connection:
        assert one(connection, "SELECT soloist.enqueue('q', '{}')") == 1
        fence = one(connection, "SELECT fence FROM soloist.claim('q')")
        assert one(connection, "SELECT soloist.complete(ARRAY[1::bigint], ARRAY[%s])", fence) == 1


# The fence


def test_the_fence_begins_at_the_present(connection: psycopg.Connection[Any]) -> None:
    assert one(connection, "SELECT soloist.next_fence() >= extract(epoch FROM now()) * 1000000")


def test_a_fence_found_behind_is_lifted_by_the_next_that_asks(own_queue_database: Database) -> None:
    with own_queue_database.connect() as connection:
        handed_out = one(connection, "SELECT soloist.next_fence()")
        connection.execute("SELECT setval('soloist.fence', 17)")
        assert one(connection, "SELECT soloist.next_fence()") > handed_out


def test_a_fence_ahead_of_the_clock_is_never_set_back(own_queue_database: Database) -> None:
    with own_queue_database.connect() as connection:
        ahead = one(connection, "SELECT setval('soloist.fence', soloist.next_fence() + 3600000000)")
        assert one(connection, "SELECT soloist.lift_fence()") == ahead
        assert one(connection, "SELECT soloist.next_fence()") == ahead + 1


def test_a_lift_that_is_cancelled_as_the_lock_is_granted_holds_up_no_other(own_queue_database: Database) -> None:
    connect = own_queue_database.connect
    with connect() as cancelled, ThreadPoolExecutor(1) as pool, connect() as other:
        process = cancelled.info.backend_pid
        other.execute("SELECT pg_advisory_lock(%s)", (LIFTS,))
        other.execute(BEHIND)
        lift = pool.submit(cancelled.execute, LIFTED)
        until(lambda: one(other, LOCKS, False), what="the lift waits for the lock", timeout=60)
        os.kill(process, signal.SIGSTOP)  # so that it learns of the grant and of the cancel at the same time
        try:
            assert one(other, "SELECT pg_advisory_unlock(%s)", LIFTS)
            assert one(other, "SELECT pg_cancel_backend(%s)", process)
        finally:
            os.kill(process, signal.SIGCONT)
        with pytest.raises(psycopg.errors.QueryCanceled):
            lift.result(60)
        assert one(other, LOCKS, True) == 0
        other.execute("SET lock_timeout = '10s'")
        assert one(other, LIFTED)
        assert one(cancelled, LIFTED)


def test_a_lift_holds_up_no_other_until_the_end_of_its_transaction_and_outlasts_its_rollback(
    own_queue_database: Database,
) -> None:
    with own_queue_database.connect() as other, own_queue_database.connect() as lasting:
        lasting.execute("BEGIN")
        lasting.execute(BEHIND)
        assert one(lasting, LIFTED)
        assert one(other, LOCKS, True) == 0
        lasting.execute("ROLLBACK")
        assert one(other, "SELECT last_value > 17 FROM soloist.fence")


def test_a_restored_dump_hands_out_no_fence_twice(
    postgres: Postgres, queue_database: Database, database: Database
) -> None:
    with queue_database.connect() as connection:
        connection.execute("SELECT soloist.enqueue_many('q', array_agg('{}'::jsonb)) FROM generate_series(1, 400)")
        copy = postgres.run("pg_dump", queue_database.dsn())
        handed_out = {fence for (fence,) in connection.execute("SELECT fence FROM soloist.claim('q', 400)")}
    database.psql(copy)

    def claim() -> list[int]:
        with database.connect() as restored:
            return [fence for (fence,) in restored.execute("SELECT fence FROM soloist.claim('q', 100)")]

    with ThreadPoolExecutor(4) as pool:
        again = [fence for claimed in [pool.submit(claim) for _ in range(4)] for fence in claimed.result()]
    assert len(handed_out) == len(again) == len(set(again)) == 400
    assert min(again) > max(handed_out)


# Rights


NAMED = re.compile(r"soloist\.(\w+)|`(\w+)[(`]")
CALLED = re.compile(r"soloist\.(\w+)\(")
OF_USERS_TABLES = ("_row", "_rows")
"""How functions end that need rights on a table of the user's too; those have a test of their own."""


@dataclass
class Role:
    """A connection that remembers what was called."""

    connection: psycopg.Connection[Any]
    called: set[str] = field(default_factory=set)

    def ask(self, query: str, *values: object) -> list[Any]:
        self.called.update(CALLED.findall(query))
        return self.connection.execute(query, values).fetchall()

    def refused(self, query: str) -> None:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            self.ask(query)


def named_in_the_docs(connection: psycopg.Connection[Any]) -> set[str]:
    """Functions of soloist that the pages speak of, but for those that grant."""
    pages = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("queues.md", "tables.md", "transactions.md"))
    made = connection.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'soloist'::regnamespace").fetchall()
    words = {word for pair in NAMED.findall(pages) for word in pair}
    return {name for (name,) in made if name in words and not name.startswith("allow_")}


def test_a_role_that_may_enqueue_can_do_nothing_else(postgres: Postgres, own_queue_database: Database) -> None:
    own_queue_database.psql(f"SELECT soloist.allow_enqueue('{postgres.role('producer')}')")
    with own_queue_database.connect("producer") as connection:
        role = Role(connection)
        assert role.ask("SELECT soloist.enqueue('q', '{}', unique_key => 'a')") != [(None,)]
        assert role.ask("SELECT soloist.enqueue('q', '{}', unique_key => 'a')") == [(None,)]
        assert role.ask("SELECT count(*) FROM soloist.enqueue_many('q', ARRAY['{}', '{}']::jsonb[])") == [(2,)]
        for refused in (
            "claim('q')", "cancel(ARRAY[1])", "cancel_key('q', 'a')", "retry_dead('q')", "purge_dead('q', '0')",
            "depths(ARRAY['q'])", "once('k', 1)", "checkpoint('n')", "claim_rows('q')", "next_fence()", "work_items",
        ):  # fmt: skip
            role.refused(f"SELECT * FROM soloist.{refused}")


def test_a_role_that_may_work_needs_nothing_more_for_any_function_of_the_docs(
    postgres: Postgres, own_queue_database: Database
) -> None:
    own_queue_database.psql(f"SELECT soloist.allow_work('{postgres.role('hand')}')")
    with own_queue_database.connect("hand") as connection:
        role = Role(connection)
        role.ask("SELECT soloist.enqueue_many('q', array_fill('{}'::jsonb, ARRAY[8]))")
        assert role.ask("SELECT soloist.enqueue('q', '{}', now() + '1 day', 'a')")
        claims = role.ask("SELECT id, fence FROM soloist.claim('q', 8, hold => true)")
        ids, fences = [row[0] for row in claims], [row[1] for row in claims]
        assert len(role.ask("SELECT soloist.renew(%s, %s, '1 min')", ids, fences)) == 8
        assert role.ask("SELECT soloist.complete(%s, %s)", ids[:1], fences[:1])
        assert role.ask("SELECT soloist.fail(%s, %s, '{x}', '{null}')", ids[1:2], fences[1:2])
        assert role.ask("SELECT soloist.release(%s, %s)", ids[2:3], fences[2:3])
        settled = "SELECT soloist.settle(%s, %s, '{Interrupted}', '{x}', '{null}')"
        assert role.ask(settled, ids[3:4], fences[3:4])
        role.ask("SELECT soloist.renew_or_raise(%s, %s, '1 min')", ids[4], fences[4])
        role.ask("SELECT soloist.complete_or_raise(%s, %s)", ids[4], fences[4])
        role.ask("SELECT soloist.fail_or_raise(%s, %s, 'x', NULL)", ids[5], fences[5])
        role.ask("SELECT soloist.release_or_raise(%s, %s)", ids[6], fences[6])
        depths = "SELECT ready, scheduled, in_flight, dead FROM soloist.depths(ARRAY['q'])"
        assert role.ask(depths) == [(2, 1, 1, 3)]
        assert role.ask("SELECT soloist.cancel(%s)", ids[7:]) == [(ids[7],)]
        assert role.ask("SELECT soloist.cancel_key('q', 'a')")
        assert role.ask("SELECT soloist.retry_dead(%s)", ids[1:2]) == [(ids[1],)]
        assert role.ask("SELECT soloist.retry_dead('q', 1)")
        assert role.ask("SELECT soloist.purge_dead('q', '0')")
        role.ask("SELECT soloist.once('k', 1), soloist.checkpoint('n', '1', 1), soloist.take_epoch('s', 1)")
        role.ask("SELECT soloist.record_run('j', 'k', now(), 1), soloist.check_epoch('s', 1)")
        role.ask("SELECT soloist.prune_runs('0'), soloist.prune_once('0'), max(version) FROM soloist.migrations")
        missing = named_in_the_docs(connection) - role.called
        assert {name for name in missing if not name.endswith(OF_USERS_TABLES)} == set()
        role.refused("DELETE FROM soloist.migrations")


def test_nobody_else_has_any_right(postgres: Postgres, queue_database: Database) -> None:
    with queue_database.connect(postgres.role("stranger")) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for schema soloist"):
            connection.execute("SELECT soloist.enqueue('q', '{}')")


def test_every_function_pins_its_search_path_and_runs_with_its_callers_rights(
    connection: psycopg.Connection[Any],
) -> None:
    loose = connection.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'soloist'::regnamespace"
        " AND (prosecdef OR NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(proconfig, '{}')))"
    ).fetchall()
    assert loose == []


def test_the_scripts_order_is_that_of_the_versions() -> None:
    text = script(known())
    assert [text.index(f"-- {each.title}\n") for each in known()] == sorted(
        text.index(f"-- {m.title}\n") for m in known()
    )


def one(connection: psycopg.Connection[Any], query: str, *values: object) -> Any:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return row[0]
