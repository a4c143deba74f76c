"""A job of which nothing is wanted is not thought about while others are launched, and no tick is late for that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from soloist.domain import protocol
from soloist.domain.errors import TransientError
from soloist.domain.steps import Launch, WriteRun
from soloist.domain.view import View
from tests.fakes.launcher import FakeLauncher
from tests.loops.test_scheduler import SPEC, Stage, begin, play

MANY = 60


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What was asked for, in order, with the job."""
    found: list[tuple[str, Any]] = []
    decide = protocol.decide

    def noted(view: View) -> Any:
        step = decide(view)
        found.append((view.job.name, step))
        return step

    monkeypatch.setattr(protocol, "decide", noted)
    return found


def looked_at_again(decided: list[tuple[str, Any]]) -> set[str]:
    """Jobs that were thought about after they had been launched."""
    launched: set[str] = set()
    again: set[str] = set()
    for name, step in decided:
        again |= {name} & launched
        launched |= {name} if isinstance(step, Launch) else set()
    return again


def test_of_many_that_are_due_at_once_all_are_launched_before_any_is_looked_at_again(
    decided: list[tuple[str, Any]],
) -> None:
    async def scene() -> None:
        stage = Stage(*(f"job-{number}" for number in range(MANY)), spec={**SPEC, "schedule": "@every 3s"})
        stage.launcher.until = asyncio.Event()
        begin(stage)
        await stage.until(lambda: len(stage.launcher.launched) == MANY)
        assert looked_at_again(decided) == set()
        stage.launcher.until.set()
        await stage.until(lambda: sum(isinstance(step, WriteRun) for _, step in decided) >= MANY)

    play(scene)


def test_what_ended_is_written_down_at_once_where_nobody_else_is_launched() -> None:
    async def scene() -> None:
        stage = Stage("sweep", spec={**SPEC, "schedule": "@every 3s"})
        begin(stage)
        await stage.until(lambda: stage.launcher.launched)
        async with asyncio.timeout(1.5):
            await stage.until(lambda: "Succeeded" in phases(stage))

    play(scene)


def test_a_job_whose_action_goes_on_launches_its_next_ticks_at_their_times() -> None:
    async def scene() -> None:
        launcher = FakeLauncher()
        stage = Stage("sweep", spec={**SPEC, "concurrencyPolicy": "Allow"}, launcher=launcher)
        launcher.until = asyncio.Event()
        late: list[float] = []
        stage.notes.launched = lambda view, step: late.append((view.now - step.run.tick).total_seconds())  # type: ignore[attr-defined]
        begin(stage)
        await stage.until(lambda: len(launcher.launched) >= 3)
        assert max(late) < 0.9, "none waited for the look that a job with an action under way is given now and then"
        assert len(set(stage.ticks("sweep"))) == len(launcher.launched)

    play(scene)


def test_who_goes_away_does_not_wait_for_leisure() -> None:
    async def scene() -> None:
        stage = Stage("sweep", spec={**SPEC, "schedule": "@every 3s"})
        stage.launcher.until = asyncio.Event()
        begin(stage)
        await stage.until(lambda: stage.launcher.launched)
        stage.scheduler.close()
        stage.launcher.until.set()
        await stage.scheduler.drain(10.0)
        assert "Succeeded" in phases(stage)

    play(scene)


def test_a_known_failure_of_many_is_tried_again_at_its_time_for_all_that() -> None:
    class Failing(FakeLauncher):
        async def launch(self, order: Any) -> Any:
            await super().launch(order)
            if order.attempt == 1:
                raise TransientError("no connection", sent=False)
            return self.outcome

    async def scene() -> None:
        retry = {"maxAttempts": 2, "initialDelaySeconds": 1, "factor": 1, "maxDelaySeconds": 1}
        names = [f"job-{number}" for number in range(MANY)]
        stage = Stage(*names, spec={**SPEC, "schedule": "@every 30s", "retry": retry}, launcher=Failing())
        for name in names:
            spec = {"scheduledJobName": name, "trigger": "Manual"}
            await stage.store.create_run(
                {"metadata": {"namespace": "default", "name": f"by-hand-{name}"}, "spec": spec}
            )
        begin(stage)
        await stage.until(lambda: len(stage.launcher.launched) == 2 * MANY)
        await stage.until(lambda: phases(stage).count("Succeeded") == MANY)

    play(scene)


def phases(stage: Stage) -> list[str]:
    return [obj.get("status", {}).get("phase", "") for key, obj in stage.store.objects.items() if key[0] == "runs"]
