"""The port ``Rows`` in memory, held to its contract by ``test_rows.py``. For tests of the loops.

One ``FakeTable`` is the table of one queue; each worker has a ``FakeRows`` of its own over it. ``before`` and ``after`` see
every call by its name and may raise: an error of ``after`` is a lost reply, the write has happened.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Settled, Verdict

LONGEST_ERROR = 4000


@dataclass(slots=True, kw_only=True)
class FakeRow:
    """One row as the table holds it."""

    id: int
    due: datetime
    payload: Any = None
    priority: int = 1
    attempt: int = 1
    retry_base: int = 0
    reclaims: int = 0
    fence: int | None = None
    lease_until: datetime | None = None
    state: str = "waiting"  # also when claimed; done; dead
    reason: str = ""
    error: str = ""
    refuses_done: bool = False


class FakeTable:
    """``now`` is the database's clock."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.rows: dict[int, FakeRow] = {}
        self.before: Callable[[str], None] = lambda call: None
        self.after: Callable[[str], None] = lambda call: None
        self.ids, self.fences = itertools.count(1), itertools.count(1)

    def add(self, *, due: datetime | None = None, payload: Any = None, priority: int = 1) -> FakeRow:
        made = FakeRow(id=next(self.ids), due=due or self.now(), payload=payload, priority=priority)
        self.rows[made.id] = made
        return made

    def revive(self, row: FakeRow) -> None:
        row.state, row.reason, row.reclaims, row.due = "waiting", "", 0, self.now()
        row.retry_base = row.attempt - 1


class FakeRows:
    """One worker's view of a table."""

    def __init__(
        self,
        table: FakeTable,
        *,
        lease: timedelta = timedelta(seconds=60),
        hold: bool = False,
        max_reclaims: int = 5,
    ) -> None:
        self.table, self.lease, self.hold, self.max_reclaims = table, lease, hold, max_reclaims

    async def claim(self, most: int, *, without: Collection[str] = ()) -> list[Claim]:
        self.table.before("claim")
        now = self.table.now()
        for row in self._due(now):
            if row.fence is not None:
                self._reclaim(row, now)
        claims = [self._taken(row, now) for row in self._due(now)[:most]]
        self.table.after("claim")
        return claims

    async def renew(self, claims: Sequence[Claim]) -> set[int]:
        self.table.before("renew")
        held = [row for claim in claims if (row := self._held(claim)) is not None]
        for row in held:
            row.lease_until = self.table.now() + self.lease
        self.table.after("renew")
        return {row.fence for row in held if row.fence is not None}

    async def settle(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        self.table.before("settle")
        verdicts = [self._settle(outcome) for outcome in outcomes]
        self.table.after("settle")
        return verdicts

    def _due(self, now: datetime) -> list[FakeRow]:
        free = (row for row in self.table.rows.values() if row.state == "waiting" and row.due <= now)
        ready = (row for row in free if row.lease_until is None or row.lease_until <= now)
        return sorted(ready, key=lambda row: (row.priority, row.due, row.id))

    def _taken(self, row: FakeRow, now: datetime) -> Claim:
        row.fence, row.lease_until = next(self.table.fences), now + self.lease
        return Claim(
            row=(str(row.id),),
            fence=row.fence,
            attempt=row.attempt,
            tries=row.attempt - row.retry_base,
            reclaims=row.reclaims,
            priority=row.priority,
            due=row.due,
            due_key=row.due.isoformat(),
            payload=row.payload,
        )

    def _reclaim(self, row: FakeRow, now: datetime) -> None:
        row.fence = row.lease_until = None
        if self.hold or row.reclaims >= self.max_reclaims:
            row.state, row.reason = "dead", "Interrupted" if self.hold else "ReclaimedTooOften"
        row.reclaims += 1
        row.due = now

    def _held(self, claim: Claim) -> FakeRow | None:
        row = self.table.rows.get(int(claim.row[0]))
        return row if row is not None and row.fence == claim.fence else None

    def _settle(self, outcome: Settled) -> Verdict:
        row = self._held(outcome.claim)
        if row is None:
            return Verdict.LOST
        now = self.table.now()
        match outcome:
            case Done() if row.refuses_done:
                row.state, row.reason, row.error = "dead", "Refused", "The table refused the outcome."
            case Done():
                row.state = "done"
            case Failed(error=error, retry_in=None):
                row.state, row.reason, row.error = "dead", "Failed", kept(error)
                row.attempt += 1
            case Failed(error=error, retry_in=timedelta() as wait):
                row.error, row.due, row.reclaims = kept(error), now + wait, 0
                row.attempt += 1
            case Parked(error=error):
                row.state, row.reason, row.error = "dead", "Interrupted", kept(error)
            case PutBack(retry_in=wait) if wait:
                row.due = max(row.due, now + wait)
        row.fence = row.lease_until = None
        return Verdict.REFUSED if row.reason == "Refused" else Verdict.ACCEPTED


def kept(error: str) -> str:
    return error.replace("\x00", "").encode("utf-8", "replace").decode()[:LONGEST_ERROR]
