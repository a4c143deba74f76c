"""A connection to a database that holds the product's schema, and the workers of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.postgres.server import Database
from tests.queue.workers import crew, receiver  # noqa: F401 - fixtures


@pytest.fixture
def connection(queue_database: Database) -> Iterator[psycopg.Connection[Any]]:
    with queue_database.connect() as opened:
        yield opened
