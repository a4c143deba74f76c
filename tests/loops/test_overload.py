"""A controller that never catches up with a job that is due each second writes its outcomes all the same, and soon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from soloist.domain.actions import FailedKnown
from soloist.domain.memory import PATIENCE
from soloist.domain.settling import PILE
from soloist.ports import Conflict
from tests.loops.test_scheduler import SPEC, Stage, begin, play

MINUTE = 60.0
RETRY = {"maxAttempts": 3, "initialDelaySeconds": 1, "factor": 1, "maxDelaySeconds": 1}


async def overloaded(stage: Stage, seconds: float, *, minutes: float = 1) -> None:
    """Each write takes ``seconds``, so that the next tick is due before the last has been through all of its three."""

    def slow(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def later(*args: Any, **keys: Any) -> Any:
            await asyncio.sleep(seconds)
            return await call(*args, **keys)

        return later

    for name in ("create_run", "write_job_status", "write_run_status"):
        setattr(stage.store, name, slow(getattr(stage.store, name)))
    begin(stage)
    await asyncio.sleep(minutes * MINUTE)
    stage.term = None


def waits(stage: Stage) -> dict[str, list[float]]:
    """By the run's name, as it is filled: when it was launched, and each time at which something was written of it then."""
    loop = asyncio.get_running_loop()
    found: dict[str, list[float]] = {}
    launch, write = stage.launcher.launch, stage.store.write_run_status

    async def launched(order: Any) -> Any:
        found.setdefault(order.run_name, []).append(loop.time())
        return await launch(order)

    async def written(namespace: str, name: str, **keys: Any) -> Any:
        found.setdefault(name, []).append(loop.time())
        return await write(namespace, name, **keys)

    stage.launcher.launch = launched  # type: ignore[method-assign]
    stage.store.write_run_status = written  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("seconds", [0.4, 0.6, 0.9, 1.3])
@pytest.mark.parametrize("policy", ["Forbid", "Allow"])
def test_outcomes_are_written_within_a_few_writes_of_their_patience(seconds: float, policy: str) -> None:
    async def scene() -> None:
        stage = Stage("sweep", spec={**SPEC, "concurrencyPolicy": policy})
        found = waits(stage)
        await overloaded(stage, seconds)
        late = MINUTE - PATIENCE - 4 * seconds
        told = [moments for moments in found.values() if moments[0] < late]
        assert len(told) > 5
        assert all(len(moments) > 1 for moments in told), "some were launched and nothing was written"
        assert max(moments[1] - moments[0] for moments in told) <= PATIENCE + 4 * seconds
        assert len(stage.status("sweep")["active"]) <= 2 + PATIENCE / seconds

    play(scene)


def test_a_failure_is_tried_again_instead_of_being_in_the_way_for_ever() -> None:
    async def scene() -> None:
        stage = Stage("sweep", spec={**SPEC, "retry": RETRY})
        stage.launcher.outcome = FailedKnown(reason="UnexpectedStatus", message="503", retryable=True)
        await overloaded(stage, 1.3)
        attempts = [order.attempt for order in stage.launcher.launched]
        assert attempts[:6] == [1, 2, 3, 1, 2, 3]

    play(scene)


def test_an_outcome_that_is_never_taken_stops_no_launch() -> None:
    async def scene() -> None:
        stage = Stage("sweep")

        async def forestalled(*_: Any, **__: Any) -> Conflict:
            return Conflict()

        stage.store.write_run_status = forestalled  # type: ignore[method-assign]
        await overloaded(stage, 0.4)
        assert len(stage.launcher.launched) > MINUTE / 2

    play(scene)


def test_history_does_not_grow_for_ever_where_there_is_never_time_to_trim_it() -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        await overloaded(stage, 0.6, minutes=8)
        assert len(stage.launcher.launched) > 2 * PILE
        assert sum(kind == "runs" for kind, _, _ in stage.store.objects) < PILE + 10

    play(scene)
