"""The ``enqueue`` action: a queue's row and the record of its run commit together, and many such runs in one transaction.

One statement records the runs, adds the rows, and checks the epoch last: nobody can freeze in the middle of it. Why it may
be shared: a run's record admits one row whoever else is in the transaction, and one that the database refuses, or that has
to wait for somebody, is tried again apart from the others, with all the time that it may take.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from soloist.adapters.postgres.gathering import APART, Answers, Gathering
from soloist.adapters.postgres.ledger import STALE_EPOCH, Ledger, Pending, keys_of
from soloist.adapters.postgres.run_failures import LOCK_TIMEOUT, QUERY_CANCELED, failed, not_begun
from soloist.adapters.postgres.statements import statement
from soloist.domain.actions import EnqueueAction, Order, Outcome, Response, Succeeded
from soloist.domain.errors import SoloistError, TransientError
from soloist.domain.instants import stamp
from soloist.domain.sql_values import payload, unique_key

SHORT, SHORTEST = 0.2, 0.01
"""Seconds that runs in company wait for somebody else's transaction; the latter while looking for the one that has to."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one run adds, and to which queue as the database knows it."""

    order: Order
    action: EnqueueAction
    queue: str


class Enqueueing:
    """Into the database of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._gathering: Gathering[Row, Outcome | Pending] = Gathering(
            self._send, key=lambda row: row.order.key, alone=self._alone
        )

    async def add(self, row: Row) -> Outcome | Pending:
        """What came of it, or what has to be asked for."""
        return await self._gathering.ask(row)

    async def _send(self, rows: Sequence[Row]) -> Answers[Outcome | Pending]:
        return await self._add(rows, wait=SHORT)

    async def _alone(self, row: Row) -> Answers[Outcome | Pending]:
        return await self._add([row], wait=None)

    async def _add(self, rows: Sequence[Row], *, wait: float | None) -> Answers[Outcome | Pending]:
        """``wait``: None for all the time that the run may take, which then has no company."""
        epoch = max(row.order.fence for row in rows)
        seconds = min(row.order.timeout.total_seconds() for row in rows)
        database = self._ledger.database
        # A little less than the whole, so that a wait for a lock is told as one.
        patience = seconds * 0.9 if wait is None else min(wait, seconds * 0.9)
        values = {
            "shard": self._ledger.shard, "epoch": epoch, "term": self._ledger.term(epoch),
            "wait": f"{patience * 1000:.0f}ms",
            "runs": json.dumps([_said(number, row) for number, row in enumerate(rows)]),
        }  # fmt: skip
        most = seconds if wait is None else min(seconds, database.url.statement_timeout)
        try:
            told = await database.fetch(statement("enqueue_runs"), values, most_seconds=most)
        except SoloistError as problem:
            return await self._not_added(rows, problem, seconds, wait)
        said: dict[int, str | None] = dict(told)
        return [_ended(said[number]) for number in range(len(rows))]

    async def _not_added(
        self, rows: Sequence[Row], problem: SoloistError, seconds: float, wait: float | None
    ) -> Answers[Outcome | Pending]:
        """Of a refusal the server says so, and has done nothing; else the commit may have come through."""
        refusal = problem.__cause__ if isinstance(problem.__cause__, psycopg.Error) else None
        if isinstance(problem, TransientError) and problem.sent:
            return [Pending.LOST for _ in rows]
        if refusal is None:
            return [not_begun(problem) for _ in rows]
        if refusal.sqlstate == STALE_EPOCH:
            return [Pending.STALE for _ in rows]
        half = len(rows) // 2
        if half:
            parts = [await self._add(part, wait=SHORTEST) for part in (rows[:half], rows[half:])]
            return [answer for part in parts for answer in part]
        if wait is not None and refusal.sqlstate in (LOCK_TIMEOUT, QUERY_CANCELED):
            return [APART]
        return [failed(refusal, self._ledger.database.name, seconds)]


def _ended(said: str | None) -> Outcome | Pending:
    return Pending.BEFORE if said is None else Succeeded(response=Response(excerpt=said))


def _said(number: int, row: Row) -> dict[str, Any]:
    order, action, keys = row.order, row.action, keys_of(row.order)
    return {
        "n": number, "job": keys["job"], "key": keys["key"], "queue": row.queue, "priority": action.priority,
        "unique_key": unique_key(order, action), "seconds": action.due_in.total_seconds() or None,
        "tick": stamp(keys["tick"]) if keys["tick"] is not None else None, "payload": payload(order, action),
    }  # fmt: skip
