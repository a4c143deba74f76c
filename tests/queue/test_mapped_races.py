"""Several workers on one table of the user's: each row is accepted once, nobody deadlocks, and nothing of a claim is left."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import tests.queue.databases as databases
from soloist.adapters.postgres.mapped_sql import BY_INDEX
from soloist.adapters.postgres.mapped_statements import composed
from soloist.domain.claims import Claim, Done, Failed, PutBack, Settled, Verdict
from soloist.domain.errors import TransientError
from tests.cluster.children import until
from tests.contracts.rows import Key
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import MappedWorld, in_world, made, shape_in
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES, UserTable

ACCEPTED, LOST = Verdict.ACCEPTED, Verdict.LOST
WORKED = ["prisma", "prisma inline", "snake", "snake inline", "uuid", "composite", "composite inline", "bare"]
OTHER_ORDER = """
WITH ended AS (DELETE FROM soloist.claims AS k WHERE k.key = %(key)s AND k.fence = %(fence)s RETURNING k.key)
UPDATE app."WebhookDelivery" AS q SET status = 'DELIVERED' FROM ended WHERE q.id = %(id)s RETURNING 1"""


@pytest.mark.parametrize("label", WORKED)
def test_four_workers_share_two_thousand_rows(label: str, queue_database: Place, connection: Connection) -> None:
    async def body(world: MappedWorld) -> None:
        added: list[Key] = []
        for _ in range(4):
            added += await world.add(500)
        accepted: Counter[Key] = Counter()

        async def work(database: databases.Database) -> None:
            rows = MappedWorld(database, connection, world.user, world.shape).rows()
            while claims := await rows.claim(40):
                verdicts = await rows.settle([Done(claim=claim) for claim in claims])
                accepted.update(
                    claim.row for claim, verdict in zip(claims, verdicts, strict=True) if verdict is ACCEPTED
                )
                assert set(verdicts) == {ACCEPTED}

        workers = [databases.opened(queue_database.dsn()) for _ in range(4)]
        await asyncio.gather(*map(work, workers))
        for worker in workers:
            await worker.close()
        assert accepted == Counter(added)
        assert world.sidecar() == 0

    in_world(queue_database, connection, TABLES[label], body)


@pytest.mark.parametrize("label", ["prisma", "prisma inline", "composite"])
def test_workers_whose_leases_end_all_the_time_neither_deadlock_nor_double_an_outcome(
    label: str, queue_database: Place, connection: Connection
) -> None:
    """Leases end while their workers renew, settle and claim in every order: whoever comes too late is told so."""

    async def body(world: MappedWorld) -> None:
        added = await world.add(120)
        accepted: Counter[Key] = Counter()
        said: Counter[Verdict] = Counter()
        lease = timedelta(milliseconds=2)

        async def work(database: databases.Database, number: int) -> None:
            rows = MappedWorld(database, connection, world.user, world.shape).rows(lease=lease, max_reclaims=10**6)
            while len(accepted) < len(added):
                claims = await rows.claim(20 + number)
                held = await rows.renew(claims[::-1])
                assert held <= {claim.fence for claim in claims}
                outcomes: list[Settled] = [
                    PutBack(claim=claim) if claim.fence % 3 == 0 else Done(claim=claim) for claim in reversed(claims)
                ]
                verdicts = await rows.settle(outcomes)
                done = [each for each in zip(outcomes, verdicts, strict=True) if isinstance(each[0], Done)]
                accepted.update(outcome.claim.row for outcome, verdict in done if verdict is ACCEPTED)
                said.update(verdicts)

        workers = [databases.opened(queue_database.dsn()) for _ in range(4)]
        async with asyncio.timeout(240):
            await asyncio.gather(*(work(database, number) for number, database in enumerate(workers)))
        for worker in workers:
            await worker.close()
        assert accepted == Counter(added)
        assert set(said) == {ACCEPTED, LOST}, "some came too late, and nothing else befell them"
        assert world.sidecar() == 0
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert scalar(connection, deadlocks) == before

    before = scalar(connection, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    in_world(queue_database, connection, TABLES[label], body)


@pytest.fixture
def claimed(queue_database: Place, connection: Connection) -> MappedWorld:
    """A row whose lease is over, so that a claim wants it while its outcome is being written."""
    user: UserTable = TABLES["prisma"]
    made(connection, user)
    database = databases.opened(queue_database.dsn())
    with asyncio.Runner() as runner:
        world = MappedWorld(database, connection, user, runner.run(shape_in(database, user)))
        runner.run(world.add())
        world.held = runner.run(world.rows().claim(1))  # type: ignore[attr-defined]
        runner.run(world.lapse())
        runner.run(database.close())
    return world


def outcome_of(world: MappedWorld, order: str) -> tuple[bytes, dict[str, Any]]:
    (claim,) = world.held  # type: ignore[attr-defined]
    if order == "the user's row first":
        return composed(world.shape).complete, {"r0": [claim.row[0]], "fence": [claim.fence]}
    key = f"{world.shape.source}:{claim.row[0]}"
    return OTHER_ORDER.encode(), {"key": key, "fence": claim.fence, "id": claim.row[0]}


@pytest.mark.parametrize("order", ["the user's row first", "the sidecar's row first"])
def test_an_outcome_that_meets_a_claim_deadlocks_only_in_the_other_order(
    order: str, claimed: MappedWorld, queue_database: Place
) -> None:
    """Both are held up at the row of the sidecar, where the other order holds nothing of the user's yet: the claim takes
    that, and each then waits for what the other has."""
    statement, values = outcome_of(claimed, order)
    claim = {"most": 1, "lease": timedelta(minutes=1), "worker": "w2", "after": "-infinity", "without": []}
    said: dict[str, Any] = {}

    def run(name: str, text: bytes, given: dict[str, Any]) -> None:
        with queue_database.connect(autocommit=False, application_name=name) as connection:
            connection.execute(BY_INDEX)
            try:
                said[name] = connection.execute(text, given).fetchall()
                connection.commit()
            except psycopg.errors.DeadlockDetected as deadlock:
                said[name] = deadlock

    waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
    with queue_database.connect(autocommit=False) as blocker, queue_database.connect() as watcher:
        blocker.execute("SELECT FROM soloist.claims FOR UPDATE")
        outcome = threading.Thread(target=run, args=("outcome", statement, values))
        outcome.start()
        until(lambda: scalar(watcher, waiting, ("outcome",)) == 1, what="the outcome waits for the sidecar", timeout=90)
        other = threading.Thread(target=run, args=("claim", composed(claimed.shape).claims[0], claim))
        other.start()
        until(
            lambda: "claim" in said or scalar(watcher, waiting, ("claim",)) == 1,
            what="the claim is over, or waits",
            timeout=90,
        )
        blocker.rollback()
        outcome.join(90)
        other.join(90)
    deadlocked = [name for name, what in said.items() if isinstance(what, Exception)]
    if order == "the user's row first":
        assert deadlocked == []
        assert said["claim"] == [], "it passed over the row"
        assert len(said["outcome"]) == 1
    else:
        assert len(deadlocked) == 1, "this is what the order is for"


def test_a_claim_that_saw_a_row_free_before_another_took_it_does_not_get_it(
    queue_database: Place, connection: Connection
) -> None:
    """Its look is as old as its snapshot; the sidecar's primary key is not. The row was taken, and its lock given back,
    while the claim that had looked before was held up."""

    async def body(world: MappedWorld) -> None:
        await world.add(2)
        found: list[Claim] = []
        with queue_database.connect(autocommit=False) as blocker:
            # Both look while nothing is claimed, and come to write one after the other.
            blocker.execute("LOCK TABLE soloist.claims IN SHARE ROW EXCLUSIVE MODE")
            late = asyncio.create_task(world.rows().claim(2))
            await until_waiting(connection, 1)
            early = asyncio.create_task(world.rows().claim(2))
            await until_waiting(connection, 2)
            blocker.rollback()
            for task in (late, early):
                found += await task
        assert len(found) == 2
        assert len({claim.row for claim in found}) == 2

    in_world(queue_database, connection, TABLES["prisma"], body)


async def until_waiting(connection: Connection, count: int) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tests' AND wait_event_type = 'Lock'"
    async with asyncio.timeout(90):
        while scalar(connection, query) < count:
            await asyncio.sleep(0.01)


def test_an_old_worker_whose_claim_was_taken_over_while_it_waited_writes_nothing(
    queue_database: Place, connection: Connection
) -> None:
    """Its statement had seen its own fence; by the time that it has the row's lock another one is there."""

    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        (stale,) = await world.rows().claim(1)
        await world.lapse()
        with queue_database.connect(autocommit=False) as other:
            other.execute(f'SELECT FROM app."WebhookDelivery" AS q WHERE {world.where(key)} FOR UPDATE')
            late = asyncio.create_task(world.rows().settle([Done(claim=stale)]))
            await until_waiting(connection, 1)
            other.execute(
                "UPDATE soloist.claims SET fence = fence + 1, held_until = clock_timestamp() + interval '1 hour'"
            )
            other.commit()
        assert await late == [LOST]
        row = world.row(key)
        assert row is not None
        assert (row["status"], row["attempts"]) == ("PENDING", 0)
        assert world.fence(key) == stale.fence + 1

    in_world(queue_database, connection, TABLES["prisma"], body)


def test_an_application_that_changes_the_row_while_the_outcome_waits_for_it_is_seen(
    queue_database: Place, connection: Connection
) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        (claim,) = await world.rows().claim(1)
        with queue_database.connect(autocommit=False) as application:
            application.execute(
                """UPDATE app."WebhookDelivery" SET "nextAttemptAt" = "nextAttemptAt" + interval '5 ms'"""
            )
            late = asyncio.create_task(world.rows().settle([Done(claim=claim)]))
            await until_waiting(connection, 1)
            application.commit()
        assert await late == [Verdict.CHANGED]
        assert world.standing(key).state == "waiting"
        assert world.sidecar() == 0

    for label in ("prisma", "prisma inline"):
        in_world(queue_database, connection, TABLES[label], body)


def test_a_lost_reply_does_no_harm_when_the_outcome_is_written_again(
    queue_database: Place, connection: Connection
) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        rows = world.rows()
        (claim,) = await rows.claim(1)
        with queue_database.connect(autocommit=False) as other:
            other.execute('SELECT FROM app."WebhookDelivery" FOR UPDATE')
            late = asyncio.create_task(rows.settle([Failed(claim=claim, error="503", retry_in=timedelta(hours=1))]))
            await until_waiting(connection, 1)
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tests' AND wait_event_type = 'Lock'"
            )
            with pytest.raises(TransientError):
                await late
        assert await rows.settle([Failed(claim=claim, error="503", retry_in=timedelta(hours=1))]) == [ACCEPTED]
        row = world.row(key)
        assert row is not None
        assert row["attempts"] == 1

    in_world(queue_database, connection, TABLES["prisma"], body)
