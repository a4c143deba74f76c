"""The README's table of failures for a database that all of standalone lives in: gone for a second, half a minute, five minutes.

Rows run at the same time, each with two replicas behind a wire of its own that refuses every connection for so long. In the
gate half a minute is scaled down: its lease is shorter by the same factor as its outage. In full it is among the long ones.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from soloist.adapters.postgres.migrate import migrate
from soloist.adapters.postgres.row_store import RowStore
from soloist.domain.instants import parse_time, stamp
from soloist.domain.schedule import parse_schedule
from soloist.ports import Written
from tests.api.crew import FAST, LEASE_SECONDS, children_of
from tests.api.table import Table, picked
from tests.cluster.backend import Backend, Received
from tests.cluster.children import until
from tests.cluster.proxy import TcpProxy
from tests.postgres.server import Postgres
from tests.queue.databases import with_database
from tests.standalone.crew import Crew

pytestmark = pytest.mark.slow

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
CALL = 5
"""Seconds that the call takes which is under way when the database goes, however long it takes to cut the wire."""

AHEAD = timedelta(milliseconds=300)
"""A few jobs that are due together are recorded some hundredths of a second before."""

SLACK = timedelta(seconds=60)
SOON = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """``every``: seconds between two ticks of the sweep, of which a status remembers a hundred that were missed."""

    seconds: float
    lease: float
    every: int = 1
    env: Mapping[str, str]


SHORT = {
    "1-s": Outage(seconds=1, lease=10, env={}),
    "30-s": Outage(seconds=30 * LEASE_SECONDS / 10, lease=LEASE_SECONDS, env=FAST),
}
IN_FULL = {
    "30-s-in-full": Outage(seconds=30, lease=10, env={}),
    "5-min": Outage(seconds=300, lease=10, every=5, env={}),
}
EVERY_TICK = "@every 4s"


@dataclass(kw_only=True)
class Row:
    """One outage, and what was seen of it."""

    outage: Outage
    crew: Crew
    wire: TcpProxy
    before: str = ""
    after: str = ""
    leader_ended: bool = False
    gone_at: datetime = LONG_AGO
    back_at: datetime = LONG_AGO

    def received(self, job: str, *, within: tuple[datetime, datetime] | None = None) -> list[Received]:
        found = self.crew.backend.received(f"/{job}")
        return [seen for seen in found if within is None or within[0] <= seen.at <= within[1]]

    def swept(self, *, within: tuple[datetime, datetime]) -> list[Received]:
        """What was received of the jobs that tick."""
        return [seen for job in ("sweep", "every-tick") for seen in self.received(job, within=within)]

    def phase(self, run: str) -> str:
        found = next(each for each in self.crew.objects("JobRun") if each["metadata"]["name"] == run)
        return str(found.get("status", {}).get("phase", "Pending"))

    def due(self, schedule: str) -> list[datetime]:
        """Ticks that fell into the outage, and not just at one of its ends."""
        after, last = self.gone_at + timedelta(seconds=1), self.back_at - timedelta(seconds=2)
        return parse_schedule(schedule).newest(after=after, until=last, limit=1000)

    def run(self) -> None:
        """Two replicas, one call under way, the outage, and some ticks after it."""
        crew, backend = self.crew, self.crew.backend
        self._write_jobs()
        for name in ("a", "b"):
            crew.ready(name)
        backend.wait(3, path="/sweep", timeout=SOON)
        self._ask_for_the_call()
        backend.wait(1, path="/call", timeout=SOON)
        leader = crew.leader(timeout=SOON)
        self.before, child = leader.name, leader.child()
        self.wire.refuse()
        self.wire.cut()
        self.gone_at = datetime.now(UTC)
        time.sleep(self.outage.seconds)
        self.leader_ended = child not in children_of(leader.parent)
        self.wire.forward()
        self.back_at = datetime.now(UTC)
        for job in ("sweep", "every-tick"):
            backend.wait(3, path=f"/{job}", when=lambda seen: seen.at >= self.back_at, timeout=SOON)
        for job in ("sweep", "every-tick", "rows"):
            crew.page(job, self.back_at)
        until(lambda: self.phase("under-way") in ("Succeeded", "Unknown"), what="the call is settled", timeout=SOON)
        self.after = crew.holder()

    def _write_jobs(self) -> None:
        crew = self.crew
        crew.backend.rule("/call", delay=CALL)
        own = {"databaseRef": {"secretName": "own", "key": "uri"}, "queue": "q", "payload": {"tick": "{scheduledTime}"}}
        rows = crew.job("rows", schedule=EVERY_TICK, concurrencyPolicy="Allow", enqueue=own)
        del rows["spec"]["http"]
        crew.write(
            "jobs.yaml",
            crew.job(
                "sweep",
                schedule=f"@every {self.outage.every}s",
                missedRunPolicy="RunLatest",
                concurrencyPolicy="Allow",
            ),
            crew.job("every-tick", schedule=EVERY_TICK, concurrencyPolicy="Allow"),
            crew.job("call", schedule="@yearly", timeoutSeconds=60),
            rows,
        )

    def _ask_for_the_call(self) -> None:
        body = {"metadata": {"namespace": "default", "name": "under-way"}, "spec": {"scheduledJobName": "call"}}

        async def ask(database: Any) -> None:
            store = RowStore(database, shard="standalone/soloist", writer="test")
            assert isinstance(await store.create_run(body), Written)

        with_database(self.crew.url, ask)


def _row(name: str, outage: Outage, stack: ExitStack, server: Postgres, above: Path) -> Row:
    folder = above / name
    folder.mkdir()
    place = server.create_database(f"gone_{name.replace('-', '_')}")
    stack.callback(server.drop_database, place.name)
    migrate(place.dsn())
    backend = stack.enter_context(Backend(folder / "backend"))
    wire = stack.enter_context(TcpProxy(server.port))
    env = {**outage.env, "SOLOIST_DATABASE": place.dsn(port=wire.port)}
    crew = Crew(folder, place.dsn(), backend, env=env)
    stack.callback(_end, crew)
    return Row(outage=outage, crew=crew, wire=wire)


def _end(crew: Crew) -> None:
    crew.stop()
    for member in crew.members.values():
        print(f"---- log of {member.name} in {crew.folder.name}\n{member.log()[-6000:]}")


@pytest.fixture(scope="module")
def table(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table[Outage, Row]]:
    folder = tmp_path_factory.mktemp("failures")
    with Table(SHORT, IN_FULL, make=lambda *row: _row(*row, postgres, folder)) as rows:
        yield rows


@pytest.fixture
def row(table: Table[Outage, Row], request: pytest.FixtureRequest) -> Row:
    return table[request.param]


ALL, SECOND, LONGER = picked(SHORT, IN_FULL)


@ALL
def test_nothing_starts_while_the_database_is_gone(row: Row) -> None:
    """But for what had been recorded a moment before it went."""
    gone = (row.gone_at, row.back_at)
    started = [parse_time(seen.header("Soloist-Scheduled-Time")) for seen in row.swept(within=gone)]
    assert [tick for tick in started if tick is None or tick > row.gone_at + AHEAD] == []
    term_over = row.gone_at + timedelta(seconds=row.outage.lease)
    assert row.swept(within=(term_over, row.back_at)) == []
    ledger = "SELECT tick FROM soloist.job_runs WHERE recorded_at BETWEEN %s AND %s"
    assert row.crew.ask(ledger, row.gone_at + AHEAD, row.back_at) == []


@ALL
def test_ticks_go_on_within_a_lease_after_the_database_is_back(row: Row) -> None:
    soon = (row.back_at, row.back_at + timedelta(seconds=row.outage.lease) + SLACK)
    assert row.received("sweep", within=soon)


@SECOND
def test_a_second_without_the_database_costs_nobody_the_lease(row: Row) -> None:
    assert row.before == row.after
    assert not row.leader_ended


@LONGER
def test_a_longer_outage_of_the_database_ends_the_leaders_child_and_with_it_its_calls(row: Row) -> None:
    assert row.leader_ended
    assert all(member.process.alive() for member in row.crew.members.values()), "parents stay, and start others"


@SECOND
def test_a_call_under_way_is_written_down_as_it_ended_once_the_database_is_back(row: Row) -> None:
    assert row.phase("under-way") == "Succeeded"


@LONGER
def test_a_call_under_way_ends_unknown_where_the_database_was_gone_for_longer(row: Row) -> None:
    assert row.phase("under-way") == "Unknown"


@ALL
def test_the_application_sees_a_call_once_and_no_tick_twice_or_early_though_the_database_was_gone(row: Row) -> None:
    assert len(row.received("call")) == 1
    for job in ("sweep", "every-tick"):
        row.crew.audit(job)


@ALL
def test_ticks_that_the_database_missed_come_late_under_run_all_and_with_a_reason_otherwise(row: Row) -> None:
    every = {seen.header("Soloist-Scheduled-Time") for seen in row.received("every-tick")}
    runs = row.crew.objects("JobRun", "every-tick")
    unknown = {run["spec"]["scheduledTime"] for run in runs if run.get("status", {}).get("phase") == "Unknown"}
    assert [tick for tick in row.due(EVERY_TICK) if stamp(tick) not in every | unknown] == []
    if row.outage.seconds > row.outage.lease:
        swept = {seen.header("Soloist-Scheduled-Time") for seen in row.received("sweep")}
        assert [tick for tick in row.due(f"@every {row.outage.every}s") if stamp(tick) in swept] == []
        stored = row.crew.stored("sweep")
        assert stored is not None
        assert "Missed" in {line["result"] for line in stored["status"]["recent"]}


@ALL
def test_rows_that_are_enqueued_are_there_once_for_each_tick_of_the_outage(row: Row) -> None:
    ((uid,),) = row.crew.ask("SELECT uid::text FROM soloist.objects WHERE kind = 'ScheduledJob' AND name = 'rows'")
    recorded = [tick for (tick,) in row.crew.ask("SELECT tick FROM soloist.job_runs WHERE job_uid = %s", uid)]
    added = Counter(parse_time(text) for (text,) in row.crew.ask("SELECT payload ->> 'tick' FROM soloist.work_items"))
    assert set(recorded) <= set(added), "the record of a run and its row commit together"
    assert [tick for tick, count in added.items() if count > 1] == []
    assert [tick for tick in row.due(EVERY_TICK) if tick not in added] == []
