"""Dead letters of rows of a user's table: listed, tried again, put away; and what the application did with the row since."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from soloist.adapters.postgres.mapped_dead import DeadRows
from soloist.adapters.postgres.mapped_opening import open_dead_rows
from soloist.domain.claims import Claim, Done, Failed, Parked, Settled, Verdict
from soloist.domain.dead_letter import FIRST
from tests.contracts.rows import HOUR, NOTHING, Key
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import QUEUE, MappedWorld, in_world, with_retry_at_once
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES

ACCEPTED = Verdict.ACCEPTED
Run = Callable[..., None]
EVERY = [
    "prisma",
    "prisma inline",
    "snake",
    "snake inline",
    "uuid",
    "composite",
    "composite inline",
    "bare",
    "schedules",
]


@pytest.fixture
def run(queue_database: Place, connection: Connection) -> Run:
    def enter(label: str, body: Callable[[MappedWorld, DeadRows], Awaitable[None]], **more: Any) -> None:
        async def inside(world: MappedWorld) -> None:
            await body(world, await open_dead_rows(world.database, QUEUE, world.spec))

        in_world(queue_database, connection, TABLES[label], inside, **more)

    return enter


async def one(world: MappedWorld, **more: Any) -> Claim:
    (claim,) = await world.rows(**more).claim(1)
    return claim


async def give_up(world: MappedWorld, *, attempts: int = 1) -> Claim:
    """A row that fails for the last time."""
    for attempt in range(1, attempts + 1):
        claim = await one(world)
        wait = None if attempt == attempts else NOTHING
        assert await world.rows().settle([Failed(claim=claim, error=f"410, attempt {attempt}", retry_in=wait)]) == [
            ACCEPTED
        ]
    return claim


@pytest.mark.parametrize("label", EVERY)
def test_a_letter_says_which_row_died_when_and_of_what(run: Run, label: str) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        (key,) = await world.add()
        before = await world.now()
        claim = await give_up(world)
        (letter,) = await dead.oldest()
        assert (letter.row, letter.reason, letter.error) == (key, "Failed", "410, attempt 1")
        assert (letter.attempt, letter.reclaims, letter.due) == (2, 0, claim.due)
        assert before <= letter.died_at <= await world.now()

    run(label, body)


@pytest.mark.parametrize("label", EVERY)
def test_a_row_that_is_tried_again_by_hand_is_due_now_with_a_fresh_budget(run: Run, label: str) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        (key,) = await world.add()
        with_retry_at_once(world)
        await give_up(world, attempts=8)
        (letter,) = await dead.oldest()
        assert await dead.retry([letter.id]) == {letter.id: True}
        assert await dead.oldest() == []
        again = await one(world)
        assert again.row == key
        # A column that is claimed inline has no place for tries that no longer count.
        assert (again.attempt, again.tries) == ((1, 1) if world.shape.inline else (9, 1))
        assert await world.rows().settle([Failed(claim=again, error="503", retry_in=NOTHING)]) == [ACCEPTED]
        once_more = await one(world)
        assert (once_more.attempt, once_more.tries) == ((2, 2) if world.shape.inline else (10, 2))

    run(label, body)


@pytest.mark.parametrize("label", EVERY)
def test_an_interrupted_attempt_keeps_its_number_when_it_is_tried_again(run: Run, label: str) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        (key,) = await world.add()
        await world.rows().settle([Failed(claim=await one(world), error="503", retry_in=NOTHING)])
        claim = await one(world)
        assert claim.attempt == 2
        assert await world.rows().settle([Parked(claim=claim, error="no reply")]) == [ACCEPTED]
        (letter,) = await dead.oldest()
        assert (letter.reason, letter.attempt) == ("Interrupted", 2)
        assert await dead.retry([letter.id]) == {letter.id: True}
        again = await one(world)
        assert (again.row, again.attempt) == (key, 2)

    run(label, body)


@pytest.mark.parametrize("label", ["prisma", "prisma inline", "composite", "schedules"])
@pytest.mark.parametrize("what", ["moved it on", "deleted it"])
def test_a_row_that_the_application_moved_on_is_left_alone_and_its_letter_goes(run: Run, label: str, what: str) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        (key,) = await world.add()
        await give_up(world)
        if what == "deleted it":
            await world.remove(key)
        else:
            status = world.shape.table.status
            assert status is not None
            value = {"app.schedules": "ended", "app.tenant_events": "9"}.get(world.user.name, "DELIVERED")
            world.connection.execute(f"UPDATE {world.user.name} SET \"{status.column}\" = '{value}'")
        before = world.row(key)
        (letter,) = await dead.oldest()
        assert await dead.retry([letter.id]) == {letter.id: False}
        assert world.row(key) == before
        assert await dead.oldest() == []
        assert await world.rows().claim(1) == []

    run(label, body)


def test_a_row_that_is_done_after_all_has_no_letter_any_more(run: Run) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        await world.add()
        await give_up(world)
        world.connection.execute(
            """UPDATE app."WebhookDelivery" SET status = 'PENDING', attempts = 0, "nextAttemptAt" = now() AT TIME ZONE 'UTC'"""
        )
        assert len(await dead.oldest()) == 1
        assert await world.rows().settle([Done(claim=await one(world))]) == [ACCEPTED]
        assert await dead.oldest() == []

    for label in ("prisma", "prisma inline"):
        run(label, body)


def test_a_row_that_dies_twice_at_one_time_has_one_letter_with_the_later_error(run: Run) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        await world.add()
        await give_up(world)
        world.connection.execute("UPDATE app.\"WebhookDelivery\" SET status = 'PENDING'")
        claim = await one(world)
        await world.rows().settle([Failed(claim=claim, error="410 again", retry_in=None)])
        assert [letter.error for letter in await dead.oldest()] == ["410 again"]

    run("prisma", body)


def test_many_are_tried_again_at_once_and_one_only_once(run: Run) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        await world.add(20)
        rows = world.rows()
        outcomes: list[Settled] = [Failed(claim=claim, error="410", retry_in=None) for claim in await rows.claim(20)]
        await rows.settle(outcomes)
        ids = [letter.id for letter in await dead.oldest()]
        assert await dead.retry([*ids, *ids, 10**9]) == dict.fromkeys(ids, True)
        assert await dead.retry(ids) == {}
        assert len(await rows.claim(50)) == 20

    run("composite", body)


def test_letters_that_are_put_away_leave_their_rows_as_they_are(run: Run) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        (key,) = await world.add()
        await give_up(world)
        before = world.row(key)
        ids = [letter.id for letter in await dead.oldest()]
        assert await dead.purge(ids) == set(ids)
        assert await dead.purge(ids) == set()
        assert await dead.oldest() == []
        assert world.row(key) == before

    run("prisma", body)


def test_the_oldest_letters_come_first_and_no_more_than_were_asked_for(run: Run) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        order: list[Key] = []
        for _ in range(5):
            order += await world.add()
            await give_up(world)
        assert [letter.row for letter in await dead.oldest(3)] == order[:3]

    run("prisma", body)


def test_letters_of_one_row_at_several_times_are_letters_of_their_own(run: Run) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        (key,) = await world.add(due_in=-HOUR * 24 * 90)
        for _ in range(2):
            await give_up(world)
            world.connection.execute('UPDATE app.schedules SET next_run_timestamp = next_run_timestamp + "interval"')
        letters = await dead.oldest()
        assert [letter.row for letter in letters] == [key, key]
        assert len({letter.due for letter in letters}) == 2
        assert await dead.retry([letter.id for letter in letters]) == {letter.id: False for letter in letters}
        assert scalar(world.connection, "SELECT count(*) FROM soloist.dead_rows") == 0

    run("schedules", body)


def test_letters_are_listed_page_by_page_those_first_that_died_first(run: Run) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        await world.add(5)
        for _ in range(5):
            await give_up(world)
        world.connection.execute("UPDATE soloist.dead_rows SET died_at = now() WHERE id % 2 = 0")
        everyone = [(letter.died_at, letter.id) for letter in await dead.oldest()]
        assert everyone == sorted(everyone)
        seen, after = [], FIRST
        while page := await dead.oldest(2, after=after):
            seen += [letter.place for letter in page]
            after = page[-1].place
        assert seen == everyone

    run("snake", body)


def test_letters_are_counted_and_put_away_by_age(run: Run) -> None:
    async def body(world: MappedWorld, dead: DeadRows) -> None:
        keys = await world.add(3)
        for _ in keys:
            await give_up(world)
        world.connection.execute(
            "UPDATE soloist.dead_rows SET died_at = now() - interval '2 hours' WHERE pk = %s", (list(keys[0]),)
        )
        world.connection.execute("UPDATE soloist.dead_rows SET queue = 'other' WHERE pk = %s", (list(keys[1]),))
        before = [world.row(key) for key in keys]
        assert (await dead.count(), await dead.count(older_than=timedelta(hours=1))) == (2, 1)
        assert await dead.purge_older(timedelta(hours=1)) == 1
        assert [letter.row for letter in await dead.oldest()] == [keys[2]]
        assert await dead.purge_older(timedelta()) == 1
        assert [world.row(key) for key in keys] == before
        assert scalar(world.connection, "SELECT count(*) FROM soloist.dead_rows") == 1

    run("snake", body)
