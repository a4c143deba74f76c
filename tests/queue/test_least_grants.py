"""A table that belongs to somebody else: the check says the very grants that are missing, they are enough, and none is too much."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapping_check import check_mapping
from soloist.domain.claims import Done, Failed, PutBack, Settled, Verdict
from soloist.domain.errors import SoloistError
from soloist.domain.findings import Severity
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import QUEUE, MappedWorld, in_world, spec_of
from tests.queue.rows import Connection
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


@pytest.fixture
def role(queue_database: Place, connection: Connection) -> Iterator[str]:
    """One that owns nothing and works queues."""
    name = queue_database.server.role("least_worker")
    connection.execute(f"SELECT soloist.allow_work('{name}')")
    yield name
    connection.execute(f"DROP SCHEMA IF EXISTS app CASCADE; DROP OWNED BY {name}")


async def missing(database: Database, user: UserTable) -> list[str]:
    """The statements that a check asks for."""
    found = [each for each in await check_mapping(database, QUEUE, spec_of(user)) if each.severity is Severity.ERROR]
    assert {each.reason for each in found} <= {"SchemaUsage", "Grants"}
    return [each.message[each.message.rfind("GRANT ") :] for each in found]


def granted(connection: Connection, role: str, user: UserTable) -> dict[tuple[str, str], None]:
    """Verbs and columns."""
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
        read, write = (set(columns.split()) for columns in LEAST[label])
        rights = granted(connection, role, user)
        assert set(rights) == {("SELECT", each) for each in read} | {("UPDATE", each) for each in write}
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
