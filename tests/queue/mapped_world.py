"""One queue on a table of the user's, as the contract of ``Rows`` wants its world, and what the tests of mapped tables do to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql

import tests.queue.databases as databases
from soloist.adapters.postgres.catalog import read_catalog
from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped import MappedRows
from soloist.adapters.postgres.mapped_dead import DeadRows
from soloist.adapters.postgres.mapped_opening import shape_of
from soloist.adapters.postgres.mapped_sql import Shape
from soloist.adapters.postgres.statements import statement
from soloist.domain.queue_parsing import Invalid, parse_queue
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.queue_tables import MappedTable
from tests.contracts.rows import NOTHING, Body, Enter, Key, Standing
from tests.postgres.server import Database as Place
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import UserTable

QUEUE = "default/q"


def spec_of(user: UserTable, **more: Any) -> QueueSpec:
    spec = parse_queue(user.manifest(**more))
    assert not isinstance(spec, Invalid), spec
    return spec


async def shape_in(database: Database, user: UserTable, **more: Any) -> Shape:
    spec = spec_of(user, **more)
    assert isinstance(spec.table, MappedTable)
    catalog = await read_catalog(database, spec.table.name)
    source = await database.fetch(statement("source"), {"name": str(spec.table.name)})
    return shape_of(QUEUE, spec, catalog, source=source[0][0])


class MappedWorld:
    """`connection` is the application's."""

    def __init__(self, database: Database, connection: Connection, user: UserTable, shape: Shape) -> None:
        self.database, self.connection, self.user, self.shape = database, connection, user, shape
        self.spec = spec_of(user)
        self.added: list[Key] = []

    def rows(
        self, *, lease: timedelta = timedelta(minutes=1), hold: bool = False, max_reclaims: int = 5, **more: Any
    ) -> MappedRows:
        queue = ClaimRules(name=QUEUE, worker="worker-1", lease=lease, hold=hold, max_reclaims=max_reclaims, **more)
        return MappedRows(self.database, self.shape, queue, self.spec.retry, boottime=time.monotonic)

    async def add(self, count: int = 1, *, due_in: timedelta = NOTHING) -> list[Key]:
        # A millisecond apart, since a column may keep no more of it: in the past what is due, or else not before its time.
        due = await self.now() + due_in
        due = due.replace(microsecond=due.microsecond // 1000 * 1000) - timedelta(
            milliseconds=count if due_in <= NOTHING else 0
        )
        text = self.user.new.format(due="(%(due)s::timestamptz + n * interval '1 ms')", count="%(count)s")
        added = [tuple(row[0]) for row in self.connection.execute(text, {"due": due, "count": count})]
        self.added += added
        return added

    async def look(self) -> dict[Key, Standing]:
        return {key: self.standing(key) for key in self.added}

    def standing(self, key: Key) -> Standing:
        row = self.row(key)
        letter = self.connection.execute(
            "SELECT reason, coalesce(last_error, '') FROM soloist.dead_rows WHERE pk = %s ORDER BY id DESC", ([*key],)
        ).fetchone()
        claimed = row is not None and self.fence(key) is not None
        status = self.shape.table.status
        values = (status.done, status.failed) if status else (None, None)
        found = None if row is None or status is None else str(row[status.column])
        if claimed:
            return Standing(state="claimed")
        if letter is not None and (found == values[1] or found not in values):
            return Standing(state="dead", reason=letter[0], error=letter[1])
        return Standing(state="done" if row is None or found == values[0] else "waiting")

    def row(self, key: Key) -> dict[str, Any] | None:
        """As JSON has it: times as text."""
        found = self.connection.execute(
            f"SELECT to_jsonb(q) FROM {self.user.name} AS q WHERE {self.where(key)}"
        ).fetchone()
        return None if found is None else found[0]

    def where(self, key: Key) -> str:
        return self.shape.match("q", [sql.Literal(text) for text in key]).as_string(self.connection)

    def fence(self, key: Key) -> int | None:
        if self.shape.inline is not None:
            row = self.row(key)
            assert row is not None
            return row[self.shape.inline.fence] and int(row[self.shape.inline.fence])
        name = self.shape.key([sql.Literal(text) for text in key]).as_string(self.connection)
        found = self.connection.execute(f"SELECT fence FROM soloist.claims WHERE key = {name}").fetchone()
        return None if found is None else found[0]

    async def lapse(self) -> None:
        inline = self.shape.inline
        if inline is None:
            self.connection.execute("UPDATE soloist.claims SET held_until = clock_timestamp() WHERE fence IS NOT NULL")
            return
        naive = "AT TIME ZONE 'UTC'" if self.shape.columns[inline.lease_until].naive else ""
        self.connection.execute(
            f"UPDATE {self.user.name} SET \"{inline.lease_until}\" = date_trunc('milliseconds', clock_timestamp()) {naive}"
            f' WHERE "{inline.fence}" IS NOT NULL'
        )

    async def now(self) -> datetime:
        moment: datetime = scalar(self.connection, "SELECT clock_timestamp()")
        return moment

    async def reach(self, moment: datetime) -> None:
        while await self.now() < moment:
            await asyncio.sleep(0.005)

    async def remove(self, key: Key) -> None:
        self.connection.execute(f"DELETE FROM {self.user.name} AS q WHERE {self.where(key)}")

    async def revive(self, key: Key) -> None:
        dead = DeadRows(self.database, self.shape)
        (letter,) = [letter for letter in await dead.oldest() if letter.row == key]
        assert await dead.retry([letter.id]) == {letter.id: True}

    async def refuse_done(self, key: Key) -> None:
        status = self.shape.table.status
        assert status is not None
        refusal = f"""
CREATE FUNCTION app.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW."{status.column}"::text = '{status.done}' THEN RAISE EXCEPTION 'this row is wanted for ever'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON {self.user.name} FOR EACH ROW WHEN ({self.where(key).replace('"q"', "OLD")})
EXECUTE FUNCTION app.refuse()"""
        self.connection.execute(refusal)

    def sidecar(self) -> int:
        """Rows of the sidecar, whatever they are."""
        count: int = scalar(self.connection, "SELECT count(*) FROM soloist.claims")
        return count


def made(connection: Connection, user: UserTable) -> None:
    connection.execute("DROP SCHEMA IF EXISTS app CASCADE")
    connection.execute("CREATE SCHEMA app")
    connection.execute(user.ddl)


def in_world(
    place: Place,
    connection: Connection,
    user: UserTable,
    body: Callable[[MappedWorld], Awaitable[None]],
    *,
    dsn: str | None = None,
    **more: Any,
) -> None:
    """Makes the table anew and runs the body."""
    made(connection, user)

    async def inside(database: Database) -> None:
        await body(MappedWorld(database, connection, user, await shape_in(database, user, **more)))

    databases.with_database(dsn or place.dsn(), inside)


def entering(place: Place, connection: Connection, user: UserTable, *, dsn: str | None = None) -> Enter:
    def enter(body: Body) -> None:
        in_world(place, connection, user, body, dsn=dsn)

    return enter


def with_retry_at_once(world: MappedWorld) -> MappedWorld:
    world.spec = replace(world.spec, retry=replace(world.spec.retry, schedule=(timedelta(0),), jitter=0.0))
    return world
