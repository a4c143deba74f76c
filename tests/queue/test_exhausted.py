"""Rows that nobody is handed any more, their attempts used up or their workers killed too often, and which wait all the same.

Each is given up once, in batches of their own, however few rows are asked for; and no other row is claimed for that.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, LiteralString

import pytest
from psycopg import sql

import tests.queue.databases as databases
from soloist.adapters.postgres.burials import Buried, unheard
from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.managed import ManagedRows
from soloist.adapters.postgres.mapped import MappedRows
from soloist.adapters.postgres.mapped_statements import composed
from soloist.adapters.postgres.mapped_words import claims_of
from soloist.domain.claims import Claim, Done, PutBack, Settled, Verdict
from soloist.domain.delivery_outcome import usual_attempts
from soloist.domain.polling import MOST_AT_ONCE
from soloist.domain.queue_spec import OnDead
from tests.contracts.rows import HOUR, Key, keys
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import MappedWorld, in_world, made, shape_in
from tests.queue.rows import Connection, lapse, scalar
from tests.queue.user_tables import TABLES, UserTable

SPENT, FEW = 1200, 60
LEASE, PATIENCE = timedelta(minutes=10), 120.0
"""Longer than a busy machine takes for any of the batches, which here grow however long they take."""
KINDS = ["managed", "prisma", "prisma inline"]
ALL_KINDS = [*KINDS, "snake", "snake inline", "uuid", "composite", "composite inline", "bare"]
ATTEMPTS = {"prisma": '"attempts" = "maxAttempts"', "snake": "tries = 8", "composite": "attempts = 8"}
BURIED = OnDead(statement="INSERT INTO app.buried (row) VALUES ($1)", values=("id",))
BURIED_DDL = "CREATE SCHEMA IF NOT EXISTS app; CREATE TABLE app.buried (row text CHECK (row <> 'nobody'))"
Rules = dict[str, Any]


class Managed:
    """soloist.work_items."""

    letters: LiteralString = "soloist.dead_items"
    letter_of: LiteralString = "d.id::text"
    held: LiteralString = "SELECT count(*) FROM soloist.work_items WHERE fence IS NOT NULL"

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database, self.connection = database, connection

    def rows(
        self,
        *,
        boottime: Callable[[], float] = lambda: 0.0,
        database: Database | None = None,
        buried: Buried = unheard,
        **rules: Any,
    ) -> ManagedRows:
        queue = ClaimRules(name="q", worker="w", **{"lease": LEASE, **rules})
        return ManagedRows(database or self.database, queue, boottime=boottime, buried=buried)

    async def add(self, count: int) -> list[Key]:
        many = "SELECT soloist.enqueue_many('q', (SELECT array_agg(jsonb_build_object('n', n)) FROM generate_series(1, %s) AS n))"
        return [(str(row[0]),) for row in self.connection.execute(many, (count,))]

    async def spent(self, count: int, cause: str) -> list[Key]:
        """Half of them as a worker left them that was killed, half as a claim has moved them behind the others since."""
        added = await self.add(count)
        await self.rows(max_reclaims=100).claim(count)
        self.connection.execute("UPDATE soloist.work_items SET reclaims = 5")
        lapse(self.connection)
        self.connection.execute(
            "UPDATE soloist.work_items SET reclaims = 6, fence = NULL, lease_until = NULL WHERE id % 2 = 0"
        )
        return added

    def mix(self, every: int) -> None:
        """All but one of so many are used up."""
        self.connection.execute("UPDATE soloist.work_items SET reclaims = 6 WHERE id %% %s <> 0", (every,))


class Mapped:
    """A table of the user's."""

    letters: LiteralString = "soloist.dead_rows"
    letter_of: LiteralString = "d.pk[1]"

    def __init__(self, world: MappedWorld) -> None:
        self.world, self.database, self.connection = world, world.database, world.connection
        inline = world.shape.inline
        self.held: Any = "SELECT count(*) FROM soloist.claims WHERE fence IS NOT NULL"
        if inline is not None:
            self.held = f'SELECT count(*) FROM {world.user.name} WHERE "{inline.fence}" IS NOT NULL'

    def rows(
        self,
        *,
        boottime: Callable[[], float] = lambda: 0.0,
        database: Database | None = None,
        buried: Buried = unheard,
        **rules: Any,
    ) -> MappedRows:
        queue, world = ClaimRules(name="q", worker="w", **{"lease": LEASE, **rules}), self.world
        database = database or self.database
        return MappedRows(database, world.shape, queue, world.spec.retry, boottime=boottime, buried=buried)

    async def add(self, count: int) -> list[Key]:
        return await self.world.add(count)

    async def spent(self, count: int, cause: str) -> list[Key]:
        added = await self.world.add(count, due_in=-HOUR)
        if cause == "attempts":
            self.connection.execute(f"UPDATE {self.world.user.name} SET {ATTEMPTS[self.world.user.label.split()[0]]}")
            return added
        await self.rows(max_reclaims=100).claim(count)
        inline = self.world.shape.inline
        name, column = ("soloist.claims", "reclaims") if inline is None else (self.world.user.name, inline.reclaims)
        self.connection.execute(f'UPDATE {name} SET "{column}" = 5')
        await self.world.lapse()
        return added

    def mix(self, every: int) -> None:
        self.connection.execute(
            """UPDATE app."WebhookDelivery" SET "attempts" = 8 WHERE mod(("payload" ->> 'n')::int, %s) <> 0""", (every,)
        )


Tested = Managed | Mapped
Run = Callable[[str, Callable[[Any], Awaitable[None]]], None]


@pytest.fixture
def run(queue_database: Place, connection: Connection) -> Iterator[Run]:
    def entering(kind: str, body: Callable[[Any], Awaitable[None]]) -> None:
        if kind == "managed":
            databases.with_database(
                queue_database.dsn(), lambda database: body(Managed(database, connection)), statement_timeout=PATIENCE
            )
        else:
            dsn = f"{queue_database.dsn()}?socket_timeout={PATIENCE:.0f}"
            in_world(queue_database, connection, TABLES[kind], lambda world: body(Mapped(world)), dsn=dsn)

    yield entering
    connection.execute("DROP SCHEMA IF EXISTS app CASCADE")


@contextmanager
def counted(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Statements and transactions, one entry for each."""
    said: list[str] = []
    fetch, transaction = database.fetch, database.transaction

    def count(what: str) -> None:
        said.append(what)
        assert len(said) < FEW, "one by one it would be thousands"

    async def counting(*values: Any, **more: Any) -> Any:
        count("statement")
        return await fetch(*values, **more)

    @asynccontextmanager
    async def opening(*values: Any, **more: Any) -> Any:
        count("transaction")
        async with transaction(*values, **more) as opened:
            yield opened

    with monkeypatch.context() as patched:
        patched.setattr(database, "fetch", counting)
        patched.setattr(database, "transaction", opening)
        yield said


def letters(tested: Tested) -> int:
    return int(scalar(tested.connection, f"SELECT count(*) FROM {tested.letters}"))


def causes(kind: str) -> list[str]:
    return ["crashes", "attempts"] if kind.split()[0] in ATTEMPTS else ["crashes"]


@pytest.mark.parametrize(("kind", "cause"), [(kind, cause) for kind in ALL_KINDS for cause in causes(kind)])
def test_one_that_can_be_worked_is_handed_out_from_behind_thousands_by_few_statements(
    run: Run, monkeypatch: pytest.MonkeyPatch, kind: str, cause: str
) -> None:
    async def body(tested: Tested) -> None:
        spent = await tested.spent(SPENT, cause)
        fresh = await tested.add(1)
        heard: Counter[Verdict] = Counter()
        rows = tested.rows(buried=lambda outcome, verdict: heard.update([verdict]))
        with counted(tested.database, monkeypatch):
            found = keys(await rows.claim(1)) or keys(await rows.claim(1))
            while not found:
                found = keys(await rows.claim(1))
        assert found == fresh
        assert scalar(tested.connection, tested.held) == 1
        while heard.total() < len(spent):  # of ours, some may have been moved behind it
            assert await rows.claim(1) == []
        assert heard == {Verdict.ACCEPTED: len(spent)}
        assert letters(tested) == len(spent)
        reason = scalar(tested.connection, f"SELECT DISTINCT reason FROM {tested.letters}")
        assert reason == ("Failed" if cause == "attempts" else "ReclaimedTooOften")

    run(kind, body)


@pytest.mark.parametrize("kind", KINDS)
def test_where_none_is_used_up_nothing_more_is_asked(run: Run, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    async def body(tested: Tested) -> None:
        await tested.add(100)
        rows = tested.rows()
        with counted(tested.database, monkeypatch) as said:
            for asked in (1, 10, 50):
                assert len(await rows.claim(asked)) == asked
            assert len(said) == 3

    run(kind, body)


@pytest.mark.parametrize("kind", KINDS)
def test_those_that_can_be_worked_among_them_are_claimed_when_they_are_asked_for_and_not_before(
    run: Run, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    every, count = 20, 400

    async def body(tested: Tested) -> None:
        added = await tested.add(count)
        tested.mix(every)
        rows, worked, settle = tested.rows(), list[Key](), tested.rows().settle

        async def watched(outcomes: Sequence[Settled]) -> list[Verdict]:
            assert not any(isinstance(outcome, PutBack) for outcome in outcomes), "it had been claimed for nobody"
            return await settle(outcomes)

        monkeypatch.setattr(rows, "settle", watched)
        for _ in range(count // every):
            (claim,) = await rows.claim(1)
            assert scalar(tested.connection, tested.held) == 1, "no other is claimed for the sake of those before it"
            assert claim.reclaims <= 5
            worked.append(claim.row)
            assert await rows.settle([Done(claim=claim)]) == [Verdict.ACCEPTED]
        assert len(set(worked)) == len(worked)
        assert await rows.claim(1) == []
        assert letters(tested) == len(added) - len(worked)
        assert scalar(tested.connection, tested.held) == 0

    run(kind, body)


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_a_death_is_in_the_transaction_of_its_letter_and_a_transaction_has_some_hundreds(
    run: Run, kind: str
) -> None:
    async def body(tested: Tested) -> None:
        tested.connection.execute(BURIED_DDL)
        spent = await tested.spent(SPENT, "attempts" if kind.startswith("prisma") else "crashes")
        (refused,) = random.sample(spent, 1)
        tested.connection.execute(f"ALTER TABLE app.buried ADD CHECK (row <> '{refused[0]}')")
        rows = tested.rows(on_dead=BURIED)
        while letters(tested) < len(spent):
            assert await rows.claim(1) == []
        together = f"FROM {tested.letters} AS d JOIN app.buried AS b ON b.row = {tested.letter_of} AND b.xmin = d.xmin"
        assert scalar(tested.connection, f"SELECT count(*) {together}") == len(spent) - 1
        of_each = tested.connection.execute(f"SELECT count(*) {together} GROUP BY d.xmin::text").fetchall()
        assert max(of_each)[0] > 100
        assert max(of_each)[0] <= MOST_AT_ONCE
        parked = f"SELECT {tested.letter_of} FROM {tested.letters} AS d WHERE reason = 'Refused'"
        assert scalar(tested.connection, parked) == refused[0]

    run(kind, body)


@pytest.mark.parametrize("kind", KINDS)
def test_where_that_is_slow_the_transactions_stay_small(run: Run, kind: str) -> None:
    slow = OnDead(statement="SELECT pg_sleep(0.11)", values=())

    async def body(tested: Tested) -> None:
        await tested.spent(6, "attempts" if kind.startswith("prisma") else "crashes")
        rows = tested.rows(on_dead=slow, boottime=time.monotonic)
        async with asyncio.timeout(240):
            while letters(tested) < 6:
                await rows.claim(1)
        most = f"SELECT max(n) FROM (SELECT count(*) AS n FROM {tested.letters} AS d GROUP BY d.xmin::text) AS t"
        assert scalar(tested.connection, most) == 1, "two would take longer than a fifth of a second"

    run(kind, body)


@pytest.mark.parametrize("kind", ["managed", "prisma", "prisma inline", "composite"])
def test_four_workers_that_meet_them_at_once_bury_each_once_and_neither_deadlock_nor_miss_a_row(
    run: Run, queue_database: Place, kind: str
) -> None:
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"

    async def body(tested: Tested) -> None:
        before = scalar(tested.connection, deadlocks)
        spent = await tested.spent(SPENT, "crashes")
        fresh = await tested.add(40)
        heard: Counter[Key] = Counter()
        worked: Counter[Key] = Counter()

        async def work(database: Database) -> None:
            rows = tested.rows(
                database=database,
                boottime=time.monotonic,
                buried=lambda outcome, verdict: heard.update([outcome.claim.row] * (verdict is Verdict.ACCEPTED)),
            )
            while worked.total() < len(fresh) or heard.total() < len(spent):
                for claim in await rows.claim(1):
                    assert await rows.settle([Done(claim=claim)]) == [Verdict.ACCEPTED]
                    worked.update([claim.row])

        workers = [databases.opened(queue_database.dsn(), statement_timeout=PATIENCE) for _ in range(4)]
        async with asyncio.timeout(240):
            await asyncio.gather(*map(work, workers))
        for worker in workers:
            await worker.close()
        assert worked == Counter(fresh)
        assert heard == Counter(spent)
        assert letters(tested) == len(spent)
        assert scalar(tested.connection, tested.held) == 0
        assert scalar(tested.connection, deadlocks) == before

    run(kind, body)


# What SQL takes for used up is what is given up then

STATES = """UPDATE {} SET {} WHERE {}"""
NUMERIC = 'ALTER TABLE app."WebhookDelivery" ALTER COLUMN "maxAttempts" TYPE numeric'
LIMITS = {"prisma": ["8", "0", "-3", "2147483647", "1"], "numeric": ["8", "'NaN'", "7.5", "2.0", "1"]}


@pytest.mark.parametrize("hold", [False, True], ids=["retry", "hold"])
@pytest.mark.parametrize(
    "label", ["prisma", "prisma numeric", "prisma inline", "snake", "snake inline", "uuid", "composite", "schedules"]
)
def test_the_database_and_the_worker_agree_on_what_is_used_up(
    label: str, hold: bool, queue_database: Place, connection: Connection
) -> None:
    name = "prisma" if label == "prisma numeric" else label
    user: UserTable = TABLES[name]
    made(connection, user)
    if label == "prisma numeric":
        connection.execute(NUMERIC)
    drawn = random.Random(f"{label} {hold}")

    async def body(database: Database) -> None:
        world = MappedWorld(database, connection, user, await shape_in(database, user))
        tested = Mapped(world)
        added = await world.add(160, due_in=-HOUR)
        await tested.rows(max_reclaims=100).claim(120)
        for key in added:
            strew(world, key, label, drawn)
        rows = tested.rows(hold=hold, max_reclaims=3)
        statements = composed(world.shape)
        values = {"lease": HOUR, "worker": "w", "after": "-infinity", "without": [], "hold": hold, "max_reclaims": 3}
        values |= {"most": len(added), "limit": usual_attempts(world.spec.retry)}
        claims = [
            await claimed(world, each, statements.planner, values)
            for each in (statements.claims[0], statements.burials[0])
        ]
        every, doomed = claims
        over = {claim.row for claim in every if rows._given_up(claim) is not None}
        assert {claim.row for claim in doomed} == over
        assert 0 < len(over) < len(every)

    databases.with_database(queue_database.dsn(), body)


async def claimed(world: MappedWorld, query: bytes, planner: bytes, values: Rules) -> list[Claim]:
    """What such a claim would bring."""
    with world.connection.transaction(force_rollback=True):
        world.connection.execute(planner)
        return claims_of(world.shape, world.connection.execute(query, values).fetchall())


def strew(world: MappedWorld, key: Key, label: str, drawn: random.Random) -> None:
    """Some state that such a row may be in."""
    connection, table, inline = world.connection, world.shape.table, world.shape.inline
    assigned = []
    if table.attempts is not None:
        value = drawn.choice(["0", "1", "7", "8", "9", "-1", *(["NULL"] if label.startswith("snake") else [])])
        assigned.append(f'"{table.attempts}" = {value}')
    if world.shape.limit is not None:
        limits = LIMITS["numeric" if label == "prisma numeric" else "prisma"]
        assigned.append(f'"{world.shape.limit}" = {drawn.choice(limits)}')
    past, lost = "now() - interval '1 s'", drawn.choice([0, 2, 3, 4])
    held = drawn.choice(["yes", "ended", "never"])
    if inline is not None:
        fence, until = ("fence", past) if held == "yes" else ("NULL", "NULL")
        fence = f'"{inline.fence}"' if held == "yes" else "NULL"
        assigned += [
            f'"{inline.fence}" = {fence}',
            f'"{inline.reclaims}" = {lost}',
            f'"{inline.lease_until}" = {until}',
        ]
    if assigned:
        connection.execute(STATES.format(f"{world.user.name} AS q", ", ".join(assigned), world.where(key)))
    if inline is None:
        name = world.shape.key([sql.Literal(text) for text in key]).as_string(connection)
        base, attempt = drawn.choice([0, 0, 2]), drawn.choice([0, 1, 7, 8, 11])
        moved = drawn.choice(["", "", ", due = due - interval '1 s'"])
        fence = "fence" if held == "yes" else "NULL"
        if held == "never":
            connection.execute(f"DELETE FROM soloist.claims WHERE key = {name}")
        state = (
            f"held_until = {past}, fence = {fence}, reclaims = {lost}, retry_base = {base}, attempt = {attempt}{moved}"
        )
        connection.execute(STATES.format("soloist.claims", state, f"key = {name}"))
