"""Databases that hold the product's schema, copied from a template that is migrated once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from soloist.adapters.postgres.migrate import migrate
from tests.postgres.server import Database, Postgres


@pytest.fixture(scope="session")
def migrated_template(postgres: Postgres) -> str:
    template = postgres.create_database("soloist_template")
    migrate(template.dsn())
    return template.name


@pytest.fixture(scope="session")
def shared_queue_database(postgres: Postgres, migrated_template: str) -> Database:
    return postgres.create_database("q_shared", template=migrated_template)


@pytest.fixture(scope="session")
def shared_newer_queue_database(newer_postgres: Postgres) -> Database:
    made = newer_postgres.create_database("q_shared")
    migrate(made.dsn())
    return made


@pytest.fixture
def queue_database(shared_queue_database: Database) -> Database:
    """Emptied, not made anew: that takes seconds where a disk is slow. For rows only; the schema stays as it is."""
    return emptied(shared_queue_database)


@pytest.fixture
def newer_queue_database(shared_newer_queue_database: Database) -> Database:
    """The same on the server of a newer major version."""
    return emptied(shared_newer_queue_database)


def emptied(database: Database) -> Database:
    with database.connect() as connection:
        connection.execute("DROP SCHEMA IF EXISTS app CASCADE")
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename), schemaname FROM pg_tables"
            " WHERE schemaname IN ('public', 'soloist') AND tablename <> 'migrations'"
        ).fetchall()
        for name, schema in tables:
            connection.execute(f"DELETE FROM {name}" if schema == "soloist" else f"DROP TABLE {name}")
    return database


@pytest.fixture
def own_queue_database(postgres: Postgres, migrated_template: str) -> Iterator[Database]:
    """One that a test may change as it likes: grants, schema, the record of migrations."""
    made = postgres.create_database(f"q_{uuid.uuid4().hex[:12]}", template=migrated_template)
    yield made
    postgres.drop_database(made.name)
