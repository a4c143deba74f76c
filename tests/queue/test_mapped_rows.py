"""The rows of tables as applications have them keep the contract of ``Rows``, claimed by a sidecar and by columns of their own."""

from __future__ import annotations

import pytest

from soloist.adapters.postgres.registration import register
from soloist.domain.claims import Done, Failed, Parked, PutBack, Settled, Verdict
from tests.contracts.rows import HOUR, NOTHING, Enter, RowsFacts, states
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database as Place
from tests.queue.caller import Caller
from tests.queue.mapped_world import QUEUE, MappedWorld, entering, in_world
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES

SIDECAR = [label for label, user in TABLES.items() if user.inline is None]
MOVED_BY_THE_APPLICATION = ("schedules",)
"""Of such rows we write nothing: before they are done, their application has done something to them."""


class TestPrismaRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["prisma"])


class TestPrismaRowsBehindATransactionPooler(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection, pgbouncer: PgBouncer) -> Enter:
        return entering(queue_database, connection, TABLES["prisma"], dsn=pgbouncer.dsn(queue_database.name))


class TestPrismaRowsInline(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["prisma inline"])


class TestSnakeRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["snake"])


class TestSnakeRowsInline(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["snake inline"])


class TestUuidRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["uuid"])


class TestCompositeRows(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["composite"])


class TestCompositeRowsInline(RowsFacts):
    @pytest.fixture
    def enter(self, queue_database: Place, connection: Connection) -> Enter:
        return entering(queue_database, connection, TABLES["composite inline"])


# A newer major version of PostgreSQL


@pytest.mark.parametrize("label", TABLES)
def test_a_newer_postgresql_takes_every_claim_renewal_outcome_and_retry(
    newer_queue_database: Place, label: str
) -> None:
    async def body(world: MappedWorld) -> None:
        done, again, later, dead, parked, back = added = await world.add(6)
        rows = world.rows()
        claims = {claim.row: claim for claim in await rows.claim(9)}
        fences = {claim.fence for claim in claims.values()}
        assert set(claims) == set(added)
        assert len(fences) == 6
        assert await rows.renew(list(claims.values())) == fences
        if label in MOVED_BY_THE_APPLICATION:
            await world.remove(done)
        outcomes: list[Settled] = [
            Done(claim=claims[done]),
            Failed(claim=claims[again], error="503", retry_in=NOTHING),
            Failed(claim=claims[later], error="503", retry_in=HOUR),
            Failed(claim=claims[dead], error="410", retry_in=None),
            Parked(claim=claims[parked], error="no reply"),
            PutBack(claim=claims[back]),
        ]
        assert await rows.settle(outcomes) == [Verdict.ACCEPTED] * 6
        assert await states(world) == ["done", "waiting", "waiting", "dead", "dead", "waiting"]
        assert (await world.look())[dead].error == "410"
        await world.revive(dead)
        await world.revive(parked)
        attempts = {claim.row: claim.attempt for claim in await rows.claim(9)}
        assert set(attempts) == {again, dead, parked, back}
        assert (attempts[again], attempts[parked], attempts[back]) == (2, 1, 1)
        await world.lapse()
        assert {claim.reclaims for claim in await rows.claim(9)} == {1}

    with newer_queue_database.connect() as connection:
        in_world(newer_queue_database, connection, TABLES[label], body)


@pytest.mark.parametrize("label", SIDECAR)
def test_a_newer_postgresql_takes_the_same_by_sql_functions(newer_queue_database: Place, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        await register(world.database, QUEUE, world.spec)
        added = await world.add(3)
        with newer_queue_database.connect() as other:
            caller = Caller(other, world)
            rows = {caller.key(row): row for row in caller.claim(9)}
            assert set(rows) == set(added)
            done, again, dead = (rows[key] for key in added)
            assert set(caller.renew(done, again, dead)) == {done.fence, again.fence, dead.fence}
            if label in MOVED_BY_THE_APPLICATION:
                await world.remove(added[0])
            said = caller.settle((done, "Done"), (again, "Failed", "503", "0 s"), (dead, "Failed", "410", None))
            assert said == ["Accepted"] * 3
            assert caller.states(added) == ["done", "waiting", "dead"]
            letter = scalar(other, "SELECT id FROM soloist.dead_rows")
            assert caller.retry(letter) == [(letter, True)]
            assert {caller.key(row) for row in caller.claim(9)} == {*added[1:]}

    with newer_queue_database.connect() as connection:
        in_world(newer_queue_database, connection, TABLES[label], body)
