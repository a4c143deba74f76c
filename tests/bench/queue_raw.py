"""The bare batch claim, beside which queues are measured: what one would write by hand who wants nothing but speed.

A partial index, UPDATE … RETURNING over a locked batch, DELETE; no fence, no lease, no retry, no reclaim. It fetches and
parses the payload, and completes batch k in one round trip and one commit with the claim of batch k + 1.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Protocol

import psycopg

from tests.postgres.server import Database

BATCH = 500
DEAD = 100_000
TABLE = """
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL DEFAULT 'default', task text NOT NULL,
    priority smallint NOT NULL DEFAULT 0, state smallint NOT NULL DEFAULT 0, run_at timestamptz NOT NULL DEFAULT now(),
    attempt smallint NOT NULL DEFAULT 0, locked_by int, locked_at timestamptz, args jsonb NOT NULL DEFAULT '{}');
CREATE INDEX job_claim ON job (queue, priority, id) WHERE state = 0"""
CLAIM = """
WITH c AS MATERIALIZED (SELECT ctid AS t FROM job WHERE state = 0 AND queue = 'default' AND run_at <= now()
                        ORDER BY priority, id LIMIT %s FOR UPDATE SKIP LOCKED)
UPDATE job SET state = 1, attempt = attempt + 1, locked_by = 1, locked_at = now()
WHERE ctid = ANY (ARRAY(SELECT t FROM c)) RETURNING id, args"""

Connection = psycopg.Connection[Any]


class Queue(Protocol):
    """One way to keep rows that are to be done."""

    place: Database

    def enqueue(self, connection: Connection, payloads: list[str]) -> None: ...
    def drain(self, connection: Connection) -> tuple[int, float]:
        """Until nothing is left: how many rows were done, committed, and when it began, by ``perf_counter``."""
        ...

    def empty(self, connection: Connection) -> None: ...


class Raw:
    def __init__(self, place: Database) -> None:
        self.place = place
        with place.connect() as connection:
            connection.execute(TABLE)

    def enqueue(self, connection: Connection, payloads: list[str]) -> None:
        connection.execute(
            "INSERT INTO job (task, args) SELECT 'noop', a::jsonb FROM unnest(%s::text[]) AS a", (payloads,)
        )

    def drain(self, connection: Connection) -> tuple[int, float]:
        done: list[int] = []
        count, began = 0, time.perf_counter()
        while True:
            with connection.pipeline():
                if done:
                    connection.execute("DELETE FROM job WHERE id = ANY (%s)", (done,))
                claimed = connection.execute(CLAIM, (BATCH,))
            done = [row[0] for row in claimed]
            count += len(done)
            if not done:
                return count, began

    def empty(self, connection: Connection) -> None:
        connection.execute("TRUNCATE job")


def opened(place: Database) -> Connection:
    connection = place.connect()
    connection.prepare_threshold = 0
    return connection


def fill(queue: Queue, connection: Connection, rows: int) -> None:
    for start in range(0, rows, 1000):
        queue.enqueue(connection, [json.dumps({"n": n, "t": 0.0}) for n in range(start, start + 1000)])


def enqueue_rate(queue: Queue, connection: Connection, rows: int) -> float:
    """Rows per second into an empty table, a thousand at a time."""
    batches = [[json.dumps({"n": n, "t": 0.0}) for n in range(start, start + 1000)] for start in range(0, rows, 1000)]
    queue.empty(connection)
    connection.execute("CHECKPOINT")
    started = time.perf_counter()
    for batch in batches:
        queue.enqueue(connection, batch)
    return rows / (time.perf_counter() - started)


def drain_rate(queue: Queue, connection: Connection, rows: int) -> float:
    """Rows per second, of rows that are there already, with statistics and no checkpoint pending."""
    connection.execute("VACUUM (ANALYZE)")
    connection.execute("CHECKPOINT")
    count, began = queue.drain(connection)
    if count != rows:
        raise RuntimeError(f"{count} rows were drained, and {rows} were there.")
    return rows / (time.perf_counter() - began)


def pinned_rate(queue: Queue, connection: Connection, rows: int) -> float:
    """The same behind rows that are finished and cannot be removed, since an open transaction may still read them."""
    queue.empty(connection)
    with snapshot(queue.place) as pin:
        pin.execute("SELECT count(*) FROM pg_class")
        fill(queue, connection, DEAD)
        queue.drain(connection)
        fill(queue, connection, rows)
        return drain_rate(queue, connection, rows)


def snapshot(place: Database) -> Connection:
    connection = place.connect(autocommit=False)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    return connection


Rates = dict[str, dict[str, list[float]]]
"""By queue and kind, one for each round."""

Measure = Callable[[Queue, Connection, int], float]
