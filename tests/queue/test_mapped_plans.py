"""The plans of claims and outcomes on tables of 200,000 due rows, and of a million, are the ones they need, whatever the statistics say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import tests.queue.databases as databases
from soloist.adapters.postgres.mapped_sql import BY_INDEX
from soloist.adapters.postgres.mapped_statements import Statements, composed
from tests.postgres.server import Database as Place
from tests.postgres.server import Postgres
from tests.queue.mapped_world import MappedWorld, made, shape_in
from tests.queue.plans import Plan, explained
from tests.queue.rows import Connection
from tests.queue.user_tables import TABLES

ROWS, MANY = 200_000, 1_000_000
FEW = 900
"""Pages for ten rows: some levels of some indexes for each. A scan would touch thousands."""
FORBIDDEN = ("Seq Scan", "Bitmap", "Merge")
LABELS = ["prisma", "prisma inline", "snake inline", "uuid", "composite", "composite inline", "schedules"]
IN_BULK = [pytest.param((label, MANY), marks=pytest.mark.long) for label in ("prisma", "prisma inline")]
DUE_INDEX = {
    "prisma": "WebhookDelivery_status_nextAttemptAt_idx",
    "snake": "deliveries_due",
    "uuid": "jobs_due",
    "composite": "tenant_events_due",
    "schedules": "schedules_due",
}
KEY_INDEX = {
    "prisma": "WebhookDelivery_pkey",
    "snake": "deliveries_pkey",
    "uuid": "jobs_pkey",
    "composite": "tenant_events_pkey",
    "schedules": "schedules_pkey",
}


class Crowded:
    """One table with its statements."""

    def __init__(self, connection: Connection, world: MappedWorld) -> None:
        self.connection, self.world = connection, world
        self.statements: Statements = composed(world.shape)
        self.keys = len(world.shape.table.id)

    def run(self, ahead: bytes, query: bytes, values: dict[str, Any], *, generic: bool) -> tuple[list[Any], Plan]:
        """What it gave, and its plan: one made for these values, or one kept for any."""
        with self.connection.transaction():
            self.connection.execute(ahead)
            mode = "force_generic_plan" if generic else "force_custom_plan"
            self.connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
            cursor = self.connection.execute(query, values, prepare=True)
            rows = cursor.fetchall()
            self.connection.execute("SAVEPOINT before")
            plans = explained(self.connection, query, values, table=self.world.shape.table.name.table, prepare=True)
            self.connection.execute("ROLLBACK TO before")
        (plan,) = plans
        return rows, plan

    def claim(self, *, generic: bool, after: str = "-infinity") -> tuple[list[Any], Plan]:
        values = asking(10, after)
        return self.run(self.statements.planner, self.statements.claims[0], values, generic=generic)

    def bury(self, *, generic: bool, limit: int) -> tuple[list[Any], Plan]:
        """Claims those of ten whose attempts are so many, or whose claims ended so."""
        values = asking(10, "-infinity") | {"limit": limit, "hold": False, "max_reclaims": 5}
        return self.run(self.statements.planner, self.statements.burials[0], values, generic=generic)

    def do(self, count: int, after: str) -> str:
        """Claims as many from there and completes them; gives when the last of them was due."""
        with self.connection.transaction():
            self.connection.execute(self.statements.planner)
            rows = self.connection.execute(self.statements.claims[0], asking(count, after)).fetchall()
        with self.connection.transaction():
            self.connection.execute(BY_INDEX)
            done = self.connection.execute(self.statements.complete, self.told(rows)).fetchall()
        assert len(rows) == len(done) == count
        return str(max(row[4] for row in rows))

    def told(self, rows: list[Any]) -> dict[str, Any]:
        """What any outcome of them says."""
        values: dict[str, Any] = {f"r{n}": [row[5 + n] for row in rows] for n in range(self.keys)}
        values |= {"fence": [row[0] for row in rows], "due": [row[4] for row in rows]}
        return values | {"attempts": [0] * len(rows), "status": [row[-1] for row in rows]}

    def settle(self, rows: list[Any], *, done: bool, generic: bool) -> Plan:
        values = self.told(rows) | {
            "outcome": ["Again", "Dead"] * 5,
            "counted": [True] * 10,
            "error": ["503"] * 10,
            "reason": ["Failed"] * 10,
        }
        values |= {"wait": [timedelta(hours=1)] * 10, "attempt": [2] * 10, "reclaims": [0] * 10}
        query = self.statements.complete if done else self.statements.settle
        return self.run(BY_INDEX, query, values, generic=generic)[1]


def asking(most: int, after: str) -> dict[str, Any]:
    return {"most": most, "lease": timedelta(minutes=1), "worker": "w", "after": after, "without": []}


def label_of(value: object) -> str | None:
    return f"{value[0]} {value[1]}" if isinstance(value, tuple) else None


@pytest.fixture(scope="module", params=[*((label, ROWS) for label in LABELS), *IN_BULK], ids=label_of)
def crowded(request: pytest.FixtureRequest, postgres: Postgres, migrated_template: str) -> Iterator[Crowded]:
    """Statistics are of the empty table until a test takes others."""
    label, rows = request.param
    user = TABLES[label]
    place: Place = postgres.create_database(f"crowded_{label.replace(' ', '_')}_{rows}", template=migrated_template)
    with place.connect() as connection:
        made(connection, user)
        connection.execute(f"ALTER TABLE {user.name} SET (autovacuum_enabled = off); ANALYZE {user.name}")
        database = databases.opened(place.dsn())
        with asyncio.Runner() as runner:
            world = MappedWorld(database, connection, user, runner.run(shape_in(database, user)))
            runner.run(database.close())
        connection.execute(user.new.format(due="(now() - interval '1 hour' + n * interval '1 ms')", count=rows))
        yield Crowded(connection, world)
    postgres.drop_database(place.name)


def assert_cheap(plan: Plan, index: str) -> None:
    bad = {node for node in plan.nodes if any(word in node for word in FORBIDDEN)}
    assert not bad, plan
    assert f"Index Scan {index}" in plan.nodes or f"Index Only Scan {index}" in plan.nodes, plan
    assert plan.buffers < FEW, plan


@pytest.mark.parametrize("statistics", ["of the empty table", "of the full table"])
@pytest.mark.parametrize("generic", [False, True], ids=["for these values", "for any values"])
def test_claims_and_outcomes_find_ten_rows_among_two_hundred_thousand_or_more_by_index(
    crowded: Crowded, statistics: str, generic: bool
) -> None:
    table = crowded.world.shape.table
    name = crowded.world.user.label.split()[0]
    if statistics == "of the full table":
        crowded.connection.execute(f"ANALYZE {crowded.world.user.name}")
    rows, plan = crowded.claim(generic=generic)
    assert len(rows) == 10
    assert_cheap(plan, DUE_INDEX[name])
    assert not [node for node in plan.nodes if "Sort" in node] or crowded.world.shape.inline is None
    assert_cheap(crowded.settle(rows, done=False, generic=generic), KEY_INDEX[name])
    if table.status is not None and table.status.done is not None:
        rows, _ = crowded.claim(generic=generic)
        assert_cheap(crowded.settle(rows, done=True, generic=generic), KEY_INDEX[name])


@pytest.mark.parametrize("generic", [False, True], ids=["for these values", "for any values"])
def test_rows_that_are_claimed_to_be_given_up_are_found_like_all_others(crowded: Crowded, generic: bool) -> None:
    index = DUE_INDEX[crowded.world.user.label.split()[0]]
    limits = [(0, 10), (10**6, 0)] if crowded.world.shape.limit is None else [(8, 0)]
    for limit, count in limits:
        rows, plan = crowded.bury(generic=generic, limit=limit)
        assert len(rows) == count
        assert_cheap(plan, index)


def test_a_claim_lifts_the_fence_first_and_one_that_finds_nothing_writes_nothing(crowded: Crowded) -> None:
    connection, statements = crowded.connection, crowded.statements
    found, written = {}, {}
    for after in ("-infinity", "infinity"):
        values = asking(10, after)
        connection.execute("SELECT setval('soloist.fence', 17)")
        with connection.transaction(force_rollback=True):
            connection.execute(statements.planner)
            found[after] = [row[0] for row in connection.execute(statements.claims[0], values)]
            assigned = connection.execute("SELECT pg_current_xact_id_if_assigned() IS NOT NULL").fetchone()
        written[after] = assigned
    assert (len(found["-infinity"]), found["infinity"]) == (10, [])
    assert min(found["-infinity"]) > 10**15
    assert written == {"-infinity": (True,), "infinity": (False,)}


@pytest.mark.parametrize(
    "crowded",
    [*((label, ROWS) for label in ("prisma", "prisma inline", "composite", "composite inline")), *IN_BULK],
    indirect=True,
    ids=label_of,
)
def test_behind_rows_that_an_old_transaction_keeps_a_claim_starts_where_the_last_one_ended(crowded: Crowded) -> None:
    after = "-infinity"
    with psycopg.connect(crowded.connection.info.dsn) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT count(*) FROM soloist.migrations")
        for _ in range(20):
            after = crowded.do(500, after)
        _, from_the_head = crowded.claim(generic=True)
        rows, plan = crowded.claim(generic=True, after=after)
        assert len(rows) == 10
    index = DUE_INDEX[crowded.world.user.label.split()[0]]
    assert_cheap(plan, index)
    assert f"Index Scan {index}" in from_the_head.nodes
    assert not {node for node in from_the_head.nodes if any(word in node for word in FORBIDDEN)}


def assert_ten_are_found(crowded: Crowded, other: str) -> None:
    """Beside ten that are due, when all others have become something else."""
    connection, user = crowded.connection, crowded.world.user
    connection.execute(f"UPDATE {user.name} SET {other}")
    connection.execute(f"VACUUM {user.name}")
    connection.execute(user.new.format(due="now()", count=10))
    for generic in (False, True):
        rows, plan = crowded.claim(generic=generic)
        assert len(rows) == (0 if generic else 10)
        assert_cheap(plan, DUE_INDEX[user.label.split()[0]])


GIVEN_UP = ["prisma", "prisma inline", "composite"]


@pytest.mark.parametrize("crowded", [*((label, ROWS) for label in GIVEN_UP), *IN_BULK], indirect=True, ids=label_of)
def test_rows_that_were_given_up_do_not_slow_a_claim(crowded: Crowded) -> None:
    """The whole table is of them, their time long past."""
    status = crowded.world.shape.table.status
    assert status is not None
    assert_ten_are_found(crowded, f"\"{status.column}\" = '{status.failed}'")


def test_rows_that_are_not_due_yet_do_not_slow_a_claim(crowded: Crowded) -> None:
    table = crowded.world.shape.table
    assert table.status is not None
    waits = f"\"{table.status.column}\" = '{table.status.pending[0]}'"
    assert_ten_are_found(crowded, f"{waits}, \"{table.due_at}\" = now() + interval '1 day'")
