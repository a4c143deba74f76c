"""What applications write into columns, and how databases are set up, beyond what anybody had in mind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

import tests.queue.databases as databases
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapping_check import check_mapping
from soloist.adapters.postgres.migrate import migrate
from soloist.domain.claims import Done, Failed, Verdict
from tests.postgres.server import Database as Place
from tests.postgres.server import Postgres
from tests.queue.mapped_world import QUEUE, MappedWorld, in_world, shape_in, spec_of
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import UserTable, inline

ACCEPTED, REFUSED = Verdict.ACCEPTED, Verdict.REFUSED
DDL = """
CREATE TABLE app.t (
    id {key} PRIMARY KEY, status text NOT NULL DEFAULT 'new', due timestamptz DEFAULT now(), attempts {count} NOT NULL DEFAULT 0,
    error text, body text NOT NULL DEFAULT 'x', fence bigint, lease timestamptz, lost int
);
CREATE INDEX ON app.t (status, due)"""
TABLE: dict[str, Any] = {
    "name": "app.t",
    "id": "id",
    "dueAt": "due",
    "status": {"column": "status", "pending": ["new"], "done": "done", "failed": "failed"},
    "attempts": "attempts",
    "record": {"lastError": "error"},
}
CLAIMS = {"Sidecar": TABLE, "Inline": inline(TABLE, fence="fence", leaseUntil="lease", reclaims="lost")}
both = pytest.mark.parametrize("claim", CLAIMS)


def user(claim: str, *, key: str = "int", count: str = "int", columns: str = "id", values: str = "(1)") -> UserTable:
    """Rows of these columns."""
    ddl = f"{DDL.format(key=key, count=count)}; INSERT INTO app.t ({columns}) VALUES {values}"
    return UserTable(label=claim, ddl=ddl, table=CLAIMS[claim], new="", body="body")


async def worked(world: MappedWorld, rows: int, error: str = "500") -> None:
    """Each of them is claimed, fails, is claimed again and done."""
    worker = world.rows()
    for number in range(2):
        claims = await worker.claim(100)
        assert len(claims) == rows
        assert await worker.renew(claims) == {claim.fence for claim in claims}
        at_once = timedelta(0)
        said = [Done(claim=each) if number else Failed(claim=each, error=error, retry_in=at_once) for each in claims]
        assert await worker.settle(said) == [ACCEPTED] * rows
    assert await worker.claim(100) == []
    assert world.sidecar() == 0
    assert scalar(world.connection, "SELECT count(*) FROM app.t WHERE status = 'done'") == rows


@both
@pytest.mark.parametrize("key", ["date", "timestamptz", "timestamp"])
def test_keys_before_the_first_year_are_told_from_those_after_it(
    queue_database: Place, connection: Connection, claim: str, key: str
) -> None:
    values = "('0044-03-15'), ('0044-03-15 BC'), ('infinity'), ('-infinity'), ('20000-01-01'), ('2026-01-01')"
    in_world(queue_database, connection, user(claim, key=key, values=values), lambda world: worked(world, 6))


@both
def test_a_due_time_before_the_first_year_is_one_to_be_worked_once(
    queue_database: Place, connection: Connection, claim: str
) -> None:
    values = "(1, '0044-03-15 BC'), (2, '4714-11-24 00:00+00 BC'), (3, '-infinity'), (4, '0001-01-01'), (5, now())"
    table = user(claim, columns="id, due", values=values)
    in_world(queue_database, connection, table, lambda world: worked(world, 5))


@both
@pytest.mark.parametrize(
    ("count", "most"), [("int", 2**31 - 1), ("bigint", 2**63 - 1), ("smallint", 2**15 - 1), ("bigint", 2**31)]
)
def test_a_row_with_as_many_attempts_as_its_column_holds_is_given_up_with_a_letter(
    queue_database: Place, connection: Connection, claim: str, count: str, most: int
) -> None:
    async def body(world: MappedWorld) -> None:
        (free,) = await world.rows().claim(10)
        assert free.row == ("2",)
        assert scalar(connection, "SELECT status FROM app.t WHERE id = 1") == "failed"
        assert scalar(connection, "SELECT (pk, reason)::text FROM soloist.dead_rows") == "({1},Failed)"

    table = user(claim, count=count, columns="id, attempts", values=f"(1, {most}), (2, -1)")
    in_world(queue_database, connection, table, body)


@both
def test_a_row_that_a_policy_refuses_takes_none_of_its_batch_along(
    queue_database: Place, connection: Connection, claim: str
) -> None:
    role = queue_database.server.role("policed_worker")

    async def body(world: MappedWorld) -> None:
        claims = await world.rows().claim(10)
        verdicts = await world.rows().settle([Done(claim=each) for each in sorted(claims, key=lambda one: one.row)])
        assert verdicts == [ACCEPTED, ACCEPTED, REFUSED, ACCEPTED, ACCEPTED]
        assert "row-level security" in scalar(connection, "SELECT last_error FROM soloist.dead_rows")

    table = user(claim, values="(1), (2), (3), (4), (5)")
    policed = f"""; GRANT USAGE ON SCHEMA app TO {role}; GRANT SELECT, UPDATE ON app.t TO {role};
SELECT soloist.allow_work('{role}'); ALTER TABLE app.t ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON app.t TO {role} USING (true) WITH CHECK (NOT (id = 3 AND status = 'done'))"""
    table = UserTable(label=claim, ddl=table.ddl + policed, table=table.table, new="", body="body")
    try:
        in_world(queue_database, connection, table, body, dsn=queue_database.dsn(role))
    finally:
        connection.execute(f"DROP SCHEMA app CASCADE; DROP OWNED BY {role}")


def test_columns_that_change_their_types_under_a_worker_are_worked_on(
    queue_database: Place, connection: Connection
) -> None:
    """From the sixth time on a statement is a prepared one, which may not give another type than before."""

    async def body(world: MappedWorld) -> None:
        worker = world.rows()
        for change in ("lost TYPE bigint", "id TYPE bigint", "body TYPE varchar(9)", "due TYPE timestamptz(3)"):
            for _ in range(8):
                (claim,) = await worker.claim(1)
                assert await worker.settle([Done(claim=claim)]) == [ACCEPTED]
            connection.execute(f"ALTER TABLE app.t ALTER COLUMN {change}")
        (claim,) = await worker.claim(1)
        assert await worker.settle([Done(claim=claim)]) == [ACCEPTED]

    values = ", ".join(f"({number})" for number in range(40))
    in_world(queue_database, connection, user("Inline", values=values), body)


def test_a_table_that_others_inherit_from_is_refused_since_no_index_keeps_its_keys_apart(
    queue_database: Place, connection: Connection
) -> None:
    table = user("Sidecar")

    async def body(world: MappedWorld) -> None:
        connection.execute("CREATE TABLE app.child () INHERITS (app.t); INSERT INTO app.child (id) VALUES (1)")
        (found, *_) = await check_mapping(world.database, QUEUE, spec_of(table))
        assert found.reason == "Inherited"

    in_world(queue_database, connection, table, body)


@pytest.fixture
def encoded(postgres: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    """The DSN of a database of that encoding, with the product's schema."""
    name = f"in_{request.param.lower()}"
    make = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING {} LOCALE 'C'")
    with postgres.connect() as opened:
        opened.execute(make.format(sql.Identifier(name), sql.Literal(request.param)))
    dsn = postgres.dsn(name)
    migrate(dsn)
    yield dsn
    postgres.drop_database(name)


@pytest.mark.parametrize(
    ("encoded", "name", "found"),
    [("LATIN1", "größe", "\\u5927"), ("EUC_JP", "大きさ", "大"), ("SQL_ASCII", "größe", "大")],
    indirect=["encoded"],
)
def test_names_and_texts_are_what_they_are_whatever_the_database_is_kept_in(
    encoded: str, name: str, found: str
) -> None:
    table = {**TABLE, "attempts": name}
    ddl = DDL.format(key="text", count="int").replace("attempts", f'"{name}"')
    made = UserTable(label=name, ddl=ddl, table=table, new="", body="body")
    with psycopg.connect(encoded, autocommit=True, client_encoding="UTF8") as connection:
        connection.execute("CREATE SCHEMA app")
        connection.execute(ddl)
        connection.execute("INSERT INTO app.t (id, body) VALUES (%s, %s)", (name, name))

        async def body(database: Database) -> None:
            world = MappedWorld(database, connection, made, await shape_in(database, made))
            (claim,) = await world.rows().claim(1)
            assert (claim.row, claim.payload) == ((name,), name)
            failed = Failed(claim=claim, error="500: 大", retry_in=timedelta(0))
            assert await world.rows().settle([failed]) == [ACCEPTED]
            assert scalar(connection, "SELECT error FROM app.t") == f"500: {found}"
            (claim,) = await world.rows().claim(1)
            assert await world.rows().settle([Done(claim=claim)]) == [ACCEPTED]

        databases.with_database(encoded, body)
