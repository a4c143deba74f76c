"""The database goes away for a while, or comes back as it was some time ago."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from soloist.adapters.postgres.migrate import migrate
from soloist.domain.instants import parse_time
from tests.api.crew import LEASE_SECONDS, children_of
from tests.cluster.backend import Backend, Received
from tests.cluster.children import until
from tests.postgres.server import Postgres
from tests.postgres.standby import copy_of
from tests.standalone.crew import Crew
from tests.standalone.test_hand_over import also_of_three_at_leisure

pytestmark = pytest.mark.slow
Servers = Callable[..., Postgres]
RECORDED_AHEAD = timedelta(seconds=2)
"""At the most. What is due later than that was recorded by nobody whose record is lost."""
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@pytest.fixture
def outage(tmp_path: Path, fresh_postgres: Servers, receiver: Backend) -> Iterator[tuple[Postgres, Crew]]:
    """Replicas that are still to be started, on a server of their own."""
    server = fresh_postgres()
    place = server.create_database("ours")
    migrate(place.dsn())
    crew = Crew(tmp_path, place.dsn(), receiver)
    yield server, crew
    crew.stop()
    for member in crew.members.values():
        print(f"---- log of {member.name}\n{member.log()[-6000:]}")


def begin(crew: Crew, names: str = "ab") -> None:
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    for name in names:
        crew.ready(name)
    go_on(crew)


def go_on(crew: Crew, ticks: int = 3) -> None:
    crew.backend.wait(len(crew.backend.received("/sweep")) + ticks, path="/sweep", timeout=120)


def tick(seen: Received) -> datetime:
    found = parse_time(seen.header("Soloist-Scheduled-Time"))
    assert found is not None
    return found


def asleep(crew: Crew) -> list[int]:
    """Its processes, which stand still: a parent that does so starts no other child, and takes leave of none."""
    parents = [each.process.pid for each in crew.members.values()]
    for pid in parents:
        os.kill(pid, signal.SIGSTOP)
    children = [child for parent in parents for child in children_of(parent)]
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    return [*children, *parents]


@also_of_three_at_leisure
def test_connections_that_are_cut_and_a_database_that_is_away_for_a_moment_or_for_longer_than_a_lease_cost_no_tick(
    outage: tuple[Postgres, Crew], names: str
) -> None:
    server, crew = outage
    begin(crew, names)
    for _ in range(3):
        crew.ask(CUT)
        go_on(crew, 1)
    server.restart("fast")
    go_on(crew)
    server.stop("immediate")
    stopped = time.monotonic()
    until(lambda: time.monotonic() - stopped > 2.5 * LEASE_SECONDS, what="nobody may lead any more", timeout=120)
    idle = len(crew.backend.received("/sweep"))
    assert all(each.process.alive() for each in crew.members.values())
    until(lambda: time.monotonic() - stopped > 3 * LEASE_SECONDS, what="a little longer", timeout=120)
    assert len(crew.backend.received("/sweep")) == idle, "nothing is launched that cannot be recorded"
    server.start()
    go_on(crew)
    crew.audit("sweep")


def test_a_database_that_stands_still_ends_the_term_and_after_a_laptops_sleep_all_are_back_by_themselves(
    outage: tuple[Postgres, Crew],
) -> None:
    server, crew = outage
    begin(crew)
    server.pause()
    try:
        until(
            lambda: any("dead-man" in each.log() or "term lost" in each.log() for each in crew.members.values()),
            what="the leader stops believing in itself",
            timeout=120,
        )
    finally:
        server.resume()
    go_on(crew)
    everybody = asleep(crew)
    server.pause()
    slept = time.monotonic()
    until(lambda: time.monotonic() - slept > 1.5 * LEASE_SECONDS, what="it sleeps", timeout=120)
    server.resume()
    for pid in everybody:
        os.kill(pid, signal.SIGCONT)
    go_on(crew)
    assert all(each.process.alive() for each in crew.members.values())
    crew.audit("sweep")


def test_a_database_put_back_to_an_earlier_state_gives_no_fence_again_and_what_comes_later_is_once(
    outage: tuple[Postgres, Crew],
) -> None:
    server, crew = outage
    begin(crew)
    earlier = copy_of(server)
    try:
        go_on(crew, 4)
        server.stop("immediate")
        later = datetime.now(UTC) + RECORDED_AHEAD
        server.data.rename(server.directory / "lost")
        earlier.data.rename(server.data)
        server.start()
        crew.backend.wait(4, path="/sweep", when=lambda seen: tick(seen) > later, timeout=120)
    finally:
        earlier.down()
    received = crew.backend.received("/sweep")
    ticks = [tick(seen) for seen in received if tick(seen) > later]
    assert len(ticks) == len(set(ticks))
    fences = [int(str(seen.header("Soloist-Fence"))) for seen in received]
    assert fences == sorted(fences)
