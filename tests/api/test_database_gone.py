"""The README's table of failures for the database of ``sql`` and ``enqueue`` jobs: gone for a second, half a minute, five minutes.

Rows run at the same time, each with a controller and a database of its own, behind a wire that refuses every connection for so
long. Nothing is scaled down: the second is in the gate, half a minute and five minutes are long ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from soloist.domain.schedule import parse_schedule
from tests.api.crew import Crew, Raw
from tests.api.going_on import let_pass, tick
from tests.api.reasons import due_ticks, moment
from tests.api.table import Table, picked
from tests.api.tending import (
    CALM,
    EVERY_TICK,
    FINAL,
    KEEP,
    ended,
    nothing_twice_or_early,
    now,
    phase_of,
    start,
    through,
    tick_of,
)
from tests.api.test_sql_action import prepare, secret, sleeping, slow_once, sql, ticks_noted, ticks_queued
from tests.api.test_sql_action import row as row_for
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.proxy import TcpProxy
from tests.postgres.server import Database, Postgres

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

RETRY = {"maxAttempts": 100, "initialDelaySeconds": 1, "factor": 2, "maxDelaySeconds": 10}
AWAY = {"DatabaseUnavailable", "ConnectionLost", "NotCommitted"}
LATE = timedelta(seconds=15)
"""By so much a launch may be late on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """``every``: seconds between two ticks of each job."""

    seconds: float
    every: int

    @property
    def schedule(self) -> str:
        return f"@every {self.every}s"


OF_THE_GATE = {"1-s": Outage(seconds=1, every=1)}
IN_FULL = {"30-s": Outage(seconds=30, every=2), "5-min": Outage(seconds=300, every=10)}


@dataclass(kw_only=True)
class Row:
    """One outage, and what was seen of it. Jobs: ``note``, ``queued`` and ``under-way`` are tried again, ``untried`` is not, ``call``
    needs no database."""

    outage: Outage
    crew: Crew
    wire: TcpProxy
    database: Database
    backend: Backend
    gone_at: datetime = field(default_factory=now)
    back_at: datetime = field(default_factory=now)

    def run(self) -> None:
        """One statement under way, the outage, some ticks after it, and nobody is at work any more."""
        crew = self.crew
        secret(crew, self.database.dsn(port=self.wire.port))
        start(crew, "a", **CALM)
        ticking = {"schedule": self.outage.schedule, **KEEP, **EVERY_TICK}
        crew.job("under-way", schedule="@yearly", retry=RETRY, timeoutSeconds=90, sql=sql(slow_once()))
        crew.job("note", **ticking, retry=RETRY, sql=sql(place="note"))
        crew.job("queued", **ticking, retry=RETRY, enqueue=row_for("queued"))
        crew.job("untried", **ticking, sql=sql(place="untried"))
        crew.job("call", **ticking, http={"url": self.backend.url("/call")})
        until(lambda: ticks_noted(self.database, "note"), what="it is at it", timeout=90)
        crew.trigger("under-way", "slow-run")
        until(lambda: sleeping(self.database), what="its statement runs", timeout=90)
        self.wire.refuse()
        self.wire.cut()
        self.gone_at = now()
        let_pass(self.outage.seconds)
        self.back_at = now()
        self.wire.forward()
        for job in ("note", "queued", "untried", "call"):
            through(crew, job, self.back_at)
        crew.wait(lambda: crew.phase("slow-run") in FINAL, what="the statement under way is settled", timeout=180)
        crew.members["a"].terminate()
        ended(crew, "a")

    def ticks(self, job: str) -> set[datetime]:
        """All that had come by the end of the outage."""
        return set(due_ticks(self.crew.status(job), self.back_at))

    def runs(self, job: str) -> dict[datetime, Raw]:
        """The runs for them."""
        return {tick_of(run): run for run in self.crew.runs(job) if tick_of(run) <= self.back_at}

    def met(self) -> list[datetime]:
        """Ticks of the outage that were launched before it was over, if late; of a second there are none."""
        after, last = self.gone_at + timedelta(seconds=1), self.back_at - LATE
        return parse_schedule(self.outage.schedule).newest(after=after, until=last, limit=1000)


@pytest.fixture(scope="module")
def table(
    control_plane: ControlPlane, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Table[Outage, Row]]:
    above = tmp_path_factory.mktemp("gone")
    with Table(OF_THE_GATE, IN_FULL, make=partial(_row, cluster=control_plane, server=postgres, above=above)) as rows:
        yield rows


def _row(name: str, outage: Outage, stack: ExitStack, *, cluster: ControlPlane, server: Postgres, above: Path) -> Row:
    folder = above / name
    folder.mkdir()
    database = server.create_database(f"gone_{uuid.uuid4().hex[:12]}")
    stack.callback(server.drop_database, database.name)
    prepare(database)
    backend = stack.enter_context(Backend(folder / "backend"))
    wire = stack.enter_context(TcpProxy(server.port))
    namespace = Namespace(name=f"t-gone-{uuid.uuid4().hex[:8]}", cluster=cluster)
    cluster.api().create("/api/v1/namespaces", {"metadata": {"name": namespace.name}})
    stack.callback(cluster.api().delete, f"/api/v1/namespaces/{namespace.name}")
    crew = Crew(cluster, namespace, folder)
    stack.callback(_end, crew)
    return Row(outage=outage, crew=crew, wire=wire, database=database, backend=backend)


def _end(crew: Crew) -> None:
    crew.stop()
    for member in crew.members.values():
        print(f"---- log of {member.name} in {crew.folder.name}\n{member.log()[-6000:]}")


@pytest.fixture
def row(table: Table[Outage, Row], request: pytest.FixtureRequest) -> Row:
    return table[request.param]


ALL, _, LONGER = picked(OF_THE_GATE, IN_FULL)


@ALL
def test_what_needs_no_database_starts_though_that_of_others_is_gone(row: Row) -> None:
    nothing_twice_or_early(row.backend, "/call")
    calls = {tick(seen): seen.at for seen in row.backend.received("/call")}
    assert row.ticks("call") - calls.keys() == set()
    assert [due for due in row.met() if calls[due] > row.back_at] == []


@ALL
def test_each_effect_is_there_once_though_the_database_was_gone(row: Row) -> None:
    for job, seen in {
        "note": ticks_noted(row.database, "note"),
        "queued": ticks_queued(row.database, "queued"),
    }.items():
        assert len(seen) == len(set(seen))
        assert row.ticks(job) - {moment(each) for each in seen} == set()


@ALL
def test_a_statement_that_was_under_way_when_the_database_went_is_rolled_back_and_done_anew(row: Row) -> None:
    (run,) = row.crew.runs("under-way")
    assert phase_of(run) == "Succeeded"
    assert run["status"]["attempt"] > 1
    assert len(ticks_noted(row.database, "slow")) == 1


@ALL
def test_no_run_is_unknown_though_the_database_was_gone_and_one_that_is_not_tried_again_says_why(row: Row) -> None:
    for job in ("note", "queued"):
        assert {phase_of(run) for run in row.runs(job).values()} == {"Succeeded"}
    done = {moment(each) for each in ticks_noted(row.database, "untried")}
    for due, run in row.runs("untried").items():
        status = run["status"]
        assert (status["phase"] == "Succeeded") == (due in done), run
        assert status["phase"] == "Succeeded" or (status["phase"] == "Failed" and status["reason"] in AWAY), run


@LONGER
def test_every_run_of_a_longer_outage_fails_at_its_time_and_is_tried_again_as_retry_says(row: Row) -> None:
    note, queued, untried = (row.runs(job) for job in ("note", "queued", "untried"))
    assert row.met()
    assert [
        due for due in row.met() if note[due]["status"]["attempt"] < 2 or queued[due]["status"]["attempt"] < 2
    ] == []
    assert {untried[due]["status"]["phase"] for due in row.met()} == {"Failed"}
