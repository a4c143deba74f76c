"""The rows of soloist.work_items keep the contract of ``Rows``, also through a transaction pooler; and what is their own."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg import sql

import tests.queue.databases as databases
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.managed import ManagedQueue, ManagedRows
from soloist.loops.row_ports import Rows
from tests.contracts.rows import NOTHING, Body, Enter, Key, RowsFacts, Standing
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database as Place
from tests.queue.rows import Connection, enqueue, items, lapse, scalar

REFUSAL = """
CREATE FUNCTION public.not_this_one() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.id = {id} AND current_query() LIKE '%soloist.complete%' THEN RAISE EXCEPTION 'row % is wanted for ever', OLD.id; END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER not_this_one BEFORE DELETE ON soloist.work_items FOR EACH ROW EXECUTE FUNCTION public.not_this_one()"""


class ManagedWorld:
    """A queue of the managed table; what the test does to it goes through a connection of its own."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database, self.connection = database, connection
        self.added: list[Key] = []

    def rows(self, *, lease: timedelta = timedelta(minutes=1), hold: bool = False, max_reclaims: int = 5) -> Rows:
        queue = ManagedQueue(name="q", worker="worker-1", lease=lease, hold=hold, max_reclaims=max_reclaims)
        return ManagedRows(self.database, queue, boottime=time.monotonic)

    async def add(self, count: int = 1, *, due_in: timedelta = NOTHING) -> list[Key]:
        due = await self.now() + due_in
        added = [(str(key),) for key in enqueue(self.connection, count, due_at=due)]
        self.added += added
        return added

    async def look(self) -> dict[Key, Standing]:
        dead = {(str(row["id"]),): standing(row) for row in items(self.connection, "dead_items")}
        held = {(str(row["id"]),): row["fence"] is not None for row in items(self.connection)}
        alive = {key: Standing(state="claimed" if claimed else "waiting") for key, claimed in held.items()}
        return {key: (dead | alive).get(key, Standing(state="done")) for key in self.added}

    async def lapse(self) -> None:
        lapse(self.connection)

    async def now(self) -> datetime:
        moment: datetime = scalar(self.connection, "SELECT clock_timestamp()")
        return moment

    async def reach(self, moment: datetime) -> None:
        while await self.now() < moment:
            await asyncio.sleep(0.005)

    async def remove(self, key: Key) -> None:
        self.connection.execute("SELECT soloist.cancel(%s)", ([int(key[0])],))

    async def revive(self, key: Key) -> None:
        self.connection.execute("SELECT soloist.retry_dead(%s)", ([int(key[0])],))

    async def refuse_done(self, key: Key) -> None:
        self.connection.execute(sql.SQL(REFUSAL).format(id=int(key[0])))


def standing(row: dict[str, Any]) -> Standing:
    return Standing(state="dead", reason=row["reason"], error=row["last_error"] or "")


def entering(dsn: str, connection: Connection) -> Enter:
    def enter(body: Body) -> None:
        async def inside(database: Database) -> None:
            await body(ManagedWorld(database, connection))

        databases.with_database(dsn, inside)

    return enter


class TestManagedRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Any:
        yield entering(queue_database.dsn(), connection)
        connection.execute("DROP FUNCTION IF EXISTS public.not_this_one CASCADE")


class TestManagedRowsBehindATransactionPooler(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection, pgbouncer: PgBouncer) -> Any:
        yield entering(pgbouncer.dsn(queue_database.name), connection)
        connection.execute("DROP FUNCTION IF EXISTS public.not_this_one CASCADE")
