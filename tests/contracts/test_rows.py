"""The fake ``Rows`` keeps the contract. The adapters' own modules say the same of them: tests/queue/test_managed_rows.py."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from soloist.loops.row_ports import Rows
from tests.contracts.fake_rows import FakeRow, FakeRows, FakeTable
from tests.contracts.rows import NOTHING, Enter, Key, RowsFacts, Standing


class FakeWorld:
    """A ``FakeTable`` whose clock the test moves."""

    def __init__(self) -> None:
        self.clock = datetime(2026, 3, 1, tzinfo=UTC)
        self.table = FakeTable(lambda: self.clock)

    def rows(self, *, lease: timedelta = timedelta(minutes=1), hold: bool = False, max_reclaims: int = 5) -> Rows:
        return FakeRows(self.table, lease=lease, hold=hold, max_reclaims=max_reclaims)

    async def add(self, count: int = 1, *, due_in: timedelta = NOTHING) -> list[Key]:
        return [(str(self.table.add(due=self.clock + due_in).id),) for _ in range(count)]

    async def look(self) -> dict[Key, Standing]:
        return {(str(row.id),): standing(row) for row in self.table.rows.values()}

    async def lapse(self) -> None:
        for row in self.table.rows.values():
            row.lease_until = row.lease_until and self.clock

    async def now(self) -> datetime:
        return self.clock

    async def reach(self, moment: datetime) -> None:
        self.clock = max(self.clock, moment)

    async def remove(self, key: Key) -> None:
        del self.table.rows[int(key[0])]

    async def revive(self, key: Key) -> None:
        self.table.revive(self.table.rows[int(key[0])])

    async def refuse_done(self, key: Key) -> None:
        self.table.rows[int(key[0])].refuses_done = True


def standing(row: FakeRow) -> Standing:
    if row.state == "dead":
        return Standing(state="dead", reason=row.reason, error=row.error)
    return Standing(state="claimed" if row.fence is not None else row.state)


class TestFakeRows(RowsFacts):
    @pytest.fixture
    def enter(self) -> Enter:
        return lambda body: asyncio.run(body(FakeWorld()))  # type: ignore[arg-type]
