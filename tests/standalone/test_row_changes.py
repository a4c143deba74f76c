"""What others write is heard of at once, own writes are no news, and nothing is missed where notices do not come through."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from soloist.adapters.postgres import row_changes
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.failures import RowRefused
from soloist.adapters.postgres.migrate import migrate
from soloist.adapters.postgres.row_changes import RowChanges
from soloist.adapters.postgres.row_objects import JOB, RUN
from soloist.adapters.postgres.row_specs import RowSpecs
from soloist.adapters.postgres.row_store import RowStore
from soloist.ports import Raw, Written
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database as Place
from tests.postgres.server import Postgres
from tests.queue.databases import opened

SHARD = "x/l"


@dataclass
class Heard:
    """What one process is told of, and what it and another one write with."""

    mine: RowStore
    theirs: RowStore
    specs: RowSpecs
    changes: RowChanges
    changed: list[Raw] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    def names(self) -> list[str]:
        return [raw["metadata"]["name"] for raw in self.changed]


Body = Callable[[Heard], Awaitable[None]]


async def until(true: Callable[[], Any], what: str) -> None:
    async with asyncio.timeout(120):
        while not true():
            await asyncio.sleep(0.01)


def hearing(dsn: str, body: Body, *, kinds: tuple[str, ...] = (JOB, RUN)) -> None:
    async def inside() -> None:
        me, them = opened(dsn), opened(dsn)
        await me.fetch(b"SELECT soloist.take_epoch(%s, 1)", [SHARD])
        mine, theirs = RowStore(me, shard=SHARD, writer="me"), RowStore(them, shard=SHARD, writer="them")
        changed: list[Raw] = []
        gaps: list[float] = []
        changes = RowChanges(
            me, mine, changed=changed.append, gap=lambda: gaps.append(time.monotonic()),
            boottime=time.monotonic,
        )  # fmt: skip
        for kind in kinds:
            changes.follow(kind)
        running = asyncio.create_task(changes.run())
        try:
            await until(lambda: gaps, "it listens")
            await body(Heard(mine, theirs, RowSpecs(them, shard=SHARD, writer="them"), changes, changed, gaps))
        finally:
            running.cancel()
            await asyncio.wait({running})
            for database in (me, them):
                await database.close()

    asyncio.run(inside())


async def ask_for_a_run(store: RowStore, name: str, **spec: Any) -> Raw:
    body = {"metadata": {"namespace": "n", "name": name}, "spec": {"scheduledJobName": "j", **spec}}
    made = await store.create_run(body)
    assert isinstance(made, Written), made
    return made.obj


def job(name: str, schedule: str = "@hourly") -> Raw:
    return {"kind": JOB, "metadata": {"namespace": "n", "name": name}, "spec": {"schedule": schedule}}


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is heard is heard by notice."""
    monkeypatch.setattr(row_changes, "LOOKS_EVERY", 3600.0)


@pytest.mark.usefixtures("no_looks")
def test_a_run_that_somebody_asks_for_is_heard_of_at_once(queue_database: Place) -> None:
    async def body(heard: Heard) -> None:
        run = await ask_for_a_run(heard.theirs, "by-hand")
        await until(lambda: heard.changed, "the run is heard of")
        assert heard.changed == [run]

    hearing(queue_database.dsn(), body)


@pytest.mark.usefixtures("no_looks")
def test_a_pause_and_an_edit_are_heard_of_and_a_removal_asks_for_a_list(queue_database: Place) -> None:
    async def body(heard: Heard) -> None:
        await heard.specs.apply([job("a"), job("b")], kinds=[JOB], epoch=1)
        await until(lambda: sorted(heard.names()) == ["a", "b"], "both are heard of")
        assert await heard.theirs.annotate(JOB, "n", "a", {"soloist.dev/paused": "true"})
        await until(lambda: heard.names()[2:] == ["a"], "the pause is heard of")
        assert heard.changed[2]["metadata"]["annotations"] == {"soloist.dev/paused": "true"}
        before = len(heard.gaps)
        await heard.specs.apply([job("a", "@daily")], kinds=[JOB], epoch=1)
        await until(
            lambda: len(heard.gaps) > before and len(heard.changed) == 4, "the removal and the edit are heard of"
        )
        edited = heard.changed[3]
        assert (edited["spec"], edited["metadata"]["generation"]) == ({"schedule": "@daily"}, 2)
        assert edited["metadata"]["annotations"] == {"soloist.dev/paused": "true"}

    hearing(queue_database.dsn(), body)


@pytest.mark.usefixtures("no_looks")
def test_own_writes_a_leaders_bookkeeping_and_other_installations_are_no_news(queue_database: Place) -> None:
    async def body(heard: Heard) -> None:
        mine = await ask_for_a_run(heard.mine, "mine")
        scheduled = {"trigger": "Schedule", "scheduledTime": "2026-03-01T02:00:00Z"}
        theirs = await ask_for_a_run(heard.theirs, "their-tick", **scheduled)
        meta = theirs["metadata"]
        await heard.theirs.write_run_status(
            "n", "their-tick", uid=meta["uid"], resource_version=meta["resourceVersion"], status={"phase": "Running"}
        )
        other = RowStore(heard.theirs._database, shard="x/other", writer="them")
        await ask_for_a_run(other, "elsewhere")
        assert heard.changed == []
        await ask_for_a_run(heard.theirs, "by-hand")
        await until(lambda: "by-hand" in heard.names(), "the run is heard of")
        assert mine["metadata"]["name"] not in heard.names()
        # Whoever looks sees the rest too, as it stands by then.
        assert sorted(heard.names()) == ["by-hand", "their-tick"]

    hearing(queue_database.dsn(), body)


def test_behind_a_pooler_in_transaction_mode_a_look_finds_it_and_says_so(
    own_queue_database: Place, pgbouncer: PgBouncer, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(heard: Heard) -> None:
        await ask_for_a_run(heard.theirs, "by-hand")
        await until(lambda: heard.names() == ["by-hand"], "the run is found")
        assert "delivers no notices" in caplog.text

    hearing(pgbouncer.dsn(own_queue_database.name), body)


def test_after_a_restart_of_the_database_a_list_is_asked_for_and_it_goes_on(
    fresh_postgres: Callable[..., Postgres], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = fresh_postgres()
    place = server.create_database("changes")
    migrate(place.dsn())
    monkeypatch.setattr(row_changes, "LOOKS_EVERY", 3600.0)

    async def body(heard: Heard) -> None:
        before = len(heard.gaps)
        await asyncio.to_thread(server.restart, "immediate")
        await until(lambda: len(heard.gaps) > before, "it listens again")
        await ask_for_a_run(heard.theirs, "by-hand")
        await until(lambda: heard.names() == ["by-hand"], "the run is heard of")

    hearing(place.dsn(), body)


def test_who_leads_no_longer_applies_nothing(queue_database: Place) -> None:
    async def body(heard: Heard) -> None:
        await heard.specs.apply([job("a")], kinds=[JOB], epoch=1)
        first = await heard.specs.in_effect()
        database: Database = heard.theirs._database
        await database.fetch(b"SELECT soloist.take_epoch(%s, 2)", [SHARD])
        with pytest.raises(RowRefused) as refused:
            await heard.specs.apply([job("b")], kinds=[JOB], epoch=1)
        assert refused.value.sqlstate == "SO002"
        assert [raw["metadata"]["name"] for raw in (await heard.mine.list_jobs()).items] == ["a"]
        assert await heard.specs.in_effect() == first

    hearing(queue_database.dsn(), body)
