"""How deep a queue on the user's own table is: right whatever state its rows are in, and asked without a trace."""

from __future__ import annotations

from datetime import timedelta

import pytest

from soloist.adapters.postgres.mapped_depths import MappedDepth, measuring
from soloist.adapters.postgres.mapped_sql import BY_INDEX
from soloist.domain.claims import Failed, PutBack
from soloist.domain.depth import Depth
from tests.contracts.rows import HOUR
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import MappedWorld, in_world
from tests.queue.plans import explained
from tests.queue.rows import Connection
from tests.queue.user_tables import TABLES


def counts(depth: Depth) -> tuple[int, int, int, int]:
    return depth.ready, depth.scheduled, depth.in_flight, depth.dead


@pytest.mark.parametrize("label", TABLES)
def test_depths_follow_what_a_worker_does(label: str, queue_database: Place, connection: Connection) -> None:
    async def body(world: MappedWorld) -> None:
        depth = MappedDepth(world.database, world.shape)

        async def now() -> tuple[int, int, int, int]:
            return counts(await depth.measure())

        assert await depth.measure() == Depth(ready=0, scheduled=0, in_flight=0, dead=0, oldest_due=None, whole=True)
        await world.add(5)
        later = 2 if world.shape.table.due_at is not None else 0
        if later:
            await world.add(later, due_in=HOUR)
        assert await now() == (5, later, 0, 0)
        rows = world.rows()
        a, b, c, d = await rows.claim(4)
        assert await now() == (1, later, 4, 0)
        await rows.settle([Failed(claim=a, error="503", retry_in=HOUR), PutBack(claim=b)])
        assert await now() == (2, later + 1, 2, 0)
        await rows.settle([Failed(claim=c, error="410", retry_in=None)])
        assert await now() == (2, later + 1, 1, 1)
        await world.lapse()
        assert await now() == (3, later + 1, 0, 1), "whose claim has lapsed can be had"
        assert d not in (a, b, c)
        ended = await depth.measure(most=1)
        assert ended.ready <= len(world.shape.statuses("q"))
        assert not ended.whole

    in_world(queue_database, connection, TABLES[label], body)


@pytest.mark.parametrize("label", ["prisma", "prisma inline"])
def test_the_oldest_is_of_those_that_can_be_had(label: str, queue_database: Place, connection: Connection) -> None:
    async def body(world: MappedWorld) -> None:
        depth = MappedDepth(world.database, world.shape)
        await world.add(due_in=-timedelta(days=1))
        age = (await depth.measure()).oldest_due
        assert age is not None
        assert 86_400 <= age < 86_460
        await world.add()
        assert len(await world.rows().claim(1)) == 1
        age = (await depth.measure()).oldest_due
        assert age is not None
        assert age < 60, "the older one is in hand"

    in_world(queue_database, connection, TABLES[label], body)


@pytest.mark.parametrize("label", ["prisma", "prisma inline", "schedules"])
def test_a_full_table_is_looked_at_by_the_index_of_claims_and_no_further_than_is_worth_it(
    label: str, queue_database: Place, connection: Connection
) -> None:
    async def body(world: MappedWorld) -> None:
        for moved in ("- interval '1 day'", "+ interval '1 day'"):
            fill = world.user.new.format(due=f"(now() {moved} + n * interval '1 s')", count="%(count)s")
            connection.execute(fill, {"count": 50_000})
        depth = await MappedDepth(world.database, world.shape).measure(most=1000)
        assert counts(depth) == (1000, 1000, 0, 0)
        assert not depth.whole
        statement = measuring(world.shape).as_bytes(None)
        # Outside of a transaction: within one, a SELECT is explained only when the next statement comes.
        connection.execute(BY_INDEX.replace(b"true", b"false"))
        table = world.shape.table.name.table
        (plan,) = explained(connection, statement, {"queue": "default/q", "most": 1000}, table=table, prepare=True)
        assert not [node for node in plan.nodes if node.startswith("Seq Scan") or "Bitmap" in node], plan.nodes
        assert plan.buffers < 12_000, f"{plan.buffers}: some pages for each row that is looked at"

    in_world(queue_database, connection, TABLES[label], body)
