"""A database that holds the product's schema, for each test a fresh one, copied from a template that is migrated once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from soloist.adapters.postgres.migrate import migrate
from tests.postgres.server import Database, Postgres


@pytest.fixture(scope="session")
def migrated_template(postgres: Postgres) -> str:
    template = postgres.create_database("soloist_template")
    migrate(template.dsn())
    return template.name


@pytest.fixture
def queue_database(postgres: Postgres, migrated_template: str) -> Iterator[Database]:
    made = postgres.create_database(f"q_{uuid.uuid4().hex[:12]}", template=migrated_template)
    yield made
    postgres.drop_database(made.name)


@pytest.fixture
def connection(queue_database: Database) -> Iterator[psycopg.Connection[Any]]:
    with queue_database.connect() as opened:
        yield opened
