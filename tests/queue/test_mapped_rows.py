"""The rows of tables as applications have them keep the contract of ``Rows``, claimed by a sidecar and by columns of their own."""

from __future__ import annotations

import pytest

from tests.contracts.rows import Enter, RowsFacts
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import entering
from tests.queue.rows import Connection
from tests.queue.user_tables import TABLES


class TestPrismaRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["prisma"])


class TestPrismaRowsBehindATransactionPooler(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection, pgbouncer: PgBouncer) -> Enter:
        return entering(queue_database, connection, TABLES["prisma"], dsn=pgbouncer.dsn(queue_database.name))


class TestPrismaRowsInline(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["prisma inline"])


class TestSnakeRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["snake"])


class TestSnakeRowsInline(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["snake inline"])


class TestUuidRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["uuid"])


class TestCompositeRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["composite"])


class TestCompositeRowsInline(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["composite inline"])
