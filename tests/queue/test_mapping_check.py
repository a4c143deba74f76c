"""What a check says of real tables, as their DDL makes them, and that it leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tests.queue.databases as databases
from soloist.adapters.postgres.catalog import read_catalog
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped_opening import open_mapped
from soloist.adapters.postgres.mapping_check import check_mapping
from soloist.domain.catalog import Catalog
from soloist.domain.errors import PermanentError
from soloist.domain.findings import Finding, Severity
from soloist.domain.queue_tables import TableName
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import QUEUE, MappedWorld, in_world, made, spec_of
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES, UserTable

PRISMA = TABLES["prisma"]


@pytest.fixture
def role(queue_database: Place, connection: Connection) -> Iterator[str]:
    """One that owns nothing."""
    name = queue_database.server.role("mapping_worker")
    yield name
    connection.execute(f"DROP SCHEMA IF EXISTS app CASCADE; DROP OWNED BY {name}")


def check(place: Place, user: UserTable = PRISMA, *, dsn: str | None = None, **more: Any) -> list[Finding]:
    return databases.with_database(
        dsn or place.dsn(), lambda database: check_mapping(database, QUEUE, spec_of(user, **more))
    )


def reasons(findings: list[Finding], *severities: Severity) -> list[str]:
    return [found.reason for found in findings if found.severity in (severities or tuple(Severity))]


@pytest.mark.parametrize("label", TABLES)
def test_tables_that_are_well_made_have_neither_error_nor_warning(
    label: str, queue_database: Place, connection: Connection
) -> None:
    made(connection, TABLES[label])
    assert [found for found in check(queue_database, TABLES[label]) if found.severity is not Severity.NOTE] == []


def test_the_catalog_says_what_the_ddl_said(queue_database: Place, connection: Connection) -> None:
    made(connection, PRISMA)
    connection.execute("CREATE DOMAIN app.short AS varchar(12) NOT NULL")
    connection.execute('ALTER TABLE app."WebhookDelivery" ADD COLUMN "kind" app.short DEFAULT \'x\'')
    connection.execute('ALTER TABLE app."WebhookDelivery" ADD COLUMN n int GENERATED ALWAYS AS (attempts + 1) STORED')
    catalog: Catalog = databases.with_database(
        queue_database.dsn(), lambda database: read_catalog(database, TableName("app", "WebhookDelivery"))
    )
    columns = catalog.columns
    assert (catalog.kind, catalog.owned, catalog.owner) == ("r", True, "postgres")
    assert columns["status"].labels == ("PENDING", "DELIVERED", "FAILED")
    assert (columns["status"].type_schema, columns["status"].type_name) == ("app", "DeliveryStatus")
    assert (columns["nextAttemptAt"].base, columns["nextAttemptAt"].scale) == ("timestamp", 3)
    assert (columns["kind"].base, columns["kind"].length, columns["kind"].not_null) == ("varchar", 12, True)
    assert columns["n"].generated
    assert not columns["updatedAt"].has_default
    assert [index.columns for index in catalog.indexes if index.name.endswith("idx")] == [("status", "nextAttemptAt")]
    assert catalog.triggers == ()


def test_a_table_that_was_meant_is_named(queue_database: Place, connection: Connection) -> None:
    made(connection, PRISMA)
    wrong = UserTable(label="wrong", ddl="", new="", table={**PRISMA.table, "name": "app.webhook_delivery"})
    (error,) = check(queue_database, wrong)
    assert error.message == (
        'spec.table.name: there is no table app.webhook_delivery in the database: write app."WebhookDelivery".'
    )


def test_the_grants_that_are_missing_are_named_and_once_run_they_suffice(
    queue_database: Place, connection: Connection, role: str
) -> None:
    made(connection, PRISMA)
    for reason in ("SchemaRights", "SchemaUsage", "Grants"):
        connection.execute(f"GRANT USAGE ON SCHEMA soloist TO {role}")
        errors = [
            found for found in check(queue_database, dsn=queue_database.dsn(role)) if found.severity is Severity.ERROR
        ]
        (error,) = [found for found in errors if found.reason == reason]
        remedy = error.message[max(error.message.rfind("GRANT "), error.message.rfind("SELECT soloist.")) :]
        connection.execute(remedy)
    assert reasons(check(queue_database, dsn=queue_database.dsn(role)), Severity.ERROR) == []
    granted = scalar(
        connection,
        "SELECT array_agg(column_name::text ORDER BY column_name::text) FROM information_schema.column_privileges"
        " WHERE grantee = %s AND table_name = 'WebhookDelivery' AND privilege_type = 'UPDATE'",
        (role,),
    )
    assert granted == [
        "attempts", "deliveredAt", "lastAttemptAt", "lastError", "nextAttemptAt", "status", "updatedAt",
    ]  # fmt: skip


def test_a_missing_index_is_said_with_its_price_and_once_made_it_is_used(
    queue_database: Place, connection: Connection
) -> None:
    made(connection, PRISMA)
    connection.execute('DROP INDEX app."WebhookDelivery_status_nextAttemptAt_idx"')
    (warning,) = [found for found in check(queue_database) if found.severity is Severity.WARNING]
    assert warning.reason == "DueIndexMissing"
    assert "Seq Scan" in warning.message
    connection.execute(warning.message[warning.message.rfind("CREATE INDEX") :])
    assert reasons(check(queue_database), Severity.WARNING) == []


def test_a_check_leaves_no_trace(queue_database: Place, connection: Connection) -> None:
    made(connection, PRISMA)
    connection.execute(PRISMA.new.format(due="now()", count=5))
    before = state(connection)
    check(queue_database)
    assert state(connection) == before


def state(connection: Connection) -> list[Any]:
    queries = [
        'SELECT jsonb_agg(to_jsonb(q) ORDER BY id) FROM app."WebhookDelivery" AS q',
        "SELECT last_value FROM soloist.fence",
        "SELECT count(*) FROM soloist.sources",
        "SELECT count(*) FROM soloist.claims",
    ]
    return [scalar(connection, query) for query in queries]


def test_a_pooler_and_row_level_security_are_seen(
    queue_database: Place, connection: Connection, pgbouncer: PgBouncer, role: str
) -> None:
    made(connection, PRISMA)
    assert "Pooler" not in reasons(check(queue_database))
    assert "Pooler" in reasons(check(queue_database, dsn=pgbouncer.dsn(queue_database.name)))
    connection.execute(f"SELECT soloist.allow_work('{role}')")
    connection.execute(f'GRANT USAGE ON SCHEMA app TO {role}; GRANT ALL ON app."WebhookDelivery" TO {role}')
    connection.execute('ALTER TABLE app."WebhookDelivery" ENABLE ROW LEVEL SECURITY')
    found = check(queue_database, dsn=queue_database.dsn(role))
    assert reasons(found, Severity.WARNING) == ["RowSecurity"]
    assert "NotOwner" in reasons(found, Severity.NOTE)
    connection.execute(found[0].message[found[0].message.rfind("ALTER ROLE") :])
    assert reasons(check(queue_database, dsn=queue_database.dsn(role)), Severity.WARNING) == []
    connection.execute(f"ALTER ROLE {role} NOBYPASSRLS")


def test_a_role_whose_transactions_are_of_another_kind_is_told(
    queue_database: Place, connection: Connection, role: str
) -> None:
    made(connection, PRISMA)
    connection.execute(f"SELECT soloist.allow_work('{role}')")
    connection.execute(f'GRANT USAGE ON SCHEMA app TO {role}; GRANT ALL ON app."WebhookDelivery" TO {role}')
    for setting, reason in (
        ("default_transaction_isolation = 'repeatable read'", "Isolation"),
        ("default_transaction_read_only = on", "ReadOnly"),
    ):
        connection.execute(f"ALTER ROLE {role} SET {setting}")
        (error,) = [
            found for found in check(queue_database, dsn=queue_database.dsn(role)) if found.severity is Severity.ERROR
        ]
        assert error.reason == reason
        connection.execute(error.message[error.message.rfind("ALTER ROLE") :])
        assert reasons(check(queue_database, dsn=queue_database.dsn(role)), Severity.ERROR) == []


def test_a_queue_with_an_error_is_not_opened(queue_database: Place, connection: Connection) -> None:
    made(connection, PRISMA)
    connection.execute('ALTER TABLE app."WebhookDelivery" DROP COLUMN attempts')

    async def opening(database: Database) -> None:
        await open_mapped(database, QUEUE, spec_of(PRISMA), worker="w", boottime=lambda: 0.0)

    with pytest.raises(PermanentError, match="has no column attempts"):
        databases.with_database(queue_database.dsn(), opening)


PARKED = {
    "schedules": """
INSERT INTO soloist.claims (key, held_until, due)
SELECT s.id || ':' || q.id, 'infinity', q.next_run_timestamp AT TIME ZONE 'UTC'
FROM app.schedules AS q, soloist.sources AS s WHERE s.name = 'app.schedules'""",
    "prisma": """
INSERT INTO soloist.claims (key, held_until, due)
SELECT s.id || ':' || q."id", 'infinity', q."nextAttemptAt" AT TIME ZONE 'UTC'
FROM app."WebhookDelivery" AS q, soloist.sources AS s WHERE s.name = 'app."WebhookDelivery"'""",
    "prisma inline": """
WITH q AS (UPDATE app."WebhookDelivery" SET "claimUntil" = 'infinity' RETURNING "id", "nextAttemptAt")
INSERT INTO soloist.claims (key, held_until, due)
SELECT s.id || ':' || q."id", 'infinity', q."nextAttemptAt" AT TIME ZONE 'UTC'
FROM q, soloist.sources AS s WHERE s.name = 'app."WebhookDelivery"'""",
}


@pytest.mark.parametrize("label", PARKED)
def test_thousands_that_were_given_up_and_are_still_due_are_said_with_what_to_do(
    label: str, queue_database: Place, connection: Connection
) -> None:
    user = TABLES[label]

    async def body(world: MappedWorld) -> None:
        await world.add(1200)
        assert await given_up(world) == []
        connection.execute(PARKED[label])
        (message,) = await given_up(world)
        assert message.startswith(f"1,200 rows of {user.name} were given up and are still due, so claims walk past all")
        if label == "schedules":
            # What it says is what onDead takes, and those that are there already go the same way.
            remedy = message[message.index("UPDATE") : message.index("}")].replace("…", "given up")
            cursor = connection.cursor()
            keys = [key for (key,) in connection.execute("SELECT id FROM app.schedules").fetchall()]
            cursor.executemany(remedy.replace(":id", "%s"), [(str(key),) for key in keys])
            rows = world.rows()
            while await rows.sweep():
                pass
            assert await given_up(world) == []
        else:
            assert message.endswith("run soloist queue retry, or give them the status FAILED.")

    in_world(queue_database, connection, user, body)


async def given_up(world: MappedWorld) -> list[str]:
    found = await check_mapping(world.database, QUEUE, spec_of(world.user))
    return [finding.message for finding in found if finding.reason == "GivenUpStillDue"]
