"""What the managed table costs in SQL: beside a bare batch claim on the same server, in the same rounds.

The bare one is what one would write by hand: a partial index, UPDATE … RETURNING over a locked batch, DELETE; no fence,
no lease, no retry, no reclaim. Both fetch and parse the payload, and complete batch k in one round trip and one commit
with the claim of batch k + 1. Each figure is the median of the rounds; a ratio is the median of the rounds' ratios.

    python -m tests.bench.queue_sql [--rounds 3] [--rows 50000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import psycopg

from soloist.adapters.postgres.database import Database as Adapted
from soloist.adapters.postgres.managed import ManagedQueue, ManagedRows
from soloist.adapters.postgres.migrate import migrate
from soloist.adapters.postgres.url import database_url
from soloist.domain.claims import Claim, Done
from tests.postgres.server import Database, Postgres

BATCH = 500
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}
RAW_TABLE = """
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL DEFAULT 'default', task text NOT NULL,
    priority smallint NOT NULL DEFAULT 0, state smallint NOT NULL DEFAULT 0, run_at timestamptz NOT NULL DEFAULT now(),
    attempt smallint NOT NULL DEFAULT 0, locked_by int, locked_at timestamptz, args jsonb NOT NULL DEFAULT '{}');
CREATE INDEX job_claim ON job (queue, priority, id) WHERE state = 0"""
RAW_CLAIM = """
WITH c AS MATERIALIZED (SELECT ctid AS t FROM job WHERE state = 0 AND queue = 'default' AND run_at <= now()
                        ORDER BY priority, id LIMIT %s FOR UPDATE SKIP LOCKED)
UPDATE job SET state = 1, attempt = attempt + 1, locked_by = 1, locked_at = now()
WHERE ctid = ANY (ARRAY(SELECT t FROM c)) RETURNING id, args"""
MANAGED_CLAIM = "SELECT id, fence, payload, due_at FROM soloist.claim('default', %s, '60 s', 'worker-1', after_due => %s, after_id => %s)"
POLL = 0.25


class Queue(Protocol):
    def install(self, database: Database) -> None: ...
    def enqueue(self, connection: psycopg.Connection[Any], payloads: list[str]) -> None: ...
    def drain(self, connection: psycopg.Connection[Any]) -> int: ...
    def empty(self, connection: psycopg.Connection[Any]) -> None: ...


class Raw:
    def install(self, database: Database) -> None:
        with database.connect() as connection:
            connection.execute(RAW_TABLE)

    def enqueue(self, connection: psycopg.Connection[Any], payloads: list[str]) -> None:
        connection.execute(
            "INSERT INTO job (task, args) SELECT 'noop', a::jsonb FROM unnest(%s::text[]) AS a", (payloads,)
        )

    def drain(self, connection: psycopg.Connection[Any]) -> int:
        done: list[int] = []
        count = 0
        while True:
            with connection.pipeline():
                if done:
                    connection.execute("DELETE FROM job WHERE id = ANY (%s)", (done,))
                claimed = connection.execute(RAW_CLAIM, (BATCH,))
            done = [row[0] for row in claimed]
            count += len(done)
            if not done:
                return count

    def empty(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("TRUNCATE job")


class Managed:
    """As a worker claims: a full claim shows the next one where to start, but for one in each poll interval."""

    def install(self, database: Database) -> None:
        migrate(database.dsn())

    def enqueue(self, connection: psycopg.Connection[Any], payloads: list[str]) -> None:
        connection.execute("SELECT FROM soloist.enqueue_many('default', %s::text[]::jsonb[])", (payloads,))

    def drain(self, connection: psycopg.Connection[Any]) -> int:
        ids: list[int] = []
        fences: list[int] = []
        start: tuple[Any, Any] = (None, None)
        count, next_from_head = 0, 0.0
        while True:
            began = time.monotonic()
            from_head = began >= next_from_head
            start = (None, None) if from_head else start
            with connection.pipeline():
                if ids:
                    connection.execute("SELECT FROM soloist.complete(%s, %s)", (ids, fences))
                claimed = connection.execute(MANAGED_CLAIM, (BATCH, *start))
            rows = claimed.fetchall()
            if from_head:
                # Counted from its end, and rarer where it takes long: at most a fifth of the time goes into it.
                now = time.monotonic()
                next_from_head = now + max(POLL, 4 * (now - began))
            ids, fences = [row[0] for row in rows], [row[1] for row in rows]
            count += len(rows)
            if len(rows) == BATCH:
                start = max((row[3], row[0]) for row in rows)
            elif rows or not from_head:
                next_from_head = 0.0
            else:
                return count

    def empty(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("TRUNCATE soloist.work_items")


class Rows(Managed):
    """The same by the worker's own adapter, on an event loop: batch k is settled while batch k + 1 is claimed."""

    def install(self, database: Database) -> None:
        super().install(database)
        self.url = database_url(database.dsn())

    def drain(self, connection: psycopg.Connection[Any]) -> int:
        return asyncio.run(self.drained())

    async def drained(self) -> int:
        database, count = Adapted(self.url), 0
        rows = ManagedRows(database, ManagedQueue(name="default", worker="worker-1"), boottime=time.monotonic)
        claims: list[Claim] = []
        while True:
            settled = asyncio.create_task(rows.settle([Done(claim=claim) for claim in claims]))
            claims = await rows.claim(BATCH)
            await settled
            count += len(claims)
            if not claims:
                await database.close()
                return count


def enqueue_rate(queue: Queue, connection: psycopg.Connection[Any], rows: int) -> float:
    batches = [[json.dumps({"n": i, "t": 0.0}) for i in range(start, start + 1000)] for start in range(0, rows, 1000)]
    queue.empty(connection)
    connection.execute("CHECKPOINT")
    started = time.perf_counter()
    for batch in batches:
        queue.enqueue(connection, batch)
    return rows / (time.perf_counter() - started)


def drain_rate(queue: Queue, connection: psycopg.Connection[Any], rows: int) -> float:
    """Of rows that are there already, with statistics and no checkpoint pending."""
    connection.execute("VACUUM (ANALYZE)")
    connection.execute("CHECKPOINT")
    started = time.perf_counter()
    count = queue.drain(connection)
    if count != rows:
        raise RuntimeError(f"{count} rows were drained, and {rows} were there.")
    return rows / (time.perf_counter() - started)


def pinned_rate(queue: Queue, connection: psycopg.Connection[Any], snapshot: Callable[[], Any], rows: int) -> float:
    """Behind 100,000 rows that are finished and cannot be removed, since an open transaction may still read them."""
    queue.empty(connection)
    with snapshot() as pin:
        pin.execute("SELECT count(*) FROM pg_class")
        for count in (100_000, rows):
            for _ in range(count // 1000):
                queue.enqueue(connection, [json.dumps({"n": i, "t": 0.0}) for i in range(1000)])
            if count != rows:
                queue.drain(connection)
        return drain_rate(queue, connection, rows)


def measure(server: Postgres, rounds: int, rows: int) -> dict[str, dict[str, list[float]]]:
    queues: dict[str, Queue] = {"raw": Raw(), "managed": Managed(), "rows": Rows()}
    found: dict[str, dict[str, list[float]]] = {name: {"enqueue": [], "drain": [], "pinned": []} for name in queues}
    places = {name: server.create_database(f"bench_{name}") for name in queues}
    for name, queue in queues.items():
        queue.install(places[name])
    for _ in range(rounds):
        for name, queue in queues.items():
            with places[name].connect() as connection:
                connection.prepare_threshold = 0
                found[name]["enqueue"].append(enqueue_rate(queue, connection, rows))
                found[name]["drain"].append(drain_rate(queue, connection, rows))
    for _ in range(rounds):
        for name, queue in queues.items():
            with places[name].connect() as connection:
                connection.prepare_threshold = 0
                found[name]["pinned"].append(pinned_rate(queue, connection, snapshot_of(places[name]), 20_000))
    return found


def snapshot_of(database: Database) -> Callable[[], Any]:
    def open_one() -> Any:
        connection = database.connect(autocommit=False)
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return connection

    return open_one


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.queue_sql")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=50_000)
    chosen = parser.parse_args()
    with Postgres(settings=SETTINGS) as server:
        found = measure(server, chosen.rounds, chosen.rows)
    print(f"{'rows/s, median of ' + str(chosen.rounds):24}" + "".join(f"{kind:>22}" for kind in found["raw"]))
    for name, rates in found.items():
        cells = [f"{statistics.median(r):,.0f} x{ratio(found, name, kind):.2f}" for kind, r in rates.items()]
        print(f"{name:24}" + "".join(f"{cell:>22}" for cell in cells))
    figures = {
        "drain_managed_ratio": round(ratio(found, "managed", "drain"), 2),
        "drain_pinned_ratio": round(ratio(found, "managed", "pinned"), 2),
        "enqueue_ratio": round(ratio(found, "managed", "enqueue"), 2),
        "drain_rows_ratio": round(ratio(found, "rows", "drain"), 2),
        "sql_managed_per_s": round(statistics.median(found["managed"]["drain"])),
    }
    print(json.dumps(figures))
    return 0


def ratio(found: dict[str, dict[str, list[float]]], name: str, kind: str) -> float:
    return statistics.median(ours / raw for ours, raw in zip(found[name][kind], found["raw"][kind], strict=True))


if __name__ == "__main__":
    sys.exit(main())
