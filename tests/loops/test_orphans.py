"""Runs that name a ScheduledJob which is not there: ended with a sentence, once it is sure that none comes."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from soloist.domain.instants import stamp
from soloist.loops import orphans
from tests.loops.test_scheduler import NOW, SPEC, Stage, begin, play


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "PATIENCE", 0.3)


LONG_AGO = NOW - timedelta(hours=1)


async def make(stage: Stage, name: str, created: datetime = LONG_AGO, **spec: Any) -> None:
    meta = {"namespace": "default", "name": name, "creationTimestamp": stamp(created)}
    await stage.store.create_run({"metadata": meta, "spec": {"scheduledJobName": "nightly", **spec}})


def status(stage: Stage, name: str) -> dict[str, Any]:
    return dict(stage.store.objects["runs", "default", name].get("status", {}))


def test_a_run_that_names_no_job_is_skipped_with_a_sentence() -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        await make(stage, "before-the-term")
        begin(stage)
        await make(stage, "in-it")
        for name in ("before-the-term", "in-it"):
            await stage.until(lambda name=name: status(stage, name))
            assert (status(stage, name)["phase"], status(stage, name)["reason"]) == ("Skipped", "NoSuchJob")
            assert status(stage, name)["message"].startswith("There is no ScheduledJob nightly in namespace default: ")
        await stage.until(lambda: stage.ticks("sweep"))
        assert not stage.notes.failures

    play(scene)


def test_a_run_that_was_applied_before_its_job_is_launched_once_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "PATIENCE", 60.0)

    async def scene() -> None:
        stage = Stage()
        begin(stage)
        await make(stage, "first", NOW)
        await asyncio.sleep(0.2)
        assert not status(stage, "first")
        stage.store.put_job("default", "nightly", {**SPEC, "schedule": "@yearly"}, creationTimestamp=stamp(NOW))
        await stage.until(lambda: status(stage, "first").get("phase") == "Succeeded")

    play(scene)


def test_the_api_server_is_asked_before_a_run_is_given_up() -> None:
    async def scene() -> None:
        stage = Stage()
        watchers, stage.store.watchers = stage.store.watchers, []
        stage.store.put_job("default", "nightly", {**SPEC, "schedule": "@yearly"}, creationTimestamp=stamp(NOW))
        stage.store.watchers = watchers
        begin(stage)
        await make(stage, "known-to-the-server")
        await stage.until(lambda: status(stage, "known-to-the-server").get("phase") == "Succeeded")

    play(scene)


@pytest.mark.parametrize(
    ("lease", "phase"), [({"namespace": "soloist", "name": "soloist"}, "Cancelled"), ({"name": "another"}, None)]
)
def test_what_a_job_left_that_was_deleted_alone_is_ended_by_its_own_installation(
    lease: dict[str, Any], phase: str | None
) -> None:
    async def scene() -> None:
        stage = Stage()
        begin(stage)
        await make(stage, "left", trigger="Schedule", scheduledTime=stamp(LONG_AGO), lease={**lease, "epoch": 1})
        await make(stage, "by-hand")
        await stage.until(lambda: status(stage, "by-hand"))
        await asyncio.sleep(0.1)
        assert status(stage, "left").get("phase") == phase

    play(scene)
