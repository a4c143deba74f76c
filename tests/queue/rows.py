"""Short words for what the tests do with the managed table; every one of them is a call of a SQL function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One row that soloist.claim gave."""

    id: int
    fence: int
    attempt: int
    tries: int
    reclaims: int
    priority: int
    due_at: Any
    lease_until: Any
    unique_key: str | None
    payload: Any


def claim(connection: Connection, n: int = 1, queue: str = "q", lease: str = "60 s", **more: Any) -> list[Claimed]:
    named = "".join(f", {name} => %({name})s" for name in more)
    query = f"SELECT * FROM soloist.claim(%(queue)s, %(n)s, %(lease)s, 'worker-1'{named})"
    with connection.cursor(row_factory=class_row(Claimed)) as cursor:
        return cursor.execute(query, {"queue": queue, "n": n, "lease": lease, **more}).fetchall()


def enqueue(connection: Connection, count: int = 1, queue: str = "q", **more: Any) -> list[int]:
    named = "".join(f", {name} => %({name})s" for name in more)
    query = f"SELECT soloist.enqueue(%(queue)s, %(payload)s{named})"
    return [scalar(connection, query, {"queue": queue, "payload": Jsonb({"n": n}), **more}) for n in range(count)]


def outcome(connection: Connection, verb: str, claims: Sequence[Claimed], *more: Any) -> set[int]:
    """The ids that complete, release, renew or fail accepted."""
    values = ([row.id for row in claims], [row.fence for row in claims], *more)
    holes = ", ".join(["%s"] * len(values))
    return {row[0] for row in connection.execute(f"SELECT * FROM soloist.{verb}({holes})", values)}


def fail(connection: Connection, claims: Sequence[Claimed], retry_in: str | None, error: str = "500") -> set[int]:
    count = len(claims)
    return outcome(connection, "fail", claims, [error] * count, [retry_in] * count)


def items(connection: Connection, table: str = "work_items") -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT * FROM soloist.{table} ORDER BY id").fetchall()


def scalar(connection: Connection, query: str, values: Any = ()) -> Any:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return row[0]


def lapse(connection: Connection) -> None:
    """Every lease ends now, as if its time had passed."""
    connection.execute("UPDATE soloist.work_items SET lease_until = clock_timestamp() WHERE lease_until IS NOT NULL")
