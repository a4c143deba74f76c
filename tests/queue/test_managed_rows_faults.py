"""Workers that go through ManagedRows while connections are cut, the pooler is killed and the server crashes.

A trigger keeps what was accepted, in the accepting transaction itself: so what the tables say is the truth, whatever
reply was lost on its way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.managed import ManagedRows
from soloist.adapters.postgres.migrate import migrate
from soloist.domain.claims import Claim, Done, Failed, PutBack, Settled, Verdict
from soloist.domain.errors import TransientError
from tests.cluster.proxy import TcpProxy
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database as Place
from tests.postgres.server import Postgres
from tests.queue.databases import opened

KEEP = """
CREATE TABLE done (id bigint, fence bigint);
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.done VALUES (OLD.id, OLD.fence); RETURN OLD; END $$;
CREATE TRIGGER keep AFTER DELETE ON soloist.work_items FOR EACH ROW EXECUTE FUNCTION keep();
SELECT count(*) FROM soloist.enqueue_many('q', (SELECT array_agg('{}'::jsonb) FROM generate_series(1, ROWS)))"""
T = TypeVar("T")
LEFT = b"SELECT count(*) FROM soloist.work_items"


@dataclass(slots=True)
class Log:
    """What one worker was given, and what it was told of its outcomes. ``doubt``: a reply was lost before."""

    received: list[Claim] = field(default_factory=list)
    verdicts: dict[int, tuple[Verdict, bool]] = field(default_factory=dict)


async def work(
    database: Database, log: Log, *, decide: Callable[[Claim], Settled], pause: float = 0.0, lease: float = 1.0
) -> None:
    """Until nothing is left; what the database does not answer is asked again, with the same fences."""
    queue = ClaimRules(name="q", worker="w", lease=timedelta(seconds=lease), max_reclaims=100)
    rows = ManagedRows(database, queue, boottime=time.monotonic)
    while await again(lambda: database.fetch(LEFT)) != [(0,)]:
        claims = await again(lambda: rows.claim(5))
        log.received += claims
        outcomes = [decide(claim) for claim in claims]
        doubts = 0

        async def settle(outcomes: list[Settled] = outcomes) -> list[Verdict]:
            nonlocal doubts
            doubts += 1
            return await rows.settle(outcomes)

        verdicts = await again(settle)
        log.verdicts |= {claim.fence: (verdict, doubts > 1) for claim, verdict in zip(claims, verdicts, strict=True)}
        await asyncio.sleep(pause if claims else 0.02)


async def again(ask: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await ask()
        except TransientError:
            await asyncio.sleep(0.05)


async def grows(log: Log, by: int) -> None:
    before = len(log.received)
    while len(log.received) < before + by:
        await asyncio.sleep(0.01)


def done(claim: Claim) -> Settled:
    return Done(claim=claim)


def fails_once(claim: Claim) -> Settled:
    if claim.attempt == 1:
        return Failed(claim=claim, error="503", retry_in=timedelta())
    return Done(claim=claim)


def audit(place: Place, count: int, logs: list[Log]) -> None:
    """Each row accepted once, under the highest fence that it ever had; and nobody was told otherwise."""
    with place.connect() as connection:
        kept = connection.execute("SELECT id, fence FROM done").fetchall()
        assert connection.execute("SELECT count(*) FROM soloist.work_items").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM soloist.dead_items").fetchone() == (0,)
    accepted = dict(kept)
    assert len(kept) == len(accepted) == count
    received = [claim for log in logs for claim in log.received]
    assert len({claim.fence for claim in received}) == len(received)
    assert all(claim.fence <= accepted[int(claim.row[0])] for claim in received)
    ended = set(accepted.values())
    for log in logs:
        for fence, (verdict, doubt) in log.verdicts.items():
            assert verdict is Verdict.LOST or fence in ended
            assert verdict is Verdict.ACCEPTED or doubt or fence not in ended


def crowded(server: Postgres, count: int) -> Place:
    place = server.create_database("rough")
    migrate(place.dsn())
    place.psql(KEEP.replace("ROWS", str(count)))
    return place


def test_nothing_is_lost_or_accepted_twice_while_connections_pooler_and_server_fail(
    fresh_postgres: Callable[..., Postgres],
) -> None:
    server = fresh_postgres()
    place = crowded(server, 6000)
    logs = [Log(), Log(), Log()]

    async def body(proxy: TcpProxy, pooler: PgBouncer) -> None:
        dsns = [place.dsn(port=proxy.port), pooler.dsn(place.name), place.dsn()]
        databases = [opened(dsn, statement_timeout=5) for dsn in dsns]
        async with asyncio.timeout(600), asyncio.TaskGroup() as group:
            # The others leave something to do until the last fault is through.
            for database, log, pause in zip(databases, logs, (0.0, 0.02, 0.02), strict=True):
                group.create_task(work(database, log, decide=done, pause=pause))
            for _ in range(4):
                await grows(logs[0], 40)
                # What it sends takes effect and it never hears of it: claims, and completions too.
                await asyncio.to_thread(proxy.hold_replies)
                await grows(logs[2], 40)
                await asyncio.to_thread(proxy.cut)
                await asyncio.to_thread(proxy.forward)
            await grows(logs[1], 40)
            await asyncio.to_thread(pooler.kill)
            await grows(logs[2], 40)
            await asyncio.to_thread(pooler.start)
            await grows(logs[1], 40)
            await asyncio.to_thread(server.restart, "immediate")
        for database in databases:
            await database.close()

    with TcpProxy(server.port) as proxy, PgBouncer(server) as pooler:
        asyncio.run(body(proxy, pooler))
    audit(place, 6000, logs)
    assert any(doubt for _, doubt in logs[0].verdicts.values())


def test_a_reply_that_is_lost_in_mid_commit_leaves_the_outcome_written_once(own_queue_database: Place) -> None:
    own_queue_database.psql(KEEP.replace("ROWS", "30"))

    async def body(proxy: TcpProxy) -> None:
        database = opened(own_queue_database.dsn(port=proxy.port))
        rows = ManagedRows(database, ClaimRules(name="q", worker="w"), boottime=time.monotonic)
        claims = await rows.claim(30)
        outcomes: list[Settled] = [Done(claim=claim) for claim in claims[:10]]
        outcomes += [Failed(claim=claim, error="503", retry_in=timedelta()) for claim in claims[10:20]]
        outcomes += [PutBack(claim=claim) for claim in claims[20:]]
        proxy.hold_replies()
        lost = asyncio.create_task(rows.settle(outcomes))
        with own_queue_database.connect() as connection:
            while connection.execute("SELECT count(*) FROM done").fetchone() != (10,):
                await asyncio.sleep(0.01)
            proxy.cut()
            proxy.forward()
            assert await asyncio.gather(lost, return_exceptions=True) != [None]
            assert isinstance(lost.exception(), TransientError)
            assert await rows.settle(outcomes) == [Verdict.LOST] * 30
            left = connection.execute("SELECT attempt, fence FROM soloist.work_items ORDER BY attempt").fetchall()
        assert left == [(1, None)] * 10 + [(2, None)] * 10
        await database.close()

    with TcpProxy(own_queue_database.server.port) as proxy:
        asyncio.run(body(proxy))


def test_rows_that_fail_once_are_each_accepted_once_by_many_workers(own_queue_database: Place) -> None:
    own_queue_database.psql(KEEP.replace("ROWS", "1000"))
    logs = [Log() for _ in range(4)]

    async def body() -> None:
        databases = [opened(own_queue_database.dsn()) for _ in logs]
        async with asyncio.timeout(300), asyncio.TaskGroup() as group:
            for database, log in zip(databases, logs, strict=True):
                group.create_task(work(database, log, decide=fails_once, lease=600))
        for database in databases:
            await database.close()

    asyncio.run(body())
    audit(own_queue_database, 1000, [])
    received = [(claim.row, claim.attempt) for log in logs for claim in log.received]
    assert len(received) == len(set(received)) == 2000
