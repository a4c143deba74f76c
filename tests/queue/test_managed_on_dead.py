"""The queue's own statement for the dead commits with the letter, on the managed table as on the users' own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.managed import ManagedRows
from soloist.domain.claims import Done, Failed, Parked, PutBack, Settled
from soloist.domain.queue_spec import OnDead
from tests.contracts.rows import ACCEPTED, HOUR, LOST, REFUSED, Enter, RowsFacts, World
from tests.postgres.server import Database as Place
from tests.queue.databases import with_database
from tests.queue.rows import Connection, enqueue, items, lapse
from tests.queue.test_managed_rows import ManagedWorld

TOLD = OnDead(
    statement="INSERT INTO told VALUES ($1, $2, $3, $4, $5)", values=("id", "queue", "reason", "error", "attempt")
)
TABLE = "CREATE TABLE told (id text, queue text, reason text, error text CHECK (error <> 'unheard of'), attempt text)"


class OnDeadWorld(ManagedWorld):
    """Of a queue that has such a statement."""

    def rows(
        self,
        *,
        lease: timedelta = timedelta(minutes=1),
        hold: bool = False,
        max_reclaims: int = 5,
        on_dead: OnDead = TOLD,
    ) -> ManagedRows:
        queue = ClaimRules(name="q", worker="w", lease=lease, hold=hold, max_reclaims=max_reclaims, on_dead=on_dead)
        return ManagedRows(self.database, queue, boottime=time.monotonic)


@pytest.fixture
def enter(queue_database: Place, connection: Connection) -> Any:
    connection.execute(TABLE)

    def entering(body: Callable[[World], Awaitable[None]]) -> None:
        async def inside(database: Database) -> None:
            await body(OnDeadWorld(database, connection))

        with_database(queue_database.dsn(), inside)

    yield entering
    connection.execute("DROP FUNCTION IF EXISTS public.not_this_one CASCADE")


class TestManagedRowsWithAStatementForTheDead(RowsFacts):
    @pytest.fixture
    def enter(self, enter: Enter) -> Enter:
        return enter


def told(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute("SELECT id::bigint, reason, error, attempt FROM told ORDER BY 1").fetchall()


def test_the_statement_is_run_for_each_that_dies_and_for_no_other(enter: Enter, connection: Connection) -> None:
    ids = enqueue(connection, 7)

    async def body(world: World) -> None:
        rows = world.rows()
        claims = sorted(await rows.claim(7), key=lambda claim: int(claim.row[0]))
        await rows.settle([PutBack(claim=claims[6], retry_in=HOUR)])
        outcomes: list[Settled] = [
            Done(claim=claims[0]),
            Failed(claim=claims[1], error="410", retry_in=None),
            Failed(claim=claims[2], error="503", retry_in=HOUR),
            Parked(claim=claims[3], error="no reply"),
            PutBack(claim=claims[4], retry_in=HOUR),
            Failed(claim=claims[6], error="410", retry_in=None),
        ]
        assert await rows.settle(outcomes) == [ACCEPTED] * 5 + [LOST]

    enter(body)
    assert told(connection) == [(ids[1], "Failed", "410", "1"), (ids[3], "Interrupted", "no reply", "1")]


@pytest.mark.parametrize(("hold", "claims", "reason"), [(True, 1, "Interrupted"), (False, 3, "ReclaimedTooOften")])
def test_it_is_run_for_rows_whose_claims_come_to_nothing(
    enter: Enter, connection: Connection, hold: bool, claims: int, reason: str
) -> None:
    ids = enqueue(connection, 3)

    async def body(world: World) -> None:
        rows = world.rows(hold=hold, max_reclaims=2)
        for _ in range(claims):
            assert len(await rows.claim(3)) == 3
            lapse(connection)
            connection.execute("UPDATE soloist.work_items SET due_at = least(due_at, now())")
        assert await rows.claim(3) == []

    enter(body)
    assert [(id_, why) for id_, why, _, _ in told(connection)] == [(id_, reason) for id_ in ids]
    assert [(row["id"], row["reason"]) for row in items(connection, "dead_items")] == [(id_, reason) for id_ in ids]


def test_a_row_whose_death_it_refuses_is_parked_without_it_and_the_others_with_it(
    enter: Enter, connection: Connection
) -> None:
    ids = enqueue(connection, 5)

    async def body(world: World) -> None:
        rows = world.rows()
        claims = sorted(await rows.claim(5), key=lambda claim: int(claim.row[0]))
        errors = ["a", "b", "unheard of", "d", "e"]
        failed = [Failed(claim=claim, error=said, retry_in=None) for claim, said in zip(claims, errors, strict=True)]
        assert await rows.settle(failed) == [ACCEPTED, ACCEPTED, REFUSED, ACCEPTED, ACCEPTED]

    enter(body)
    assert [(id_, why) for id_, why, _, _ in told(connection)] == [
        (id_, "Refused" if id_ == ids[2] else "Failed") for id_ in ids
    ]
    (refused,) = (row for row in items(connection, "dead_items") if row["reason"] == "Refused")
    assert "told_error_check" in refused["last_error"]


def test_a_statement_that_cannot_be_run_at_all_keeps_no_row_alive(enter: Enter, connection: Connection) -> None:
    enqueue(connection, 3)

    async def body(world: World) -> None:
        assert isinstance(world, OnDeadWorld)
        rows = world.rows(on_dead=OnDead(statement="SELECT * FROM nowhere", values=()))
        claims = await rows.claim(3)
        assert await rows.settle([Failed(claim=claim, error="x", retry_in=None) for claim in claims]) == [REFUSED] * 3
        assert await rows.claim(3) == []

    enter(body)
    assert [row["reason"] for row in items(connection, "dead_items")] == ["Refused"] * 3


def test_many_that_die_at_once_do_not_keep_a_fresh_row_waiting(enter: Enter, connection: Connection) -> None:
    enqueue(connection, 30)

    async def body(world: World) -> None:
        rows = world.rows(hold=True)
        await rows.claim(30)
        lapse(connection)
        ((fresh,),) = [enqueue(connection)]
        assert [claim.row for claim in await rows.claim(1)] == [(str(fresh),)]

    enter(body)
