"""Several processes on one table, and everything that may befall them: each row is accepted once, and none is lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from soloist.adapters.postgres.migrate import migrate
from tests.cluster.children import Child, until
from tests.cluster.proxy import TcpProxy
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database, Postgres
from tests.queue.drainer import TABLES
from tests.queue.rows import Connection, scalar

SHORT, STEADY = "1 s", "10 min"
"""Leases: one that ends while a process is frozen, and one that no busy machine lets end."""
Start = Callable[..., Child]


@pytest.fixture
def drainers(tmp_path: Path) -> Iterator[Start]:
    started: list[Child] = []

    def start(dsn: str, batch: int = 50, **more: Any) -> Child:
        settings = {"dsn": dsn, "name": f"w{len(started)}", "batch": batch, "lease": SHORT, **more}
        argv = [sys.executable, "-m", "tests.queue.drainer", json.dumps(settings)]
        started.append(Child(settings["name"], argv, log=tmp_path / f"{settings['name']}.log"))
        started[-1].start()
        return started[-1]

    yield start
    for child in started:
        child.stop()


def fill(database: Database, count: int) -> None:
    with database.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS received, done, lost")
        connection.execute(TABLES)
        connection.execute(
            "SELECT count(*) FROM soloist.enqueue_many('q', (SELECT array_agg('{}'::jsonb) FROM generate_series(1, %s)))",
            (count,),
        )


def finished(connection: Connection) -> int:
    count: int = scalar(connection, "SELECT count(*) FROM done")
    return count


def gone(child: Child) -> bool:
    return not child.alive()


def standing_still(child: Child) -> bool:
    return Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def audit(database: Database, count: int) -> None:
    """Each row accepted once, none left or dead, no row received twice but under a higher fence and the same attempt."""
    with database.connect() as connection:
        assert scalar(connection, "SELECT count(*) FROM soloist.work_items") == 0
        assert scalar(connection, "SELECT count(*) FROM soloist.dead_items") == 0
        accepted = connection.execute("SELECT count(*), count(DISTINCT id) FROM done").fetchone()
        assert accepted == (count, count)
        assert scalar(connection, "SELECT count(*) FROM received WHERE attempt <> 1") == 0
        assert scalar(connection, "SELECT count(*) = count(DISTINCT fence) FROM received")
        falling = (
            "SELECT count(*) FROM (SELECT fence, lag(fence) OVER (PARTITION BY id ORDER BY n) AS earlier FROM received)"
            " AS x WHERE fence <= earlier"
        )
        assert scalar(connection, falling) == 0


def wait_for_all(children: list[Child], seconds: float = 240) -> None:
    until(lambda: all(gone(child) for child in children), what="the workers find nothing left", timeout=seconds)


def test_four_processes_share_ten_thousand_rows(queue_database: Database, drainers: Start) -> None:
    fill(queue_database, 10_000)
    wait_for_all([drainers(queue_database.dsn(), lease=STEADY) for _ in range(4)])
    audit(queue_database, 10_000)
    with queue_database.connect() as connection:
        assert scalar(connection, "SELECT count(*) FROM received") == 10_000, (
            "nobody was disturbed, so nothing came twice"
        )


def test_one_process_does_the_same(queue_database: Database, drainers: Start) -> None:
    fill(queue_database, 2000)
    wait_for_all([drainers(queue_database.dsn())])
    audit(queue_database, 2000)


def test_a_process_frozen_past_its_lease_writes_nothing_on_waking(queue_database: Database, drainers: Start) -> None:
    fill(queue_database, 1000)
    frozen = drainers(queue_database.dsn(), stop_after=3)
    until(lambda: standing_still(frozen), what="it stands still", timeout=120)
    wait_for_all([drainers(queue_database.dsn())])
    frozen.resume()
    wait_for_all([frozen])
    audit(queue_database, 1000)
    with queue_database.connect() as connection:
        assert scalar(connection, "SELECT count(*) FROM lost WHERE worker = 'w0'") == 50


def test_a_killed_and_a_cut_off_process_and_a_crashed_server_lose_and_double_nothing(
    fresh_postgres: Callable[..., Postgres], drainers: Start
) -> None:
    server = fresh_postgres()
    database = server.create_database("rough")
    migrate(database.dsn())
    fill(database, 10_000)
    with TcpProxy(server.port) as proxy:
        killed = drainers(database.dsn(), kill_after=3, lease="10 s")
        cut_off = drainers(database.dsn(port=proxy.port), batch=20)
        steady = drainers(database.dsn(), batch=20)
        with database.connect() as connection:
            until(lambda: gone(killed), what="one is dead", timeout=120)
            until(lambda: received(connection, "w1") > 100, what="the one behind the proxy is at it", timeout=120)
            # What it sends takes effect and it never hears of it: it cannot know whether its COMMIT came through.
            proxy.hold_replies()
            here = finished(connection)
            until(lambda: finished(connection) > here + 100, what="the other goes on", timeout=120)
            proxy.cut()
            proxy.forward()
        server.restart("immediate")
        wait_for_all([cut_off, steady])
    audit(database, 10_000)
    with database.connect() as connection:
        assert received(connection, "w0") == 150
        again = "SELECT count(*) FROM received WHERE worker = 'w0' AND id IN (SELECT id FROM done WHERE worker <> 'w0')"
        assert scalar(connection, again) == 50, "what the dead one held was done by others"


def received(connection: Connection, worker: str) -> int:
    count: int = scalar(connection, "SELECT count(*) FROM received WHERE worker = %s", (worker,))
    return count


def test_processes_behind_a_transaction_pooler_that_is_killed_once_do_the_same(
    postgres: Postgres, queue_database: Database, drainers: Start
) -> None:
    fill(queue_database, 3000)
    with PgBouncer(postgres) as pooler, queue_database.connect() as connection:
        children = [drainers(pooler.dsn(queue_database.name), batch=20) for _ in range(2)]
        until(lambda: finished(connection) > 200, what="they are at it", timeout=120)
        pooler.kill()
        pooler.start()
        wait_for_all(children)
    audit(queue_database, 3000)
