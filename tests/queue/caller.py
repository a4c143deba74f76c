"""A worker in another language, at a user's table: all that it has is a connection, and the SQL functions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from tests.contracts.rows import Key
from tests.queue.mapped_world import QUEUE, MappedWorld
from tests.queue.rows import Connection, scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One row that soloist.claim_rows gave."""

    pk: str
    fence: int
    attempt: int
    tries: int
    reclaims: int
    due_at: datetime | None
    payload: str | None
    columns: dict[str, Any]


class Caller:
    """Says each function in one word."""

    def __init__(self, connection: Connection, world: MappedWorld) -> None:
        self.connection, self.world = connection, world

    def claim(self, n: int = 1, **more: Any) -> list[Claimed]:
        named = "".join(f", {name} => %({name})s" for name in more)
        query = f"SELECT * FROM soloist.claim_rows(%(queue)s, %(n)s{named})"
        with self.connection.cursor(row_factory=class_row(Claimed)) as cursor:
            return cursor.execute(query, {"queue": QUEUE, "n": n, **more}).fetchall()

    def settle(self, *said: tuple[Claimed, str] | tuple[Claimed, str, str | None, str | None]) -> list[str]:
        columns = [list(column) for column in zip(*(((*each, None, None)[:4]) for each in said), strict=True)]
        values = [QUEUE, [row.pk for row in columns[0]], [row.fence for row in columns[0]], *columns[1:]]
        query = "SELECT verdict FROM soloist.settle_rows(%s, %s, %s, %s, %s::text[], %s::interval[])"
        return [row[0] for row in self.connection.execute(query, values)]

    def one(self, verb: str, row: Claimed, *more: Any) -> Any:
        holes = ", %s" * len(more)
        return scalar(self.connection, f"SELECT soloist.{verb}(%s, %s, %s{holes})", (QUEUE, row.pk, row.fence, *more))

    def renew(self, *rows: Claimed) -> list[int]:
        """The fences that hold."""
        values = (QUEUE, [row.pk for row in rows], [row.fence for row in rows])
        return [row[0] for row in self.connection.execute("SELECT soloist.renew_rows(%s, %s, %s, '1 min')", values)]

    def retry(self, *letters: int) -> list[tuple[int, bool]]:
        query = "SELECT id, back FROM soloist.retry_dead_rows(%s, %s)"
        return self.connection.execute(query, (QUEUE, [*letters])).fetchall()

    def cancel(self, keys: list[Key]) -> list[str]:
        single = len(self.world.shape.table.id) == 1
        pks = [key[0] if single else scalar(self.connection, "SELECT %s::text[]::text", ([*key],)) for key in keys]
        query = "SELECT soloist.cancel_rows(%s, %s::text[])"
        return [row[0] for row in self.connection.execute(query, (QUEUE, pks))]

    def key(self, row: Claimed | str) -> Key:
        pk = row if isinstance(row, str) else row.pk
        if len(self.world.shape.table.id) == 1:
            return (pk,)
        return tuple(scalar(self.connection, "SELECT %s::text[]", (pk,)))

    def states(self, keys: list[Key]) -> list[str]:
        return [self.world.standing(key).state for key in keys]
