"""How deep the queues of a database are: right whatever state rows are in, and as quick in a full table as in an empty one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.depths import managed_depths
from soloist.adapters.postgres.managed import ManagedRows
from soloist.domain.claims import Done, Failed, PutBack
from soloist.domain.depth import Depth
from tests.contracts.rows import HOUR
from tests.postgres.server import Database as Place
from tests.postgres.server import Postgres
from tests.queue.databases import opened
from tests.queue.plans import explained
from tests.queue.rows import Connection, claim, enqueue, fail, lapse, scalar
from tests.queue.test_managed_plans import FILL

ONE = "SELECT count(*) FROM soloist.claim('q', 1)"
EMPTY = Depth(ready=0, scheduled=0, in_flight=0, dead=0, oldest_due=None, whole=True)


def depths(place: Place, *queues: str, most: int = 100_000) -> dict[str, Depth]:
    async def inside() -> dict[str, Depth]:
        database = opened(place.dsn())
        try:
            return await managed_depths(database, queues, most=most)
        finally:
            await database.close()

    return asyncio.run(inside())


def counts(depth: Depth) -> tuple[int, int, int, int]:
    return depth.ready, depth.scheduled, depth.in_flight, depth.dead


def test_every_row_that_is_not_finished_is_in_one_count(queue_database: Place, connection: Connection) -> None:
    later = scalar(connection, "SELECT now() + interval '1 hour'")
    for priority in range(4):
        enqueue(connection, 6, priority=priority)
        enqueue(connection, 2, priority=priority, due_at=later)
    enqueue(connection, 1, queue="other")
    claim(connection, 5)
    lapse(connection)
    fail(connection, claim(connection, 3), None)
    fail(connection, claim(connection, 2), "1 hour")
    claim(connection, 4)
    found = depths(queue_database, "q", "other", "none")
    assert counts(found["q"]) == (24 - 3 - 2 - 4, 8 + 2, 4, 3)
    assert counts(found["other"]) == (1, 0, 0, 0)
    assert found["none"] == EMPTY
    assert all(depth.whole for depth in found.values())


def test_depths_follow_what_a_worker_does(queue_database: Place, connection: Connection) -> None:
    enqueue(connection, 5)

    async def body() -> None:
        database = opened(queue_database.dsn())
        rows = ManagedRows(database, ClaimRules(name="q", worker="w"), boottime=time.monotonic)

        async def now() -> tuple[int, int, int, int]:
            return counts((await managed_depths(database, ["q"]))["q"])

        assert await now() == (5, 0, 0, 0)
        a, b, c, d = await rows.claim(4)
        assert await now() == (1, 0, 4, 0)
        await rows.settle([Done(claim=a), Failed(claim=b, error="503", retry_in=HOUR), PutBack(claim=c)])
        assert await now() == (2, 1, 1, 0)
        await rows.settle([Failed(claim=d, error="410", retry_in=None)])
        assert await now() == (2, 1, 0, 1)
        await database.close()

    asyncio.run(body())


def test_the_oldest_that_waits_is_the_one_that_could_have_been_had_for_longest(
    queue_database: Place, connection: Connection
) -> None:
    enqueue(connection, due_at="-infinity")
    age = depths(queue_database, "q")["q"].oldest_due
    assert age is not None
    assert 0 <= age < 60, "it has been due for ever, and there for a moment"
    connection.execute("UPDATE soloist.work_items SET created_at = now() - interval '1 day'")
    age = depths(queue_database, "q")["q"].oldest_due
    assert age is not None
    assert 86_400 <= age < 86_460
    enqueue(connection)
    assert scalar(connection, ONE) == 1
    age = depths(queue_database, "q")["q"].oldest_due
    assert age is not None
    assert age < 60, "the older one is in hand"
    assert scalar(connection, ONE) == 1
    assert depths(queue_database, "q")["q"].oldest_due is None


def test_a_count_ends_where_it_is_told_to(queue_database: Place, connection: Connection) -> None:
    enqueue(connection, 30)
    depth = depths(queue_database, "q", most=20)["q"]
    assert (depth.ready, depth.whole) == (20, False)
    depth = depths(queue_database, "q", most=31)["q"]
    assert (depth.ready, depth.whole) == (30, True)


@pytest.fixture(scope="module")
def crowded(postgres: Postgres, migrated_template: str) -> Iterator[Place]:
    """A million due rows, as many that are not due yet, and statistics that were never taken."""
    made = postgres.create_database("deep", template=migrated_template)
    with made.connect() as connection:
        connection.execute("ALTER TABLE soloist.work_items SET (autovacuum_enabled = off)")
        connection.execute(FILL, {"queue": "deep", "due": -1, "count": 1_000_000})
        connection.execute(FILL, {"queue": "deep", "due": 3600, "count": 500_000})
        enqueue(connection, 3, queue="shallow")
        connection.execute("VACUUM soloist.work_items")
    yield made
    postgres.drop_database(made.name)


def test_a_full_table_is_measured_in_its_index_alone_and_no_further_than_is_worth_it(crowded: Place) -> None:
    depth = depths(crowded, "deep", "shallow", most=10_000)
    assert counts(depth["deep"]) == (40_000, 40_000, 0, 0)
    assert not depth["deep"].whole
    assert counts(depth["shallow"]) == (3, 0, 0, 0)
    with crowded.connect() as connection:
        plans = explained(connection, "SELECT * FROM soloist.depths(ARRAY['deep', 'shallow'], 10000)")
    nodes = {node for plan in plans for node in plan.nodes}
    assert "Index Only Scan work_items_due" in nodes
    assert not {node for node in nodes if "Seq Scan" in node or "Bitmap" in node or "Sort" in node}
    # 80,000 entries of an index are 400 pages, and the heads of what is due 500 rows each.
    assert sum(plan.buffers for plan in plans) < 4_000
