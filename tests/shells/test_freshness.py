"""A replica is ready while what it knows is fresh, and while it hears of changes as they come."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.loops.cache import Cache
from soloist.loops.keeper import NEVER, Keeper
from soloist.shells.freshness import UNWATCHED, Followed, Freshness
from tests.fakes.store import FakeStore

LIMIT = 200.0


class Clock:
    def __init__(self) -> None:
        self.boot = 1000.0

    def boottime(self) -> float:
        return self.boot

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.boot, UTC)


class Stage:
    """A keeper over an empty store; the test says when watches spoke, by the clock."""

    def __init__(self) -> None:
        self.clock, self.cache = Clock(), Cache()
        self.keeper = Keeper(
            cache=self.cache,
            store=FakeStore(),
            report=None,  # type: ignore[arg-type]  # nothing fails here
            clock=self.clock,
            wake=lambda _: None,
            every=120,
        )
        self.jobs = self.runs = NEVER
        self.age = Freshness(
            self.keeper,
            self.cache,
            self.clock,
            limit=LIMIT,
            jobs=Followed(heard=lambda: self.jobs, watched=lambda: self.jobs),
            runs=Followed(heard=lambda: self.runs, watched=lambda: self.runs),
        )

    def relist(self) -> None:
        asyncio.run(self.keeper.relist_jobs())
        asyncio.run(self.keeper.relist_runs())

    def unready(self) -> dict[str, str]:
        """What keeps it from being ready, and why."""
        found = {name: check() for name, check in self.age.ready().items()}
        return {name: sentence for name, (well, sentence) in found.items() if not well}


def test_a_replica_is_ready_when_a_list_is_through_and_a_watch_has_come_up() -> None:
    stage = Stage()
    assert stage.unready().keys() == {"cache", "watch"}
    stage.relist()
    assert stage.unready().keys() == {"watch"}
    stage.jobs = stage.clock.boot
    assert stage.unready() == {}


@pytest.mark.parametrize(("error", "ready"), [(PermanentError("forbidden"), False), (TransientError("away"), True)])
def test_a_list_that_is_refused_is_a_reason_and_one_that_is_not_answered_is_told(
    error: SoloistError, ready: bool
) -> None:
    stage = Stage()
    stage.jobs = stage.clock.boot
    stage.keeper.trouble = error
    assert stage.unready() == {"cache": f"the first list is not through: {error}"}
    stage.relist()
    assert stage.age.ready()["cache"]() == (ready, f"0 jobs are known, and the last list failed: {error}")


def test_a_leader_whose_term_cannot_begin_says_why() -> None:
    stage = Stage()
    stage.relist()
    stage.jobs = stage.clock.boot
    stage.age.cannot_begin = "JobRuns may not be listed"
    assert stage.unready() == {"fresh": "this leader's term cannot begin: JobRuns may not be listed"}
    stage.age.begin_term()
    stage.relist()
    assert stage.unready() == {}


def test_lists_alone_make_nobody_ready_however_fresh_they_are() -> None:
    stage = Stage()
    for _ in range(10):
        stage.relist()
        assert stage.age.fresh()
        assert "no watch of the jobs has come up yet" in stage.unready()["watch"]
        stage.clock.boot += 120


def test_a_watch_that_stays_away_is_told_though_lists_go_on() -> None:
    stage = Stage()
    stage.jobs = stage.clock.boot
    stage.clock.boot += UNWATCHED - 1
    stage.relist()
    assert stage.unready() == {}
    stage.clock.boot += 1
    assert stage.unready() == {"watch": "no watch of the jobs has been up for 300 s (limit 300 s)"}


def test_a_leader_has_to_watch_its_runs_too() -> None:
    stage = Stage()
    stage.relist()
    stage.jobs = stage.clock.boot
    stage.clock.boot += UNWATCHED
    stage.jobs = stage.clock.boot
    assert stage.unready() == {}, "a follower's runs are not asked for"
    stage.age.begin_term()
    assert stage.unready().keys() == {"fresh"}
    stage.relist()
    assert stage.unready() == {}, "the watch of runs comes up after the term has begun"
    stage.clock.boot += UNWATCHED
    stage.relist()
    stage.jobs = stage.clock.boot
    assert stage.unready() == {"watch": "no watch of the runs has been up for 300 s (limit 300 s)"}
    stage.runs = stage.clock.boot
    assert stage.unready() == {}


def test_what_is_older_than_the_limit_is_not_acted_on_and_in_the_end_the_process_is_unwell() -> None:
    stage = Stage()
    assert stage.age.follows()[0], "it has just been born"
    stage.relist()
    assert stage.age.fresh()
    stage.clock.boot += LIMIT
    assert not stage.age.fresh()
    assert stage.age.follows()[0]
    stage.clock.boot += LIMIT
    assert stage.age.follows() == (False, "jobs were last heard of 400 s ago (limit 400 s)")
