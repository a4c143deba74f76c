"""The plans of claims and outcomes on tables of 200,000 due rows are the ones they need, whatever the statistics say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

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

ROWS = 200_000
FEW = 900
"""Pages for ten rows: some levels of some indexes for each. A scan would touch thousands."""
FORBIDDEN = ("Seq Scan", "Bitmap", "Merge")
LABELS = ["prisma", "prisma inline", "snake inline", "uuid", "composite", "composite inline", "schedules"]
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

    def claim(self, *, generic: bool) -> tuple[list[Any], Plan]:
        values = {"most": 10, "lease": timedelta(minutes=1), "worker": "w", "after": "-infinity", "without": []}
        return self.run(self.statements.planner, self.statements.claims[0], values, generic=generic)

    def settle(self, rows: list[Any], *, done: bool, generic: bool) -> Plan:
        values: dict[str, Any] = {f"r{n}": [row[5 + n] for row in rows] for n in range(self.keys)}
        values |= {"fence": [row[0] for row in rows], "due": [row[4] for row in rows]}
        values |= {"attempts": [0] * len(rows), "status": [row[-1] for row in rows]}
        values |= {
            "outcome": ["Again", "Dead"] * 5,
            "counted": [True] * 10,
            "error": ["503"] * 10,
            "reason": ["Failed"] * 10,
        }
        values |= {"wait": [timedelta(hours=1)] * 10, "attempt": [2] * 10, "reclaims": [0] * 10}
        query = self.statements.complete if done else self.statements.settle
        return self.run(BY_INDEX, query, values, generic=generic)[1]


@pytest.fixture(scope="module", params=LABELS)
def crowded(request: pytest.FixtureRequest, postgres: Postgres, migrated_template: str) -> Iterator[Crowded]:
    """Statistics are of the empty table until a test takes others."""
    label: str = request.param
    user = TABLES[label]
    place: Place = postgres.create_database(f"crowded_{label.replace(' ', '_')}", template=migrated_template)
    with place.connect() as connection:
        made(connection, user)
        connection.execute(f"ALTER TABLE {user.name} SET (autovacuum_enabled = off); ANALYZE {user.name}")
        database = databases.opened(place.dsn())
        with asyncio.Runner() as runner:
            world = MappedWorld(database, connection, user, runner.run(shape_in(database, user)))
            runner.run(database.close())
        connection.execute(user.new.format(due="(now() - interval '1 hour' + n * interval '1 ms')", count=ROWS))
        yield Crowded(connection, world)
    postgres.drop_database(place.name)


def assert_cheap(plan: Plan, index: str) -> None:
    bad = {node for node in plan.nodes if any(word in node for word in FORBIDDEN)}
    assert not bad, plan
    assert f"Index Scan {index}" in plan.nodes or f"Index Only Scan {index}" in plan.nodes, plan
    assert plan.buffers < FEW, plan


@pytest.mark.parametrize("statistics", ["of the empty table", "of the full table"])
@pytest.mark.parametrize("generic", [False, True], ids=["for these values", "for any values"])
def test_claims_and_outcomes_find_ten_rows_among_two_hundred_thousand_by_index(
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


def test_a_claim_lifts_the_fence_first_and_one_that_finds_nothing_writes_nothing(crowded: Crowded) -> None:
    connection, statements = crowded.connection, crowded.statements
    found, written = {}, {}
    for after in ("-infinity", "infinity"):
        values = {"most": 10, "lease": timedelta(minutes=1), "worker": "w", "after": after, "without": []}
        connection.execute("SELECT setval('soloist.fence', 17)")
        with connection.transaction(force_rollback=True):
            connection.execute(statements.planner)
            found[after] = [row[0] for row in connection.execute(statements.claims[0], values)]
            assigned = connection.execute("SELECT pg_current_xact_id_if_assigned() IS NOT NULL").fetchone()
        written[after] = assigned
    assert (len(found["-infinity"]), found["infinity"]) == (10, [])
    assert min(found["-infinity"]) > 10**15
    assert written == {"-infinity": (True,), "infinity": (False,)}
