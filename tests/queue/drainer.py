"""One worker process of the race tests: claims, notes what it received, completes, and says nothing else.

A completion and the note of it are one statement, so what `done` holds is what was accepted, whatever breaks.
`python -m tests.queue.drainer '{"dsn": …, "name": …, "batch": 50, "lease": "1 s", "stop_after": 3, "kill_after": 0}'`
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import psycopg

TABLES = """
CREATE TABLE received (n bigint GENERATED ALWAYS AS IDENTITY, id bigint, fence bigint, attempt int, worker text);
CREATE TABLE done (id bigint, worker text);
CREATE TABLE lost (id bigint, fence bigint, worker text)"""
NOTE = (
    "INSERT INTO received (id, fence, attempt, worker) SELECT *, %s FROM unnest(%s::bigint[], %s::bigint[], %s::int[])"
)
COMPLETE = """
WITH accepted AS (SELECT * FROM soloist.complete(%(ids)s, %(fences)s) AS id),
noted AS (INSERT INTO done SELECT id, %(name)s FROM accepted)
INSERT INTO lost SELECT c.id, c.fence, %(name)s FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS c(id, fence)
WHERE c.id NOT IN (SELECT id FROM accepted)"""


def drain(settings: dict[str, Any]) -> None:
    claims = 0
    while True:
        try:
            with psycopg.connect(
                settings["dsn"], autocommit=True, prepare_threshold=None, connect_timeout=5
            ) as connection:
                while True:
                    rows = connection.execute(
                        "SELECT id, fence, attempt FROM soloist.claim('q', %s, %s, %s, max_reclaims => 100)",
                        (settings["batch"], settings["lease"], settings["name"]),
                    ).fetchall()
                    if rows:
                        claims += 1
                        deliver(connection, settings, rows, claims)
                    elif nothing_left(connection):
                        return
                    else:
                        time.sleep(0.02)
        except psycopg.OperationalError:
            time.sleep(0.05)


def deliver(connection: psycopg.Connection[Any], settings: dict[str, Any], rows: list[Any], claims: int) -> None:
    ids, fences, attempts = (list(column) for column in zip(*rows, strict=True))
    name = settings["name"]
    connection.execute(NOTE, (name, ids, fences, attempts))
    if claims == settings.get("kill_after"):
        os.kill(os.getpid(), signal.SIGKILL)
    if claims == settings.get("stop_after"):
        os.kill(os.getpid(), signal.SIGSTOP)
    connection.execute(COMPLETE, {"ids": ids, "fences": fences, "name": name})


def nothing_left(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute("SELECT NOT EXISTS (SELECT FROM soloist.work_items)").fetchone()
    return row is not None and bool(row[0])


if __name__ == "__main__":
    drain(json.loads(sys.argv[1]))
