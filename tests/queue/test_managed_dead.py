"""Dead letters are listed, tried again and put away, one or many; and whatever breaks meanwhile, none is lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.managed_dead import DeadItems
from soloist.adapters.postgres.migrate import migrate
from soloist.domain.dead_letter import FIRST
from soloist.domain.errors import TransientError
from tests.cluster.proxy import TcpProxy
from tests.postgres.server import Database as Place
from tests.postgres.server import Postgres
from tests.queue.databases import opened, with_database
from tests.queue.rows import Connection, claim, enqueue, fail, items, scalar

NONE_LOST = "SELECT (SELECT count(*) FROM soloist.work_items), (SELECT count(*) FROM soloist.dead_items)"


def die(connection: Connection, count: int, queue: str = "q", error: str = "HTTP 410") -> list[int]:
    """One after the other, so that their order is known."""
    ids = []
    for _ in range(count):
        enqueue(connection, queue=queue)
        (row,) = claim(connection, queue=queue)
        fail(connection, [row], None, error)
        ids.append(row.id)
    return ids


def run(place: Place, body: Callable[[DeadItems], Awaitable[None]]) -> None:
    async def inside(database: Database) -> None:
        await body(DeadItems(database, "q"))

    with_database(place.dsn(), inside)


def test_letters_are_listed_page_by_page_those_first_that_died_first(
    queue_database: Place, connection: Connection
) -> None:
    ids = die(connection, 5)
    die(connection, 1, queue="other")
    connection.execute("UPDATE soloist.dead_items SET died_at = now() WHERE id = ANY(%s)", (ids[1:4],))

    async def body(dead: DeadItems) -> None:
        everyone = [letter.id for letter in await dead.oldest()]
        assert sorted(everyone) == ids
        seen, after = [], FIRST
        while page := await dead.oldest(2, after=after):
            seen += [letter.id for letter in page]
            after = page[-1].place
        assert seen == everyone
        (first,) = await dead.oldest(1)
        assert (first.row, first.reason, first.error, first.attempt) == ((str(first.id),), "Failed", "HTTP 410", 2)
        assert first.due is not None
        assert first.due <= first.died_at

    run(queue_database, body)


def test_a_letter_shows_its_last_error_and_its_payload(queue_database: Place, connection: Connection) -> None:
    (id_,) = die(connection, 1, error="HTTP 500: out of paper")
    (foreign,) = die(connection, 1, queue="other")

    async def body(dead: DeadItems) -> None:
        assert await dead.look(id_) == ("HTTP 500: out of paper", '{"n": 0}')
        assert await dead.look(foreign) is None

    run(queue_database, body)


def test_a_row_without_a_time_that_a_client_can_say_is_listed(queue_database: Place, connection: Connection) -> None:
    die(connection, 1)
    connection.execute("UPDATE soloist.dead_items SET due_at = '-infinity'")

    async def body(dead: DeadItems) -> None:
        (letter,) = await dead.oldest()
        assert letter.due is None

    run(queue_database, body)


def test_one_or_many_are_tried_again_and_the_others_stay(queue_database: Place, connection: Connection) -> None:
    ids = die(connection, 6)
    (foreign,) = die(connection, 1, queue="other")

    async def body(dead: DeadItems) -> None:
        assert await dead.retry([ids[4], foreign, 10**12]) == {ids[4]: True}
        assert await dead.retry([ids[4]]) == {}
        assert await dead.retry_oldest(2) == set(ids[:2])
        assert [letter.id for letter in await dead.oldest()] == [ids[2], ids[3], ids[5]]

    run(queue_database, body)
    assert {row["id"] for row in items(connection)} == {ids[4], ids[0], ids[1]}
    assert [row["id"] for row in items(connection, "dead_items")] == [ids[2], ids[3], ids[5], foreign]


def test_a_letter_whose_unique_key_is_in_use_again_stays_and_is_told_apart(
    queue_database: Place, connection: Connection
) -> None:
    enqueue(connection, unique_key="k")
    rows = claim(connection)
    fail(connection, rows, None)
    (other,) = die(connection, 1)
    enqueue(connection, unique_key="k")

    async def body(dead: DeadItems) -> None:
        assert await dead.retry([rows[0].id, other]) == {rows[0].id: False, other: True}
        assert await dead.retry_oldest() == set()

    run(queue_database, body)


def test_letters_are_put_away_by_id_or_by_age(queue_database: Place, connection: Connection) -> None:
    ids = die(connection, 4)
    (foreign,) = die(connection, 1, queue="other")

    async def body(dead: DeadItems) -> None:
        assert await dead.purge([ids[0], foreign]) == {ids[0]}
        assert await dead.purge_older(timedelta(hours=1)) == 0
        connection.execute("UPDATE soloist.dead_items SET died_at = now() - interval '2 hours' WHERE id = %s", ids[1:2])
        assert (await dead.count(), await dead.count(older_than=timedelta(hours=1))) == (3, 1)
        assert await dead.purge_older(timedelta(hours=1)) == 1
        assert await dead.purge_older(timedelta()) == 2

    run(queue_database, body)
    assert [row["id"] for row in items(connection, "dead_items")] == [foreign]


def test_a_retry_that_is_cut_off_in_mid_commit_happened_once_or_not_at_all(
    queue_database: Place, connection: Connection
) -> None:
    ids = die(connection, 50)

    async def body(proxy: TcpProxy) -> None:
        database = opened(queue_database.dsn(port=proxy.port))
        dead = DeadItems(database, "q")
        await dead.oldest(1)
        proxy.hold_replies()
        lost = asyncio.create_task(dead.retry(ids))
        while connection.execute(NONE_LOST).fetchone() != (50, 0):
            await asyncio.sleep(0.01)
        proxy.cut()
        proxy.forward()
        with pytest.raises(TransientError) as raised:
            await lost
        assert raised.value.sent
        assert await dead.retry(ids) == {}
        await database.close()

    with TcpProxy(queue_database.server.port) as proxy:
        asyncio.run(body(proxy))
    assert [row["id"] for row in items(connection)] == ids


def test_a_crash_of_the_server_loses_and_doubles_no_letter(fresh_postgres: Callable[..., Postgres]) -> None:
    """It crashes again and again while letters are tried again and rows die again."""
    server = fresh_postgres()
    place = server.create_database("dying")
    migrate(place.dsn())
    with place.connect() as connection:
        ids = set(die(connection, 200))

    async def back_and_forth(database: Database) -> None:
        dead = DeadItems(database, "q")
        give_up = (
            b"SELECT soloist.fail(array_agg(id), array_agg(fence), array_agg('x'::text), array_agg(NULL::interval))"
        )
        while True:
            try:
                await dead.retry_oldest(20)
                await database.fetch(give_up + b" FROM soloist.claim('q', 15)")
            except TransientError:
                await asyncio.sleep(0.02)

    async def body(database: Database) -> None:
        tasks = [asyncio.create_task(back_and_forth(database)) for _ in range(3)]
        for _ in range(2):
            moved = await asyncio.to_thread(attempts, place)
            async with asyncio.timeout(120):
                while await asyncio.to_thread(attempts, place) < moved + 500:
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(server.restart, "immediate")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with_database(place.dsn(), body)
    with place.connect() as connection:
        found = [row["id"] for table in ("work_items", "dead_items") for row in items(connection, table)]
    assert len(found) == len(ids)
    assert set(found) == ids


def attempts(place: Place) -> int:
    with place.connect() as connection:
        both = "SELECT sum(attempt) FROM (SELECT attempt FROM soloist.work_items UNION ALL SELECT attempt FROM soloist.dead_items) AS a"
        return int(scalar(connection, both))
