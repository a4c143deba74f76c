"""Several processes write the same rows, and are killed, frozen, and cut off from the database: no write is lost or doubled."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from soloist.adapters.postgres.migrate import migrate
from soloist.adapters.postgres.row_store import RowStore
from tests.cluster.children import Child, until
from tests.postgres.server import Database, Postgres
from tests.queue.databases import with_database
from tests.standalone.racer import SHARD

TIMES = 60
SOON = 180.0
Start = Callable[[Database, str], Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Child] = []

    def begin(database: Database, name: str) -> Child:
        settings = {"dsn": database.dsn(), "name": name, "times": TIMES}
        argv = [sys.executable, "-m", "tests.standalone.racer", json.dumps(settings)]
        started.append(Child(name, argv, log=tmp_path / f"{name}.log"))
        started[-1].start()
        return started[-1]

    yield begin
    for child in started:
        child.stop()


def said(child: Child, event: str) -> list[dict[str, Any]]:
    lines = [line for line in child.log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    return [line for line in map(json.loads, lines) if line["event"] == event]


def prepared(database: Database) -> None:
    async def make(opened: Any) -> None:
        store = RowStore(opened, shard=SHARD, writer="test")
        await store.create_run({"metadata": {"namespace": "n", "name": "counted"}, "spec": {"scheduledJobName": "j"}})

    with_database(database.dsn(), make)


def count(database: Database) -> int:
    text = f"SELECT coalesce((status ->> 'count')::int, 0) FROM soloist.objects WHERE shard = '{SHARD}' AND name = 'counted'"
    return int(database.psql(text))


def wrote_since(racer: Child, count_then: int) -> bool:
    """Or it is through: another that had to wait for its start has the rest to itself."""
    return len(said(racer, "counted")) > count_then or bool(said(racer, "done"))


def doubts(racers: list[Child]) -> int:
    return sum(len(said(racer, "doubt")) for racer in racers)


def assert_each_once(racers: list[Child], database: Database, *, unheard: int) -> None:
    """``unheard``: writes whose answer a racer did not live, or was not connected, to hear."""
    counted = [line["count"] for racer in racers for line in said(racer, "counted")]
    doubled = [number for number, times in Counter(counted).items() if times > 1]
    assert doubled == []
    assert len(counted) <= count(database) <= len(counted) + unheard
    claimed = [line["name"] for racer in racers for line in said(racer, "claimed")]
    assert [name for name, times in Counter(claimed).items() if times > 1] == []


def test_of_writes_on_one_reading_one_lands_whoever_is_killed_or_frozen(start: Start, queue_database: Database) -> None:
    prepared(queue_database)
    racers = [start(queue_database, name) for name in ("a", "b", "c")]
    killed, frozen, _ = racers
    until(lambda: all(said(racer, "counted") for racer in racers), what="all have written", timeout=SOON)
    os.kill(killed.pid, signal.SIGKILL)
    os.kill(frozen.pid, signal.SIGSTOP)
    until(lambda: said(racers[2], "done"), what="the third is through", timeout=SOON)
    os.kill(frozen.pid, signal.SIGCONT)
    until(lambda: said(frozen, "done"), what="the frozen one is through", timeout=SOON)
    assert_each_once(racers, queue_database, unheard=1 + doubts(racers))


def test_after_a_database_was_restarted_no_write_is_lost_or_doubled(
    start: Start, fresh_postgres: Callable[..., Postgres]
) -> None:
    server = fresh_postgres()
    place = server.create_database("races")
    migrate(place.dsn())
    prepared(place)
    racers = [start(place, name) for name in ("a", "b")]
    for _ in range(2):
        before = [len(said(racer, "counted")) for racer in racers]
        for racer, count_then in zip(racers, before, strict=True):
            until(lambda racer=racer, then=count_then: wrote_since(racer, then), what="both have written", timeout=SOON)
        server.restart("immediate")
    until(lambda: all(said(racer, "done") for racer in racers), what="both are through", timeout=SOON)
    assert_each_once(racers, place, unheard=doubts(racers))


def test_a_version_is_given_once_though_the_database_lost_its_last_writes(queue_database: Database) -> None:
    async def versions(opened: Any) -> list[int]:
        found = []
        for lost in (False, True):
            ((version,),) = await opened.fetch(b"SELECT soloist.next_version('restored')")
            found.append(version)
            if not lost:
                await asyncio.sleep(0.001)
                await opened.fetch(b"DELETE FROM soloist.shards WHERE shard = 'restored' RETURNING 1")
        return found

    first, second = with_database(queue_database.dsn(), versions)
    assert second > first
