"""Thousands of rows that are due and that nobody is to have: given up for good, or resting. A claim that found the way past them
long does not go it again each time, and misses nothing for that: what comes due is met at once, what comes back is met soon.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.mapped import LONG_WALK, MappedRows
from soloist.adapters.postgres.mapped_dead import DeadRows
from soloist.domain.claims import Done, Failed, PutBack, Verdict
from soloist.domain.errors import TransientError
from soloist.domain.queue_spec import OnDead
from tests.contracts.rows import HOUR, Key, keys
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import MappedWorld, in_world
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES

MANY, ENOUGH = 3000, 1100
LABELS = ["schedules", "prisma", "prisma inline", "composite", "snake"]
POLL = ClaimRules(name="q", worker="w").poll.total_seconds()
GIVE_UP = "UPDATE app.schedules SET status = 'failed' WHERE id = $1"
Run = Callable[..., None]


class Clock:
    """Stands still but for claims, each of which takes as long as it says."""

    def __init__(self, claim: float) -> None:
        self.now, self.claim = 0.0, claim

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def run(queue_database: Place, connection: Connection) -> Run:
    def enter(label: str, body: Callable[[MappedWorld], Awaitable[None]], **more: Any) -> None:
        in_world(queue_database, connection, TABLES[label], body, **more)

    return enter


def rows_of(world: MappedWorld, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> MappedRows:
    fetch = world.database.fetch

    async def slow(query: bytes, values: Mapping[str, Any], **more: Any) -> Any:
        clock.now += clock.claim if "most" in values else 0.0
        return await fetch(query, values, **more)

    monkeypatch.setattr(world.database, "fetch", slow)
    return MappedRows(world.database, world.shape, ClaimRules(name="q", worker="w"), world.spec.retry, boottime=clock)


async def parked(world: MappedWorld, count: int = MANY) -> list[Key]:
    """Rows that are due and stay as they are, and that nobody is handed any more: as those that their table refuses."""
    added = await world.add(count, due_in=-HOUR)
    rows = world.rows()
    while claims := await rows.claim(500):
        await rows.settle([PutBack(claim=claim, retry_in=HOUR * 24) for claim in claims])
    inline = world.shape.inline
    name, column = ("soloist.claims", "held_until") if inline is None else (world.user.name, inline.lease_until)
    world.connection.execute(f"UPDATE {name} SET \"{column}\" = 'infinity'")
    return added


async def looked_at(world: MappedWorld, rows: MappedRows, clock: Clock, *, at: float) -> int:
    """How many rows of the table a claim at that time looks at."""
    await flushed(world)
    before = fetched(world)
    clock.now = at
    assert await rows.claim(1) == []
    await flushed(world)
    return fetched(world) - before


async def flushed(world: MappedWorld) -> None:
    await world.database.fetch(b"SELECT pg_stat_force_next_flush()", {})
    await world.database.fetch(b"SELECT 1", {})


def fetched(world: MappedWorld) -> int:
    world.connection.execute("SELECT pg_stat_clear_snapshot()")
    count = "SELECT sum(idx_tup_fetch) FROM pg_stat_user_tables WHERE schemaname = 'app'"
    return int(scalar(world.connection, count))


@pytest.mark.parametrize("label", LABELS)
def test_a_claim_does_not_walk_past_them_again_until_four_times_as_long_has_passed(
    run: Run, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    async def body(world: MappedWorld) -> None:
        await parked(world)
        clock = Clock(claim=1.0)
        rows = rows_of(world, clock, monkeypatch)
        assert await looked_at(world, rows, clock, at=0.0) >= MANY
        for at in (2.0, 3.0, 4.0):
            assert await looked_at(world, rows, clock, at=at) < 10
        assert await looked_at(world, rows, clock, at=5.0) >= MANY

    run(label, body)


@pytest.mark.parametrize(("count", "claim"), [(ENOUGH, LONG_WALK / 2), (200, 1.0)], ids=["quick", "past a few"])
@pytest.mark.parametrize("label", LABELS)
def test_where_the_way_past_them_is_short_each_claim_starts_from_the_head(
    run: Run, monkeypatch: pytest.MonkeyPatch, label: str, count: int, claim: float
) -> None:
    """However long it takes: a database that is busy with other things is no reason."""

    async def body(world: MappedWorld) -> None:
        await parked(world, count)
        clock = Clock(claim=claim)
        rows = rows_of(world, clock, monkeypatch)
        for part in range(3):
            assert await looked_at(world, rows, clock, at=part * POLL / 4) >= count

    run(label, body)


def test_rows_whose_key_had_enough_of_them_are_no_reason_to_start_behind_them(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add(ENOUGH, due_in=-HOUR)
        rows = rows_of(world, Clock(claim=1.0), monkeypatch)
        assert await rows.claim(5, without=["wh1"]) == []
        assert len(await rows.claim(5)) == 5

    run("prisma", body, concurrency={"perKey": {"column": "webhookId", "limit": 4}})


@pytest.mark.parametrize("label", LABELS)
def test_rows_that_come_due_behind_them_are_met_by_the_next_claim_whatever_was_found_before(
    run: Run, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    async def body(world: MappedWorld) -> None:
        await parked(world, ENOUGH)
        clock = Clock(claim=1.0)
        rows = rows_of(world, clock, monkeypatch)
        assert await rows.claim(2) == []
        for asked in (2, 1, 2, 2, 1):
            fresh = await world.add(1, due_in=-timedelta(seconds=2))  # as a transaction writes it that commits late
            clock.now = 1.5
            claims = await rows.claim(asked)
            assert keys(claims) == fresh
            if asked == 1:
                await world.remove(fresh[0])
            else:
                await rows.settle([Failed(claim=claims[0], error="503", retry_in=HOUR)])

    run(label, body)


@pytest.mark.parametrize("label", ["schedules", "prisma", "prisma inline"])
def test_one_of_them_that_is_to_be_worked_again_is_met_by_the_next_walk(
    run: Run, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    async def body(world: MappedWorld) -> None:
        first, *_ = await parked(world, ENOUGH)
        clock = Clock(claim=1.0)
        rows = rows_of(world, clock, monkeypatch)
        assert await rows.claim(1) == []
        inline = world.shape.inline
        if inline is None:
            name = f"{world.shape.source}:{first[0]}"
            world.connection.execute("UPDATE soloist.claims SET held_until = now() WHERE key = %s", (name,))
        else:
            world.connection.execute(
                f'UPDATE {world.user.name} AS q SET "{inline.lease_until}" = NULL WHERE {world.where(first)}'
            )
        clock.now = 4.0
        assert await rows.claim(1) == []
        clock.now = 5.0
        assert keys(await rows.claim(1)) == [first]

    run(label, body)


def test_what_a_long_walk_has_claimed_is_handed_out_though_the_next_statement_fails(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(world: MappedWorld) -> None:
        await parked(world, ENOUGH)
        fresh = await world.add(1)
        rows = rows_of(world, Clock(claim=1.0), monkeypatch)
        slow = world.database.fetch

        async def failing(query: bytes, values: Mapping[str, Any], **more: Any) -> Any:
            if "ago" in values:
                raise TransientError("the database went away", sent=True)
            return await slow(query, values, **more)

        monkeypatch.setattr(world.database, "fetch", failing)
        assert keys(await rows.claim(1)) == fresh

    run("schedules", body)


def test_a_schedule_that_is_moved_by_what_follows_its_death_is_in_nobody_s_way_and_can_be_tried_again(
    run: Run, connection: Connection
) -> None:
    """The remedy: the row gets another status in the transaction of its letter, and its status back before it is retried."""

    async def body(world: MappedWorld) -> None:
        (key,) = await world.add(due_in=-HOUR)
        on_dead = OnDead(statement=GIVE_UP, values=("id",))
        rows = world.rows(on_dead=on_dead)
        (claim,) = await rows.claim(1)
        assert await rows.settle([Failed(claim=claim, error="410", retry_in=None)]) == [Verdict.ACCEPTED]
        row = world.row(key)
        assert row is not None
        assert row["status"] == "failed"
        assert scalar(connection, "SELECT count(*) FROM soloist.dead_rows") == 1
        dead = DeadRows(world.database, world.shape)
        (letter,) = await dead.oldest()
        connection.execute("UPDATE app.schedules SET status = 'active'")
        assert await rows.claim(1) == [], "given up still"
        assert await dead.retry([letter.id]) == {letter.id: True}
        (again,) = await rows.claim(1)
        assert again.row == key
        connection.execute("UPDATE app.schedules SET next_run_timestamp = next_run_timestamp + interval '1 month'")
        assert await rows.settle([Done(claim=again)]) == [Verdict.ACCEPTED]
        assert world.sidecar() == 0

    run("schedules", body)
