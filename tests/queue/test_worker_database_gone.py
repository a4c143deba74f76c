"""The README's table of failures for the database of a WorkQueue: gone for a second, half a minute, five minutes.

Rows run at the same time, each with a worker and a database of its own, behind a wire that refuses every connection for so long.
Nothing is scaled down: the second is in the gate, half a minute and five minutes are long ones. A lease lasts as by default.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from soloist.adapters.postgres.migrate import migrate
from tests.api.going_on import let_pass
from tests.api.table import Table, picked
from tests.api.tending import now
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.cluster.proxy import TcpProxy
from tests.postgres.server import Postgres
from tests.queue.workers import Crew

pytestmark = pytest.mark.slow

OF_THE_GATE = {"1-s": 1.0}
IN_FULL = {"30-s": 30.0, "5-min": 300.0}
SLOTS, ROWS = 4, 10
CALL = 5
"""Seconds that each delivery takes which is under way when the database goes, however long it takes to cut the wire."""


@dataclass(kw_only=True)
class Row:
    """One outage, and what was seen of it. As many rows are due before it as during it."""

    seconds: float
    crew: Crew
    wire: TcpProxy
    under_way: set[int] = field(default_factory=set)
    back_at: datetime = field(default_factory=now)
    well: int = 0
    same_child: bool = False

    def run(self) -> None:
        """A worker all of whose slots deliver, the outage, and the rows to their end."""
        crew = self.crew
        crew.backend.rule("/q", delay=CALL, times=SLOTS)
        crew.queue(dsn=crew.database.dsn(port=self.wire.port), concurrency={"perWorker": SLOTS})
        worker = crew.ready("w")
        child = worker.child()
        crew.fill(ROWS)
        until(lambda: crew.served() == SLOTS, what="all slots deliver", timeout=90)
        self.wire.refuse()
        self.wire.cut()
        self.under_way = {n for n, seen in crew.received().items() if seen[0].ended_boot is None}
        crew.fill(ROWS, first=ROWS)
        let_pass(self.seconds)
        self.well = worker.ask("/healthz")[0]
        self.back_at = now()
        self.wire.forward()
        crew.until_empty()
        self.same_child = worker.process.alive() and worker.child() == child


def _row(name: str, seconds: float, stack: ExitStack, *, server: Postgres, above: Path) -> Row:
    folder = above / name
    folder.mkdir()
    database = server.create_database(f"gone_{uuid.uuid4().hex[:12]}")
    stack.callback(server.drop_database, database.name)
    migrate(database.dsn())
    backend = stack.enter_context(Backend(folder / "backend"))
    wire = stack.enter_context(TcpProxy(server.port))
    crew = Crew(folder, database, backend)
    crew.keep_books()
    stack.callback(crew.stop)
    return Row(seconds=seconds, crew=crew, wire=wire)


@pytest.fixture(scope="module")
def table(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table[float, Row]]:
    above = tmp_path_factory.mktemp("gone")
    with Table(OF_THE_GATE, IN_FULL, make=partial(_row, server=postgres, above=above)) as rows:
        yield rows


@pytest.fixture
def row(table: Table[float, Row], request: pytest.FixtureRequest) -> Row:
    return table[request.param]


ALL, _, _ = picked(OF_THE_GATE, IN_FULL)
WITHIN_A_LEASE, _, _ = picked(OF_THE_GATE, ["30-s"])
BEYOND_A_LEASE = pytest.mark.parametrize("row", [pytest.param("5-min", marks=pytest.mark.long)], indirect=True)


@ALL
def test_no_row_is_sent_while_the_workers_database_is_gone(row: Row) -> None:
    """Those that came due meanwhile."""
    sent = [seen[0].at for n, seen in row.crew.received().items() if n >= ROWS]
    assert len(sent) == ROWS
    assert min(sent) > row.back_at


@ALL
def test_a_worker_outlives_its_database_and_says_that_it_is_well(row: Row) -> None:
    assert row.well == 200, "a restart would mend nothing"
    assert row.same_child


@ALL
def test_each_row_is_accepted_once_though_the_workers_database_was_gone(row: Row) -> None:
    row.crew.audit(2 * ROWS)


@WITHIN_A_LEASE
def test_what_was_being_delivered_is_written_down_once_the_database_is_back_and_not_sent_again(row: Row) -> None:
    assert row.under_way
    assert {len(seen) for seen in row.crew.received().values()} == {1}


@BEYOND_A_LEASE
def test_what_was_being_delivered_comes_again_where_the_database_was_gone_for_longer_than_a_lease(row: Row) -> None:
    assert {len(seen) for n, seen in row.crew.received().items() if n in row.under_way} == {2}
    assert {len(seen) for n, seen in row.crew.received().items() if n not in row.under_way} == {1}
