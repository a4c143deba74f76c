"""What the sweep of the sidecar removes, and what it has to keep: whatever holds back a row that may yet come to be claimed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from soloist.adapters.postgres.mapped import MappedRows
from soloist.adapters.postgres.mapped_dead import DeadRows
from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Verdict
from tests.cluster.children import until
from tests.contracts.rows import HOUR, NOTHING, Key, keys
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import MappedWorld, in_world
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES, UserTable, inserting

ACCEPTED, REFUSED = Verdict.ACCEPTED, Verdict.REFUSED
HELD = ["snake", "schedules", "composite"]
PAUSES = {"snake": "paused", "schedules": "paused", "composite": "7", "uuid": "paused", "bare": "p"}
Run = Callable[..., None]


@pytest.fixture
def run(queue_database: Place, connection: Connection) -> Run:
    def enter(label: str | UserTable, body: Callable[[MappedWorld], Awaitable[None]]) -> None:
        in_world(queue_database, connection, label if isinstance(label, UserTable) else TABLES[label], body)

    return enter


async def one(rows: MappedRows) -> Claim:
    (claim,) = await rows.claim(1)
    return claim


async def park(world: MappedWorld, rows: MappedRows, key: Key) -> None:
    """A row that waits for a person in its place: the table refused its outcome, or it is its application's to move."""
    if world.shape.table.name.table == "schedules":
        assert await rows.settle([Parked(claim=await one(rows), error="no reply")]) == [ACCEPTED]
    else:
        await world.refuse_done(key)
        assert await rows.settle([Done(claim=await one(rows))]) == [REFUSED]


def give_status(world: MappedWorld, value: str | None, key: Key | None = None) -> None:
    status = world.shape.table.status
    assert status is not None
    where = "true" if key is None else world.where(key)
    world.connection.execute(f'UPDATE {world.user.name} AS q SET "{status.column}" = %s WHERE {where}', (value,))


async def paused_over_a_sweep(world: MappedWorld, rows: MappedRows) -> None:
    """The application takes the row out of work for a while, and all of the sidecar is swept meanwhile."""
    status = world.shape.table.status
    assert status is not None
    give_status(world, PAUSES[world.user.label])
    assert await rows.sweep() == 0
    give_status(world, status.pending[0])


def letters(world: MappedWorld) -> list[str]:
    return [reason for (reason,) in world.connection.execute("SELECT reason FROM soloist.dead_rows").fetchall()]


@pytest.mark.parametrize("label", HELD)
def test_a_row_that_waits_for_a_person_waits_on_after_a_pause(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        rows = world.rows(hold=True)
        await park(world, rows, key)
        before = letters(world)
        await paused_over_a_sweep(world, rows)
        assert await rows.claim(1) == [], "nobody said that it may be sent again"
        assert letters(world) == before
        await world.revive(key)
        assert keys(await rows.claim(1)) == [key]

    run(label, body)


@pytest.mark.parametrize("label", HELD)
def test_a_row_whose_worker_died_is_held_for_a_person_also_after_a_pause(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add()
        rows = world.rows(hold=True)
        await one(rows)
        await world.lapse()
        await paused_over_a_sweep(world, rows)
        assert await rows.claim(1) == []
        assert letters(world) == ["Interrupted"]

    run(label, body)


def test_a_row_whose_status_is_null_for_a_while_is_held_all_the_same(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        world.connection.execute("ALTER TABLE app.deliveries ALTER state DROP NOT NULL")
        (key,) = await world.add()
        rows = world.rows(hold=True)
        await one(rows)
        await world.lapse()
        give_status(world, None, key)
        assert await rows.sweep() == 0
        give_status(world, "new", key)
        assert await rows.claim(1) == []

    run("snake", body)


@pytest.mark.parametrize("label", ["uuid", "bare", "schedules"])
def test_attempts_that_the_sidecar_counts_are_counted_on_after_a_pause(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add()
        rows = world.rows()
        assert await rows.settle([Failed(claim=await one(rows), error="503", retry_in=NOTHING)]) == [ACCEPTED]
        await paused_over_a_sweep(world, rows)
        again = await one(rows)
        assert (again.attempt, again.tries) == (2, 2)

    run(label, body)


@pytest.mark.parametrize("label", ["snake", "composite", "schedules"])
def test_a_fresh_budget_of_tries_is_kept_over_a_pause(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        rows = world.rows()
        assert await rows.settle([Failed(claim=await one(rows), error="410", retry_in=None)]) == [ACCEPTED]
        await world.revive(key)
        await paused_over_a_sweep(world, rows)
        again = await one(rows)
        assert (again.attempt, again.tries) == (2, 1)

    run(label, body)


@pytest.mark.parametrize("label", ["snake", "prisma", "composite", "uuid", "bare"])
def test_rows_that_are_finished_or_deleted_leave_nothing_behind(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        done, failed, deleted, resting, parked, waiting = await world.add(6)
        status, rows = world.shape.table.status, world.rows(hold=True)
        assert status is not None
        claims = {claim.row: claim for claim in await rows.claim(6)}
        await rows.settle([PutBack(claim=claims[resting], retry_in=HOUR)])
        await world.refuse_done(parked)
        assert await rows.settle([Done(claim=claims[parked])]) == [REFUSED]
        await world.lapse()
        give_status(world, status.done, done)
        for key in (failed, resting, parked):
            give_status(world, status.failed, key)
        await world.remove(deleted)
        assert (await rows.sweep(), world.sidecar()) == (5, 1)
        assert await rows.claim(6) == []
        assert (await world.look())[waiting].state == "dead", "the one that was left was of use"

    run(label, body)


def test_rows_of_their_application_leave_nothing_behind_once_they_are_due_at_another_time_or_deleted(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        moved, deleted, parked, resting, waiting = await world.add(5)
        rows = world.rows(hold=True)
        claims = {claim.row: claim for claim in await rows.claim(5)}
        assert (
            await rows.settle(
                [Parked(claim=claims[parked], error="no reply"), PutBack(claim=claims[resting], retry_in=HOUR)]
            )
            == [ACCEPTED] * 2
        )
        await world.lapse()
        for key in (moved, parked, resting):
            world.connection.execute(
                f"UPDATE app.schedules AS q SET next_run_timestamp = next_run_timestamp + \"interval\", status = 'paused'"
                f" WHERE {world.where(key)}"
            )
        await world.remove(deleted)
        assert (await rows.sweep(), world.sidecar()) == (4, 1)
        assert await rows.claim(5) == []
        assert scalar(world.connection, "SELECT pk FROM soloist.dead_rows WHERE key LIKE %s", (f"%:{waiting[0]}",))

    run("schedules", body)


@pytest.mark.parametrize("label", HELD)
def test_a_letter_that_is_put_away_during_a_pause_sends_nothing(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        rows, dead = world.rows(hold=True), DeadRows(world.database, world.shape)
        await park(world, rows, key)
        assert len(await dead.purge([letter.id for letter in await dead.oldest()])) == 1
        await paused_over_a_sweep(world, rows)
        assert await rows.claim(1) == []

    run(label, body)


@pytest.mark.parametrize("label", HELD)
def test_a_row_that_a_person_tries_again_during_a_pause_is_sent_once_the_pause_is_over(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        rows, dead, status = world.rows(hold=True), DeadRows(world.database, world.shape), world.shape.table.status
        assert status is not None
        await park(world, rows, key)
        give_status(world, PAUSES[label])
        before = world.row(key)
        (letter,) = await dead.oldest()
        assert await dead.retry([letter.id]) == {letter.id: False}, "it stays out of work as long as it is paused"
        assert (world.row(key), letters(world)) == (before, [])
        give_status(world, status.pending[0])
        again = await one(rows)
        assert (again.row, again.attempt, again.tries) == (key, letter.attempt, 1)

    run(label, body)


def test_a_letter_of_an_earlier_time_lets_nothing_go_that_is_held_at_a_later_one(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add(due_in=-HOUR * 24 * 90)
        rows, dead = world.rows(hold=True), DeadRows(world.database, world.shape)
        await park(world, rows, key)
        world.connection.execute('UPDATE app.schedules SET next_run_timestamp = next_run_timestamp + "interval"')
        await park(world, rows, key)
        earlier, later = await dead.oldest()
        assert await dead.retry([earlier.id]) == {earlier.id: False}
        assert await rows.claim(1) == []
        assert [letter.id for letter in await dead.oldest()] == [later.id]

    run("schedules", body)


NUMBERED = UserTable(
    label="numbered",
    ddl="""
CREATE TABLE app.jobs (job_id bigserial PRIMARY KEY, status text NOT NULL DEFAULT 'pending', run_at timestamp NOT NULL);
CREATE INDEX jobs_due ON app.jobs (status, run_at);""",
    table=TABLES["uuid"].table,
    new=inserting("run_at", "{due} AT TIME ZONE 'UTC'", "job_id")("app.jobs"),
)
MANY_TURNS = 3000
"""It is by chance which rows are looked at together once some cannot be read."""
REST = """
INSERT INTO soloist.claims (key, held_until, attempt)
SELECT s.id || ':' || {key}, now() + interval '1 day', 1
FROM soloist.sources AS s, generate_series(1, {count}) AS n WHERE s.name = 'app.jobs'"""


async def swept_down_to(count: int, world: MappedWorld, rows: MappedRows) -> None:
    for _ in range(MANY_TURNS):
        if world.sidecar() <= count:
            return
        await rows.sweep()
    raise AssertionError(f"{world.sidecar()} rows are left")


@pytest.mark.parametrize(("unreadable", "left"), [(3, 0), (600, 25)])
def test_a_sweep_that_cannot_read_a_key_fails_no_claim_and_goes_on_behind_it(
    run: Run, unreadable: int, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def of_uuids(world: MappedWorld) -> None:
        await world.add(1)
        assert len(await world.rows().claim(1)) == 1
        world.connection.execute("DELETE FROM soloist.claims")
        world.connection.execute(REST.format(key="('0' || substr(gen_random_uuid()::text, 2))", count=unreadable))

    async def of_numbers(world: MappedWorld) -> None:
        world.connection.execute(REST.format(key="(9000000 + n)", count=50))
        rows = world.rows()
        for _ in range(5):
            await world.add(1)
            rows._sweep_at = 0.0
            assert await rows.settle([Done(claim=await one(rows))]) == [ACCEPTED]
        await swept_down_to(unreadable + left, world, rows)
        assert scalar(world.connection, "SELECT count(*) FROM soloist.claims WHERE key ~ ':0'") == unreadable
        said = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert [record.message for record in said] == ["the sidecar cannot be swept"]
        assert 'invalid input syntax for type bigint: "0' in said[0].__dict__["sentence"]

    run("uuid", of_uuids)
    run(NUMBERED, of_numbers)


def test_unreadable_keys_among_others_keep_none_of_those_from_being_swept(run: Run) -> None:
    async def of_uuids(world: MappedWorld) -> None:
        await world.add(1)
        assert len(await world.rows().claim(1)) == 1
        world.connection.execute("DELETE FROM soloist.claims")
        for start in ("1", "9"):
            world.connection.execute(REST.format(key=f"('{start}' || substr(gen_random_uuid()::text, 2))", count=1))

    async def of_numbers(world: MappedWorld) -> None:
        world.connection.execute(REST.format(key="(5000000 + n)", count=3))
        world.connection.execute(REST.format(key="('0' || n)", count=3))
        await swept_down_to(2, world, world.rows())

    run("uuid", of_uuids)
    run(NUMBERED, of_numbers)


def test_a_sweep_that_could_not_be_asked_is_asked_again_and_said_again_only_after_it_was_well(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add(2)
        rows = world.rows()
        await rows.claim(2)
        await world.lapse()
        world.connection.execute("DELETE FROM app.deliveries")
        broken = "ALTER TABLE app.deliveries RENAME COLUMN state TO statue"
        mended = "ALTER TABLE app.deliveries RENAME COLUMN statue TO state"
        for warnings in (1, 2):
            world.connection.execute(broken)
            assert [await rows.sweep() for _ in range(3)] == [0, 0, 0]
            assert len(caplog.records) == warnings
            world.connection.execute(mended)
            swept = sum([await rows.sweep() for _ in range(12)])
            assert swept == (2 if warnings == 1 else 0)
        assert world.sidecar() == 0

    run("snake", body)


@pytest.mark.parametrize("anew", ["next_try = next_try - interval '1 s', lease_until = NULL", "lease_until = NULL"])
def test_what_an_outcome_remembers_while_a_sweep_looks_at_what_was_there_before_stays(
    run: Run, queue_database: Place, anew: str
) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

    async def body(world: MappedWorld) -> None:
        async def waits(count: int) -> None:
            found = lambda: scalar(world.connection, waiting) == count  # noqa: E731
            await asyncio.to_thread(until, found, what=f"{count} sessions wait for a row", timeout=30)

        world.connection.execute("DELETE FROM soloist.claims; DELETE FROM soloist.dead_rows")
        (key,) = await world.add()
        await world.refuse_done(key)
        rows = world.rows()
        assert await rows.settle([Done(claim=await one(rows))]) == [REFUSED]
        world.connection.execute(f"UPDATE {world.user.name} SET {anew}")
        claim = await one(rows)
        with psycopg.connect(queue_database.dsn()) as other:
            other.execute("SELECT FROM soloist.claims FOR UPDATE")
            outcome = asyncio.create_task(rows.settle([Done(claim=claim)]))
            await waits(1)
            sweep = asyncio.create_task(world.rows().sweep())
            await waits(2)
        assert (await outcome, await sweep, world.sidecar()) == ([REFUSED], 0, 1)
        assert await DeadRows(world.database, world.shape).purge_older(HOUR * 0) > 0
        await rows.sweep()
        assert await rows.claim(1) == [], "it rests on without its letter"

    run("snake inline", body)
