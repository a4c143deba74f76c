"""The rows of soloist.work_items keep the contract of ``Rows``, also through a transaction pooler; and what is their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import sql

import tests.queue.databases as databases
from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.depths import managed_depths
from soloist.adapters.postgres.managed import ManagedRows
from soloist.adapters.postgres.managed_dead import DeadItems
from soloist.domain.claims import Done, Failed, PutBack, Verdict
from soloist.domain.errors import PermanentError, TransientError
from soloist.loops.row_ports import Rows
from tests.contracts.rows import ACCEPTED, LOST, NOTHING, REFUSED, Body, Enter, Key, RowsFacts, Standing
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database as Place
from tests.queue.rows import Connection, enqueue, items, lapse, scalar

REFUSAL = """
CREATE FUNCTION public.not_this_one() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.id = {id} AND current_query() LIKE '%soloist.complete%' THEN RAISE EXCEPTION 'row % is wanted for ever', OLD.id; END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER not_this_one BEFORE DELETE ON soloist.work_items FOR EACH ROW EXECUTE FUNCTION public.not_this_one()"""


class ManagedWorld:
    """A queue of the managed table; what the test does to it goes through a connection of its own."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database, self.connection = database, connection
        self.added: list[Key] = []

    def rows(self, *, lease: timedelta = timedelta(minutes=1), hold: bool = False, max_reclaims: int = 5) -> Rows:
        queue = ClaimRules(name="q", worker="worker-1", lease=lease, hold=hold, max_reclaims=max_reclaims)
        return ManagedRows(self.database, queue, boottime=time.monotonic)

    async def add(self, count: int = 1, *, due_in: timedelta = NOTHING) -> list[Key]:
        due = await self.now() + due_in
        added = [(str(key),) for key in enqueue(self.connection, count, due_at=due)]
        self.added += added
        return added

    async def look(self) -> dict[Key, Standing]:
        dead = {(str(row["id"]),): standing(row) for row in items(self.connection, "dead_items")}
        held = {(str(row["id"]),): row["fence"] is not None for row in items(self.connection)}
        alive = {key: Standing(state="claimed" if claimed else "waiting") for key, claimed in held.items()}
        return {key: (dead | alive).get(key, Standing(state="done")) for key in self.added}

    async def lapse(self) -> None:
        lapse(self.connection)

    async def now(self) -> datetime:
        moment: datetime = scalar(self.connection, "SELECT clock_timestamp()")
        return moment

    async def reach(self, moment: datetime) -> None:
        while await self.now() < moment:
            await asyncio.sleep(0.005)

    async def remove(self, key: Key) -> None:
        self.connection.execute("SELECT soloist.cancel(%s)", ([int(key[0])],))

    async def revive(self, key: Key) -> None:
        self.connection.execute("SELECT soloist.retry_dead(%s)", ([int(key[0])],))

    async def refuse_done(self, key: Key) -> None:
        self.connection.execute(sql.SQL(REFUSAL).format(id=int(key[0])))


def standing(row: dict[str, Any]) -> Standing:
    return Standing(state="dead", reason=row["reason"], error=row["last_error"] or "")


def entering(dsn: str, connection: Connection) -> Enter:
    def enter(body: Body) -> None:
        async def inside(database: Database) -> None:
            await body(ManagedWorld(database, connection))

        databases.with_database(dsn, inside)

    return enter


class TestManagedRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Any:
        yield entering(queue_database.dsn(), connection)
        connection.execute("DROP FUNCTION IF EXISTS public.not_this_one CASCADE")


class TestManagedRowsBehindATransactionPooler(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection, pgbouncer: PgBouncer) -> Any:
        yield entering(pgbouncer.dsn(queue_database.name), connection)
        connection.execute("DROP FUNCTION IF EXISTS public.not_this_one CASCADE")


# What is the managed table's own


def managed(database: Database, **changed: Any) -> ManagedRows:
    return ManagedRows(database, ClaimRules(name="q", worker="worker-1", **changed), boottime=time.monotonic)


def run(place: Place, body: Callable[[Database], Awaitable[None]]) -> None:
    databases.with_database(place.dsn(), body)


def test_a_claim_brings_what_the_row_holds(queue_database: Place, connection: Connection) -> None:
    due = scalar(connection, "SELECT timestamptz '2026-03-01 02:00:00.123456+01'")
    enqueue(connection, due_at=due, unique_key="invoice-7", priority=0)

    async def body(database: Database) -> None:
        (claim,) = await managed(database).claim(1)
        assert (claim.unique_key, claim.priority, claim.payload) == ("invoice-7", 0, {"n": 0})
        assert claim.due == datetime(2026, 3, 1, 1, 0, 0, 123456, tzinfo=UTC)
        assert claim.due.utcoffset() == timedelta()

    run(queue_database, body)
    (row,) = items(connection)
    assert (row["claimed_by"], row["lease_until"] - row["created_at"] > timedelta(seconds=59)) == ("worker-1", True)


@pytest.mark.parametrize(
    ("payload", "seen"),
    [
        ("[1, 2.5, null, true, \"ü\"]", [1, 2.5, None, True, "ü"]),
        ("9" * 20, 99999999999999999999),
        ("9" * 5000, "9" * 5000),
        ("[" * 3000 + "]" * 3000, "[" * 3000 + "]" * 3000),
        ('"text"', "text"),
        ("null", None),
    ],
    ids=["a list", "a large number", "a number too large for Python", "a nest too deep for Python", "text", "null"],
)  # fmt: skip
def test_no_payload_stops_a_queue(queue_database: Place, connection: Connection, payload: str, seen: Any) -> None:
    connection.execute("SELECT soloist.enqueue('q', %s::text::jsonb)", (payload,))

    async def body(database: Database) -> None:
        (claim,) = await managed(database).claim(1)
        assert claim.payload == seen

    run(queue_database, body)


def test_a_row_that_has_been_due_for_ever_is_claimed_first(queue_database: Place, connection: Connection) -> None:
    (second,) = enqueue(connection)
    (first,) = enqueue(connection, due_at="-infinity")
    enqueue(connection, due_at="infinity")

    async def body(database: Database) -> None:
        rows = managed(database)
        seen = [claim for _ in range(3) for claim in await rows.claim(1)]
        assert [claim.row for claim in seen] == [(str(first),), (str(second),)]

    run(queue_database, body)


def test_more_rows_than_one_statement_claims_are_claimed_by_several(
    queue_database: Place, connection: Connection
) -> None:
    connection.execute(
        "SELECT FROM soloist.enqueue_many('q', (SELECT array_agg('{}'::jsonb) FROM generate_series(1, 1300)))"
    )

    async def body(database: Database) -> None:
        rows = ManagedRows(database, ClaimRules(name="q", worker="w"), boottime=lambda: 0.0)
        claims = [await rows.claim(1200), await rows.claim(1200)]
        assert [len(batch) for batch in claims] == [1200, 100]
        assert len({claim.row for batch in claims for claim in batch}) == 1300
        assert await rows.settle([Done(claim=claim) for batch in claims for claim in batch]) == [ACCEPTED] * 1300

    run(queue_database, body)


def test_a_wait_that_no_time_can_hold_parks_its_row_only(queue_database: Place, connection: Connection) -> None:
    enqueue(connection, 5)

    async def body(database: Database) -> None:
        rows = managed(database)
        claims = await rows.claim(5)
        waits = [timedelta(hours=1), timedelta.max, timedelta(hours=1), timedelta(days=200_000_000), timedelta(0)]
        failed = [Failed(claim=claim, error="503", retry_in=wait) for claim, wait in zip(claims, waits, strict=True)]
        verdicts = await rows.settle(failed)
        assert verdicts == [ACCEPTED, REFUSED, ACCEPTED, REFUSED, ACCEPTED]

    run(queue_database, body)
    assert [row["attempt"] for row in items(connection)] == [2, 2, 2]
    assert [(row["reason"], row["attempt"]) for row in items(connection, "dead_items")] == [("Refused", 1)] * 2


def test_a_trigger_that_breaks_for_one_row_keeps_the_outcomes_of_no_other(own_queue_database: Place) -> None:
    with own_queue_database.connect() as connection:
        ids = enqueue(connection, 5)
        connection.execute(
            sql.SQL(REFUSAL.replace("RAISE EXCEPTION 'row % is wanted for ever', OLD.id", "PERFORM nothing()")).format(
                id=ids[2]
            )
        )

    async def body(database: Database) -> None:
        rows = managed(database)
        claims = sorted(await rows.claim(5), key=lambda claim: int(claim.row[0]))
        verdicts = await rows.settle([Done(claim=claim) for claim in claims])
        assert verdicts == [ACCEPTED, ACCEPTED, REFUSED, ACCEPTED, ACCEPTED]

    databases.with_database(own_queue_database.dsn(), body)
    with own_queue_database.connect() as connection:
        (dead,) = items(connection, "dead_items")
    assert "function nothing() does not exist" in dead["last_error"]


def test_a_right_that_is_missing_parks_nothing(own_queue_database: Place) -> None:
    role = own_queue_database.server.role("hindered_worker")
    with own_queue_database.connect() as connection:
        connection.execute("SELECT soloist.allow_work('hindered_worker')")
        enqueue(connection, 3)

    async def body(database: Database) -> None:
        rows = managed(database)
        outcomes = [Done(claim=claim) for claim in await rows.claim(3)]
        with own_queue_database.connect() as connection:
            connection.execute("REVOKE DELETE ON soloist.work_items FROM hindered_worker")
            with pytest.raises(PermanentError, match="permission denied for table work_items"):
                await rows.settle(outcomes)
            connection.execute("GRANT DELETE ON soloist.work_items TO hindered_worker")
        assert await rows.settle(outcomes) == [ACCEPTED] * 3

    databases.with_database(own_queue_database.dsn(role), body)


def test_two_claims_of_one_row_in_one_batch_are_told_apart(queue_database: Place, connection: Connection) -> None:
    enqueue(connection)

    async def body(database: Database) -> None:
        rows = managed(database)
        (stale,) = await rows.claim(1)
        lapse(connection)
        (held,) = await rows.claim(1)
        assert await rows.renew([held, stale]) == {held.fence}
        assert await rows.settle([Done(claim=held), Done(claim=stale)]) == [ACCEPTED, LOST]

    run(queue_database, body)


def test_a_row_that_comes_back_before_the_start_is_found_within_a_poll(
    queue_database: Place, connection: Connection
) -> None:
    """Full claims go on behind the last row; one from the head comes once in a poll interval."""
    clock = 0.0
    first = enqueue(connection, 2)
    enqueue(connection, 8)

    async def body(database: Database) -> None:
        nonlocal clock
        rows = ManagedRows(database, ClaimRules(name="q", worker="w"), boottime=lambda: clock)
        claims = await rows.claim(2)
        assert sorted(int(claim.row[0]) for claim in claims) == first
        await rows.settle([PutBack(claim=claim) for claim in claims])
        clock += 0.2
        assert not {claim.row for claim in await rows.claim(2)} & {claim.row for claim in claims}
        clock += 0.06
        assert {claim.row for claim in await rows.claim(2)} == {claim.row for claim in claims}

    run(queue_database, body)


def test_a_claim_that_finds_too_little_behind_the_start_looks_from_the_head(
    queue_database: Place, connection: Connection
) -> None:
    first, *_ = enqueue(connection, 3)

    async def body(database: Database) -> None:
        rows = ManagedRows(database, ClaimRules(name="q", worker="w"), boottime=lambda: 0.0)
        (claim,) = await rows.claim(1)
        assert claim.row == (str(first),)
        await rows.settle([PutBack(claim=claim)])
        assert len(await rows.claim(5)) == 3
        assert await rows.claim(5) == []

    run(queue_database, body)


def test_rows_that_were_found_before_the_database_failed_are_handed_out(
    queue_database: Place, connection: Connection
) -> None:
    """They are claimed: were they kept back, their leases would end and nobody would have tried them."""
    spent = enqueue(connection, 3)

    async def body(database: Database) -> None:
        rows = managed(database, hold=True)
        assert len(await rows.claim(3)) == 3
        lapse(connection)
        (fresh,) = enqueue(connection)
        connection.execute("ALTER TABLE soloist.dead_items RENAME TO away")
        try:
            assert [claim.row for claim in await rows.claim(4)] == [(str(fresh),)]
            lapse(connection)
            with pytest.raises(PermanentError):
                await rows.claim(4)
        finally:
            connection.execute("ALTER TABLE soloist.away RENAME TO dead_items")
        lapse(connection)
        assert await rows.claim(4) == []
        assert [row["id"] for row in items(connection, "dead_items")] == [*spent, fresh]

    run(queue_database, body)


@pytest.mark.parametrize("hold", [True, False])
def test_whoever_counts_the_dead_hears_of_those_that_die_at_their_claim(
    queue_database: Place, connection: Connection, hold: bool
) -> None:
    ids = enqueue(connection, 3)
    heard: list[tuple[str, str, Verdict]] = []

    async def body(database: Database) -> None:
        queue = ClaimRules(name="q", worker="w", hold=hold, max_reclaims=0)
        rows = ManagedRows(
            database,
            queue,
            boottime=time.monotonic,
            buried=lambda outcome, verdict: heard.append((type(outcome).__name__, outcome.claim.row[0], verdict)),
        )
        assert len(await rows.claim(3)) == 3
        lapse(connection)
        assert await rows.claim(3) == []

    run(queue_database, body)
    kind = "Parked" if hold else "TooOften"
    assert sorted(heard) == [(kind, str(id_), ACCEPTED) for id_ in ids]


def test_a_claim_that_a_locked_table_holds_up_is_given_up_while_its_lease_is_young(
    queue_database: Place, connection: Connection
) -> None:
    enqueue(connection)

    async def body(database: Database) -> None:
        rows = managed(database, lease=timedelta(seconds=4))
        with connection.transaction():
            connection.execute("LOCK TABLE soloist.work_items IN ACCESS EXCLUSIVE MODE")
            began = time.monotonic()
            with pytest.raises(TransientError, match="took too long"):
                await rows.claim(1)
            assert time.monotonic() - began < 3
        (claim,) = await rows.claim(1)
        assert claim.reclaims == 0

    run(queue_database, body)


def test_least_rights_are_enough_for_a_worker_and_for_who_looks_after_the_dead(own_queue_database: Place) -> None:
    role = own_queue_database.server.role("least_worker")
    with own_queue_database.connect() as connection:
        connection.execute("SELECT soloist.allow_work('least_worker')")
        enqueue(connection, 4)

    async def body(database: Database) -> None:
        rows = managed(database)
        a, b, c, d = await rows.claim(4)
        assert len(await rows.renew([a, b, c, d])) == 4
        outcomes = [Done(claim=a), Failed(claim=b, error="x", retry_in=None), PutBack(claim=c), PutBack(claim=d)]
        assert await rows.settle(outcomes) == [ACCEPTED] * 4
        assert (await managed_depths(database, ["q"]))["q"].dead == 1
        dead = DeadItems(database, "q")
        (letter,) = await dead.oldest()
        assert await dead.look(letter.id) is not None
        assert await dead.retry([letter.id]) == {letter.id: True}
        assert await dead.purge([letter.id]) == set()

    databases.with_database(own_queue_database.dsn(role), body)
