"""The README's table of failures, cell by cell: an API server that is gone for a second, for half a minute, for five minutes.

Rows run at the same time, each with two controllers behind a wire of its own that refuses every connection for so long. In the
gate the row of five minutes is scaled down: its Lease is shorter by the same factor as its outage. In full it is a long one.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from soloist.domain.instants import parse_time, stamp
from soloist.domain.schedule import parse_schedule
from tests.api.crew import Crew, audit, children_of, requests_by_tick
from tests.api.going_on import tick
from tests.api.table import Table, picked
from tests.cluster.backend import Backend, Received
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.proxy import TcpProxy

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

KEEP = {"successfulRunsHistoryLimit": 100, "failedRunsHistoryLimit": 100}
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
CALL = 3.0
"""Seconds that the call takes which is under way when the API server goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """``sweep``, ``every``: schedules of the two jobs, of whose missed ticks the status and RunAll take a hundred at most."""

    seconds: float
    env: Mapping[str, str] = field(default_factory=dict)
    sweep: str = "@every 1s"
    every: str = "@every 2s"

    @property
    def lease(self) -> float:
        return float(self.env.get("SOLOIST_LEASE_DURATION", "10"))


SHORT_LEASE = {"SOLOIST_LEASE_DURATION": "3", "SOLOIST_LEASE_RETRY_PERIOD": "0.8", "SOLOIST_LEASE_MARGIN": "0.5"}
OF_THE_GATE = {
    "1-s": Outage(seconds=1),
    "30-s": Outage(seconds=30),
    "5-min": Outage(seconds=90, env=SHORT_LEASE),
}
IN_FULL = {"5-min-in-full": Outage(seconds=300, sweep="@every 5s", every="@every 4s")}


@dataclass(kw_only=True)
class Row:
    """One outage, and what was seen of it."""

    name: str
    outage: Outage
    crew: Crew
    wire: TcpProxy
    backend: Backend
    before: str = ""
    after: str = ""
    leader_ended: bool = False
    gone_at: datetime = LONG_AGO
    back_at: datetime = LONG_AGO
    load: float = 0.0

    def path(self, job: str) -> str:
        return f"/{self.name}/{job}"

    def received(self, job: str) -> list[Received]:
        return [seen for seen in self.backend.received() if seen.path == self.path(job)]

    def requests(self, job: str, *, within: tuple[datetime, datetime]) -> list[Received]:
        return [seen for seen in self.received(job) if within[0] <= seen.at <= within[1]]

    def run(self) -> None:
        """Two controllers, one call under way, the outage, and some ticks after it."""
        self._make_jobs()
        for name in ("a", "b"):
            self.crew.start(name)
        self._wait_for("sweep", 3)
        leader = self.crew.leader()
        self.before, child = leader.name, leader.child()
        self.crew.trigger("call", "under-way")
        self._wait_for("call", 1)
        self.gone_at = datetime.now(UTC)
        self.wire.refuse()
        self.wire.cut()
        time.sleep(self.outage.seconds)
        self.leader_ended = child not in children_of(leader.parent)
        self.wire.forward()
        self.back_at, self.load = datetime.now(UTC), os.getloadavg()[0]
        for job in ("sweep", "every-tick"):
            self._wait_for(job, 3, since=self.back_at)
            self.crew.wait(lambda job=job: self._is_through(job), what=f"{self.name}: {job} has caught up")
        self.crew.wait(lambda: self.crew.phase("under-way") in ("Succeeded", "Unknown"), what="the call is settled")
        self.after, self.load = self.crew.holder(), max(self.load, os.getloadavg()[0])

    def _make_jobs(self) -> None:
        self.backend.rule(self.path("call"), delay=CALL)
        jobs: dict[str, dict[str, Any]] = {
            "sweep": {"schedule": self.outage.sweep, "timeoutSeconds": 2},
            "every-tick": {"schedule": self.outage.every, "concurrencyPolicy": "Allow", "missedRunPolicy": "RunAll", "maxMissedRuns": 100},
            "call": {"schedule": "@yearly", "timeoutSeconds": 10},
        }  # fmt: skip
        for name, spec in jobs.items():
            self.crew.job(name, **spec, **KEEP, http={"url": self.backend.url(self.path(name))})

    def _is_through(self, job: str) -> bool:
        """All ticks of the outage are decided, and no run of theirs is open."""
        watermark = parse_time(self.crew.status(job).get("watermark"))
        phases = {run.get("status", {}).get("phase") for run in self.crew.runs(job) if _tick(run) <= self.back_at}
        return watermark is not None and watermark > self.back_at and not phases & {None, "Pending", "Running"}

    def _wait_for(self, job: str, count: int, *, since: datetime | None = None) -> None:
        def enough() -> bool:
            return len([seen for seen in self.received(job) if since is None or seen.at >= since]) >= count

        self.crew.wait(enough, what=f"{self.name}: {count} requests of {job}")


@pytest.fixture(scope="module")
def table(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table[Outage, Row]]:
    folder = tmp_path_factory.mktemp("failures")
    with Table(OF_THE_GATE, IN_FULL, make=lambda *row: _row(*row, control_plane, folder)) as rows:
        yield rows


@pytest.fixture
def row(table: Table[Outage, Row], request: pytest.FixtureRequest) -> Row:
    return table[request.param]


def _row(name: str, outage: Outage, stack: ExitStack, cluster: ControlPlane, above: Path) -> Row:
    folder = above / name
    folder.mkdir()
    backend = stack.enter_context(Backend(folder / "backend"))
    namespace = Namespace(name=f"t-{name}-{uuid.uuid4().hex[:8]}", cluster=cluster)
    cluster.api().create("/api/v1/namespaces", {"metadata": {"name": namespace.name}})
    wire = stack.enter_context(TcpProxy(cluster.port))
    crew = Crew(cluster, namespace, folder, server=wire.server, env=dict(outage.env))
    stack.callback(crew.stop)
    return Row(name=name, outage=outage, crew=crew, wire=wire, backend=backend)


ALL, SECOND, LONGER = picked(OF_THE_GATE, IN_FULL)


@ALL
def test_nothing_starts_while_the_api_server_is_gone(row: Row) -> None:
    """But for what had been recorded a moment before it went."""
    gone, recorded = (row.gone_at, row.back_at), row.gone_at + timedelta(milliseconds=300)
    started = [seen for job in ("sweep", "every-tick") for seen in row.requests(job, within=gone)]
    assert [seen for seen in started if tick(seen) > recorded] == []


@ALL
def test_ticks_go_on_within_a_lease_after_the_api_server_is_back(row: Row) -> None:
    slack = 10.0 * max(1.0, row.load / 4)
    soon = (row.back_at, row.back_at + timedelta(seconds=row.outage.lease + slack))
    assert row.requests("sweep", within=soon)


@SECOND
def test_a_second_costs_nobody_the_lease(row: Row) -> None:
    assert row.before == row.after
    assert not row.leader_ended


@LONGER
def test_a_longer_outage_ends_the_leaders_child_and_with_it_its_calls(row: Row) -> None:
    assert row.leader_ended


@SECOND
def test_a_call_under_way_is_written_down_as_it_ended_after_a_second(row: Row) -> None:
    assert row.crew.phase("under-way") == "Succeeded"


@LONGER
def test_a_call_under_way_ends_unknown_after_a_longer_outage(row: Row) -> None:
    assert row.crew.phase("under-way") == "Unknown"


@ALL
def test_the_application_sees_the_call_under_way_once(row: Row) -> None:
    assert len(row.received("call")) == 1


@ALL
def test_the_application_sees_no_tick_twice_and_none_early(row: Row) -> None:
    for job in ("sweep", "every-tick"):
        audit(row.crew, row.backend, job, path=row.path(job))


@ALL
def test_missed_ticks_come_late_under_run_all_and_with_a_reason_otherwise(row: Row) -> None:
    gone = (row.gone_at + timedelta(seconds=1), row.back_at - timedelta(seconds=2))
    every = requests_by_tick(row.backend, row.path("every-tick"))
    unknown = {_tick(run) for run in row.crew.runs("every-tick") if run.get("status", {}).get("phase") == "Unknown"}
    assert [tick for tick in _due(row.outage.every, gone) if not every[stamp(tick)] and tick not in unknown] == []
    if row.outage.seconds > row.outage.lease:
        swept = requests_by_tick(row.backend, row.path("sweep"))
        assert [tick for tick in _due(row.outage.sweep, gone) if swept[stamp(tick)]] == []
        assert "Missed" in {line["result"] for line in row.crew.status("sweep")["recent"]}


def _due(schedule: str, within: tuple[datetime, datetime]) -> list[datetime]:
    return parse_schedule(schedule).newest(after=within[0], until=within[1], limit=1000)


def _tick(run: dict[str, Any]) -> datetime:
    return parse_time(run["spec"].get("scheduledTime")) or LONG_AGO
