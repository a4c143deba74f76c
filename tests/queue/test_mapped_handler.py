"""Rows that their application moves: a payroll schedule that stays active and comes due again each month.

We end the claim and write nothing to the row. A row that is left due at the same time counts as failed, and what has to be
remembered until the next attempt is in the sidecar.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Settled, Verdict
from soloist.loops.row_ports import Rows
from tests.contracts.rows import HOUR, MINUTE, NOTHING, Body, Enter, Key, RowsFacts, keys
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import MappedWorld, in_world, with_retry_at_once
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES

SCHEDULES = TABLES["schedules"]
ACCEPTED, CHANGED, LOST, STILL_DUE = Verdict.ACCEPTED, Verdict.CHANGED, Verdict.LOST, Verdict.STILL_DUE
MOVE = 'UPDATE app.schedules SET next_run_timestamp = next_run_timestamp + "interval" WHERE id = %s'
Run = Callable[..., None]


@pytest.fixture
def run(queue_database: Place, connection: Connection) -> Run:
    def enter(body: Callable[[MappedWorld], Awaitable[None]], **more: Any) -> None:
        in_world(queue_database, connection, SCHEDULES, body, **more)

    return enter


def move(world: MappedWorld, key: Key) -> None:
    """What the application does on being called."""
    world.connection.execute(MOVE, (int(key[0]),))


async def one(world: MappedWorld, **more: Any) -> Claim:
    (claim,) = await world.rows(**more).claim(1)
    return claim


class Application:
    """Does the work of a row whose claim holds: where it is `Done`, it has moved the row before it said so."""

    def __init__(self, world: MappedWorld, rows: Rows) -> None:
        self.world, self.rows = world, rows
        self.claim, self.renew = rows.claim, rows.renew

    async def settle(self, outcomes: list[Settled]) -> list[Verdict]:
        for outcome in outcomes:
            if isinstance(outcome, Done) and self.world.fence(outcome.claim.row) == outcome.claim.fence:
                self.world.connection.execute(
                    "UPDATE app.schedules SET status = 'over' WHERE id = %s", (int(outcome.claim.row[0]),)
                )
        return await self.rows.settle(outcomes)


class HandlerWorld(MappedWorld):
    """Rows that are worked once: their application ends them."""

    def rows(self, **more: Any) -> Any:
        return Application(self, super().rows(**more))

    def standing(self, key: Key) -> Any:
        found = super().standing(key)
        row = self.row(key)
        return replace(found, state="done") if row is not None and row["status"] == "over" else found


class TestSchedulesRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        def enter(body: Body) -> None:
            async def inside(world: MappedWorld) -> None:
                await body(HandlerWorld(world.database, world.connection, world.user, world.shape))

            in_world(queue_database, connection, SCHEDULES, inside)

        return enter

    # Nothing is written to the row, so nothing can be refused; and to delete a row is one way of being done with it.
    test_one_outcome_that_the_table_refuses_is_parked_and_the_others_hold = None
    test_a_row_that_was_taken_away_meanwhile_accepts_no_outcome = None


def test_a_row_that_the_application_moved_is_done_and_leaves_nothing_in_the_sidecar(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        moved, deleted, ended = await world.add(3)
        rows = world.rows()
        claims = {claim.row: claim for claim in await rows.claim(3)}
        move(world, moved)
        await world.remove(deleted)
        world.connection.execute("UPDATE app.schedules SET status = 'ended' WHERE id = %s", (int(ended[0]),))
        assert await rows.settle([Done(claim=claims[key]) for key in (moved, deleted, ended)]) == [ACCEPTED] * 3
        assert world.sidecar() == 0
        assert await rows.claim(3) == []

    run(body)


def test_the_row_itself_is_never_written(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        added = await world.add(5)
        before = [(world.row(key), version(world, key)) for key in added]
        rows = world.rows()
        a, b, c, d, e = await rows.claim(5)
        outcomes: list[Settled] = [
            Done(claim=a),
            Failed(claim=b, error="503", retry_in=HOUR),
            Failed(claim=c, error="410", retry_in=None),
            Parked(claim=d, error="no reply"),
            PutBack(claim=e, retry_in=HOUR),
        ]
        assert await rows.settle(outcomes) == [STILL_DUE, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED]
        assert [(world.row(key), version(world, key)) for key in added] == before

    run(body)


def version(world: MappedWorld, key: Key) -> Any:
    return scalar(world.connection, f"SELECT xmin::text FROM app.schedules AS q WHERE {world.where(key)}")


def test_a_row_that_is_left_due_at_the_same_time_counts_as_failed_and_rests_in_the_sidecar(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        claim = await one(world)
        before = await world.now()
        assert await world.rows().settle([Done(claim=claim)]) == [STILL_DUE]
        assert await world.rows().claim(1) == [], "it waits for its next attempt"
        after, until = await world.now(), scalar(world.connection, "SELECT held_until FROM soloist.claims")
        assert until - before > timedelta(seconds=3.9), "five seconds, give or take a fifth"
        assert until - after < timedelta(seconds=6.1)
        world.connection.execute("UPDATE soloist.claims SET held_until = clock_timestamp()")
        again = await one(world)
        assert (again.row, again.due_key, again.attempt, again.tries) == (key, claim.due_key, 2, 2)
        move(world, key)
        assert await world.rows().settle([Done(claim=again)]) == [ACCEPTED]
        assert world.sidecar() == 0

    run(body)


def test_a_row_that_is_left_due_for_ever_is_given_up_until_it_is_due_at_another_time(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add(due_in=-HOUR * 24 * 60)
        with_retry_at_once(world)
        for attempt in range(1, 9):
            claim = await one(world)
            assert claim.attempt == attempt
            assert await world.rows().settle([Done(claim=claim)]) == [STILL_DUE]
        assert await world.rows().claim(1) == []
        letter = world.connection.execute("SELECT reason, last_error, attempt FROM soloist.dead_rows").fetchone()
        assert letter is not None
        assert letter[0] == "Failed"
        assert "left the row due at the same time" in letter[1]
        assert letter[2] == 9
        move(world, key)
        fresh = await one(world)
        assert (fresh.row, fresh.attempt, fresh.tries) == (key, 1, 1)
        move(world, key)
        assert await world.rows().settle([Done(claim=fresh)]) == [ACCEPTED]
        assert scalar(world.connection, "SELECT count(*) FROM soloist.dead_rows") == 1, "of the time that was given up"

    run(body)


def test_a_failure_after_the_application_moved_the_row_is_no_failure_of_what_comes_next(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add(due_in=-HOUR * 24 * 60)
        claim = await one(world)
        move(world, key)
        assert await world.rows().settle([Failed(claim=claim, error="reset", retry_in=HOUR)]) == [CHANGED]
        fresh = await one(world)
        assert (fresh.attempt, fresh.due_key) != (claim.attempt, claim.due_key)
        assert fresh.attempt == 1

    run(body)


def test_a_row_that_is_moved_while_it_rests_is_due_at_its_new_time(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add(due_in=-HOUR * 24 * 60)
        claim = await one(world)
        await world.rows().settle([Failed(claim=claim, error="503", retry_in=HOUR)])
        assert await world.rows().claim(1) == []
        move(world, key)
        fresh = await one(world)
        assert (fresh.row, fresh.attempt, fresh.tries, fresh.reclaims) == (key, 1, 1, 0)

    run(body)


def test_with_hold_a_crash_parks_that_due_time_and_not_the_next(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add(due_in=-HOUR * 24 * 60)
        await one(world, hold=True)
        await world.lapse()
        assert await world.rows(hold=True).claim(1) == []
        assert scalar(world.connection, "SELECT reason FROM soloist.dead_rows") == "Interrupted"
        assert await world.rows(hold=True).claim(1) == []
        move(world, key)
        assert (await one(world, hold=True)).reclaims == 0

    run(body)


def test_a_worker_that_died_after_the_application_had_moved_the_row_leaves_it_for_its_next_time(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await one(world)
        move(world, key)
        await world.lapse()
        rows = world.rows()
        assert await rows.claim(1) == []
        assert await rows.sweep() == 1
        assert world.sidecar() == 0
        assert scalar(world.connection, "SELECT count(*) FROM soloist.dead_rows") == 0

    run(body)


def test_one_row_that_is_due_twice_a_period_apart_has_two_due_keys(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add(due_in=-HOUR * 24 * 90)
        seen = []
        for _ in range(2):
            claim = await one(world)
            seen.append(claim.due_key)
            move(world, key)
            await world.rows().settle([Done(claim=claim)])
        assert len(set(seen)) == 2
        assert all(len(due) == len("2026-01-01T00:00:00.000000Z") for due in seen)

    run(body)


def test_two_parallel_passes_over_due_schedules_execute_each_once_and_move_it_once(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        added = await world.add(60, due_in=-MINUTE)
        before = dict(world.connection.execute("SELECT id, next_run_timestamp FROM app.schedules").fetchall())
        executed: list[Key] = []

        async def passing() -> None:
            rows = world.rows()
            while claims := await rows.claim(7):
                for claim in claims:
                    executed.append(claim.row)
                    await asyncio.sleep(0)
                    move(world, claim.row)
                assert await rows.settle([Done(claim=claim) for claim in claims]) == [ACCEPTED] * len(claims)

        await asyncio.gather(passing(), passing())
        assert sorted(executed) == sorted(added)
        after = dict(
            world.connection.execute('SELECT id, next_run_timestamp - "interval" FROM app.schedules').fetchall()
        )
        assert after == before
        assert world.sidecar() == 0

    run(body)


def test_an_outcome_that_comes_twice_is_accepted_once(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        claim = await one(world)
        move(world, key)
        rows = world.rows()
        assert await rows.settle([Done(claim=claim)]) == [ACCEPTED]
        assert await rows.settle([Done(claim=claim)]) == [LOST]
        assert keys(await rows.claim(1)) == []
        assert await rows.settle([PutBack(claim=claim, retry_in=NOTHING)]) == [LOST]

    run(body)
