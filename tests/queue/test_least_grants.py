"""A table that belongs to somebody else: the check says the very grants that are missing, they are enough, and none is too much."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import tests.queue.databases as databases
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.failures import STANDALONE
from soloist.adapters.postgres.mapping_check import check_mapping
from soloist.adapters.postgres.queue_databases import SurveyedDatabase
from soloist.adapters.postgres.registration import register
from soloist.adapters.postgres.url import database_url
from soloist.domain.claims import Done, Failed, PutBack, Settled, Verdict
from soloist.domain.errors import SoloistError
from soloist.domain.findings import Severity
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.queue_validity import Answer, Schema, Unfit
from tests.postgres.server import Database as Place
from tests.queue.caller import Caller
from tests.queue.mapped_world import QUEUE, MappedWorld, in_world, spec_of
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES, UserTable

ACCEPTED = Verdict.ACCEPTED
GRANT = re.compile(r"GRANT (.+) ON (\S+) TO (\S+);")
WRITTEN = "status nextAttemptAt attempts lastAttemptAt lastError deliveredAt updatedAt"
OF_CLAIMS = "claimFence claimUntil claimLost"
LEAST = {
    "prisma": (f"id payload maxAttempts {WRITTEN}", WRITTEN),
    "prisma inline": (f"id payload maxAttempts {WRITTEN} {OF_CLAIMS}", f"{WRITTEN} {OF_CLAIMS} claimedBy"),
    "schedules": ("id status next_run_timestamp", "id"),
}
"""Columns to read and columns to write. Of a row that its application moves none is written: it is the right to lock it."""
OF_FUNCTIONS = {
    "prisma": (f"id maxAttempts {WRITTEN}", WRITTEN),
    "composite": ("tenant at seq status attempts due error", "status attempts due error"),
    "schedules": LEAST["schedules"],
}
"""Whoever works the rows by SQL functions reads what it sends with rights of its own."""
EXTERNAL: dict[str, Any] = {"deliver": {"external": {}}}


@pytest.fixture
def role(queue_database: Place, connection: Connection) -> Iterator[str]:
    """One that owns nothing and works queues."""
    name = queue_database.server.role("least_worker")
    connection.execute(f"SELECT soloist.allow_work('{name}')")
    yield name
    connection.execute(f"DROP SCHEMA IF EXISTS app CASCADE; DROP OWNED BY {name}")


async def missing(database: Database, user: UserTable, **more: Any) -> list[str]:
    """The statements that a check asks for."""
    said = await check_mapping(database, QUEUE, spec_of(user, **more))
    found = [each for each in said if each.severity is Severity.ERROR]
    assert {each.reason for each in found} <= {"SchemaUsage", "Grants"}
    return [each.message[each.message.rfind("GRANT ") :] for each in found]


def columns_of(read: str, write: str) -> set[tuple[str, str]]:
    """Verbs and columns."""
    return {("SELECT", each) for each in read.split()} | {("UPDATE", each) for each in write.split()}


def granted(connection: Connection, role: str, user: UserTable) -> dict[tuple[str, str], None]:
    """The same, in their order."""
    query = """SELECT privilege_type, column_name FROM information_schema.column_privileges
        WHERE grantee = %s AND format('%%I.%%I', table_schema, table_name) = %s ORDER BY 1, 2"""
    return dict.fromkeys((verb, column) for verb, column in connection.execute(query, (role, user.name)))


async def everything(world: MappedWorld) -> None:
    """Claims, renewals, outcomes of all kinds, dead letters; on a table without rows, and no row is left."""
    added = await world.add(6)
    rows = world.rows()
    claims = {claim.row: claim for claim in await rows.claim(6)}
    assert await rows.renew(list(claims.values())) == {claim.fence for claim in claims.values()}
    done, again, dead, back, left, lapsed = (claims[key] for key in added)
    if world.shape.table.name.table == "schedules":
        move = 'UPDATE app.schedules SET next_run_timestamp = next_run_timestamp + "interval" WHERE id = %s'
        world.connection.execute(move, (int(done.row[0]),))
    outcomes: list[Settled] = [
        Done(claim=done),
        Failed(claim=again, error="503", retry_in=timedelta(hours=1)),
        Failed(claim=dead, error="410", retry_in=None),
        PutBack(claim=back),
        PutBack(claim=left, retry_in=timedelta(hours=1)),
    ]
    assert await rows.settle(outcomes) == [ACCEPTED] * 5
    await world.lapse()
    assert {claim.row for claim in await rows.claim(6)} == {back.row, lapsed.row}
    await world.revive(dead.row)
    assert await rows.sweep() == 0


def emptied(world: MappedWorld) -> None:
    world.connection.execute(
        f"DELETE FROM {world.user.name}; DELETE FROM soloist.claims; DELETE FROM soloist.dead_rows"
    )


@pytest.mark.parametrize("label", LEAST)
def test_what_a_check_asks_for_is_enough_for_everything_and_each_part_of_it_is_needed(
    label: str, queue_database: Place, connection: Connection, role: str
) -> None:
    user = TABLES[label]

    async def body(world: MappedWorld) -> None:
        for statement in await missing(world.database, user):
            connection.execute(statement)
        assert await missing(world.database, user) == []
        rights = granted(connection, role, user)
        assert set(rights) == columns_of(*LEAST[label])
        await everything(world)
        for verb, column in rights:
            connection.execute(f'REVOKE {verb} ("{column}") ON {user.name} FROM {role}')
            (statement,) = await missing(world.database, user)
            asked = GRANT.fullmatch(statement)
            assert asked, statement
            assert asked.groups() == (f'{verb} ("{column}")', sql_name(user), f'"{role}"')
            emptied(world)
            with pytest.raises(SoloistError, match="permission denied"):
                await everything(world)
            connection.execute(statement)
        emptied(world)
        await everything(world)

    in_world(queue_database, connection, user, body, dsn=queue_database.dsn(role))


def sql_name(user: UserTable) -> str:
    schema, table = user.name.replace('"', "").split(".")
    return f'"{schema}"."{table}"'


def moved(world: MappedWorld, *pks: str) -> None:
    """Their application does so, if it is its to do."""
    if world.user.label == "schedules":
        move = 'UPDATE app.schedules SET next_run_timestamp = next_run_timestamp + "interval" WHERE id = ANY (%s)'
        world.connection.execute(move, ([*map(int, pks)],))


async def every_function(caller: Caller) -> None:
    """Each that there is for rows of a user's table."""
    world = caller.world
    await world.add(8)
    done, one, dead, again, back, *left = rows = caller.claim(8)
    assert set(caller.renew(*rows)) == {row.fence for row in rows}
    caller.one("renew_row", one, "1 min")
    moved(world, done.pk, one.pk)
    assert caller.settle((done, "Done"), (dead, "Failed", "410", None)) == ["Accepted"] * 2
    assert caller.one("complete_row", one) == "Accepted"
    assert caller.one("fail_row", again, "503", "1 hour") == "Accepted"
    assert caller.one("release_row", back) == "Accepted"
    assert set(caller.renew(*rows)) == {row.fence for row in left}
    await world.lapse()
    assert {row.pk for row in caller.claim(8)} == {back.pk, *(row.pk for row in left)}
    letter = scalar(caller.connection, "SELECT id FROM soloist.dead_rows")
    assert caller.retry(letter) == [(letter, True)]
    assert [row.pk for row in caller.claim(8)] == [dead.pk]
    if world.user.label != "schedules":
        assert caller.cancel([caller.key(back)]) == [back.pk]


@pytest.mark.parametrize("label", OF_FUNCTIONS)
def test_what_a_check_asks_for_is_enough_for_every_function_and_for_no_other_write(
    label: str, queue_database: Place, connection: Connection, role: str
) -> None:
    user = TABLES[label]

    async def body(world: MappedWorld) -> None:
        await register(world.database, QUEUE, spec_of(user, **EXTERNAL))
        theirs = databases.opened(queue_database.dsn(role))
        for statement in await missing(theirs, user, **EXTERNAL):
            connection.execute(statement)
        assert await missing(theirs, user, **EXTERNAL) == []
        await theirs.close()
        assert set(granted(connection, role, user)) == columns_of(*OF_FUNCTIONS[label])
        with queue_database.connect(role) as other:
            await every_function(Caller(other, world))
            for refused in (f"DELETE FROM {user.name}", "DELETE FROM soloist.mapped_queues"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    other.execute(refused)

    in_world(queue_database, connection, user, body)


def test_what_a_role_lacks_on_rows_of_ours_is_said_of_the_queues_that_it_works_alone_and_looked_at_anew(
    queue_database: Place, connection: Connection, role: str
) -> None:
    ours, theirs = QueueName("default", "ours"), QueueName("default", "theirs")
    spec = {"database": {"secretName": "db", "key": "uri"}, "deliver": {"http": {"url": "http://backend/"}}}
    specs = {ours: parse_queue(spec), theirs: parse_queue({**spec, **EXTERNAL})}

    async def body(database: Database) -> None:
        surveyed = SurveyedDatabase(database, boottime=lambda: 0.0)

        async def answers() -> list[Answer]:
            learned = await surveyed.learn({name: each for name, each in specs.items() if isinstance(each, QueueSpec)})
            assert [found.depth is not None for found in learned.values()] == [True, True]
            return [learned[ours].answer, learned[theirs].answer]

        connection.execute(f"REVOKE UPDATE, DELETE ON soloist.work_items FROM {role}")
        lacking, well = await answers()
        assert isinstance(well, Schema)
        assert isinstance(lacking, Unfit)
        assert "lacks DELETE ON soloist.work_items, UPDATE ON soloist.work_items. Run, as the owner" in lacking.sentence
        connection.execute(f"SELECT soloist.allow_work('{role}')")
        assert await answers() == [well, well], "no minute has passed"

    databases.with_database(queue_database.dsn(role), body)


def test_each_table_of_our_own_that_a_worker_may_not_read_is_granted_by_the_statement_that_standalone_is_told(
    own_queue_database: Place,
) -> None:
    name = own_queue_database.server.role("o'hara")
    with own_queue_database.connect() as owner:
        owner.execute("SELECT soloist.allow_work(%s)", (name,))
        kept = "SELECT relname::text FROM pg_class WHERE relnamespace = 'soloist'::regnamespace AND relkind = 'r' AND NOT has_table_privilege(%s, oid, 'SELECT')"
        tables = [table for (table,) in owner.execute(kept, (name,)).fetchall()]

    async def read(database: Database, table: str) -> None:
        await database.fetch(f"SELECT FROM soloist.{table}".encode())

    async def body() -> None:
        database = Database(database_url(own_queue_database.dsn("o%27hara")), grant=STANDALONE)
        for table in tables:
            with pytest.raises(SoloistError, match=f"permission denied for table {table}. Grant it: ") as refused:
                await read(database, table)
            statement = str(refused.value).partition("Grant it: ")[2].partition(" covers the schema")[0]
            with own_queue_database.connect(autocommit=False) as owner:
                owner.execute(statement.encode())
                assert owner.execute(
                    "SELECT has_table_privilege(%s, %s, 'SELECT')", (name, f"soloist.{table}")
                ).fetchone() == (True,)
                owner.rollback()
        await database.close()

    assert tables
    asyncio.run(body())
    own_queue_database.psql("""DROP OWNED BY "o'hara" """)
