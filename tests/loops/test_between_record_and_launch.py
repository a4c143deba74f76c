"""The machine sleeps, or a job is edited, at a moment that no real machine can be held to: a tick is on its way to its launch.

Asleep, CLOCK_MONOTONIC stands still, and with it every timer of the loop and the dead-man timer; CLOCK_BOOTTIME goes on. So on
waking the term is still handed out, as it was before, and what is left of a wait is waited for: only the look at the
clock before each effect can tell that its trust ran out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from soloist.domain.actions import FailedKnown, Order
from soloist.domain.errors import TransientError
from soloist.domain.instants import parse_time
from tests.loops.test_scheduler import SPEC, Stage, begin, play

A_WHILE, A_NIGHT = 5.0, 2000.0
"""Seconds, of which the term is trusted for 1000."""

FIRST = parse_time("2026-03-02T12:00:01Z")
Event = Callable[[Stage, Callable[[], None]], Awaitable[None]]
"""Lets something happen once, at the moment that it is named after."""


async def before_its_claim(stage: Stage, happens: Callable[[], None]) -> None:
    await asyncio.sleep(0.2)
    assert stage.store.objects.keys() == {("jobs", "default", "sweep")}
    happens()


async def during_its_claim(stage: Stage, happens: Callable[[], None]) -> None:
    await once(stage, lambda call: call == "create_run", happens)


async def during_its_record(stage: Stage, happens: Callable[[], None]) -> None:
    await once(stage, lambda _: is_recorded(stage), happens)


async def after_its_record(stage: Stage, happens: Callable[[], None]) -> None:
    await stage.until(lambda: is_recorded(stage))
    assert stage.launcher.launched == []
    happens()


async def while_it_waits_for_another_attempt(stage: Stage, happens: Callable[[], None]) -> None:
    stage.launcher.outcome = FailedKnown(reason="UnexpectedStatus", message="503", retryable=True)
    await stage.until(lambda: "Retrying" in phases(stage))
    happens()


async def once(stage: Stage, is_it: Callable[[str], bool], happens: Callable[[], None]) -> None:
    """With the answer of the store, before anybody has it."""
    done = asyncio.Event()

    def answered(call: str) -> None:
        if is_it(call) and not done.is_set():
            done.set()
            happens()

    stage.store.after = answered
    async with asyncio.timeout(10):
        await done.wait()


def is_recorded(stage: Stage) -> bool:
    return bool(stage.status("sweep").get("active"))


def phases(stage: Stage) -> list[str]:
    runs = (run for key, run in stage.store.objects.items() if key[0] == "runs")
    return [run.get("status", {}).get("phase", "Pending") for run in runs]


def of_the_first(stage: Stage) -> list[Order]:
    return [order for order in stage.launcher.launched if order.scheduled_time == FIRST]


MOMENTS = pytest.mark.parametrize(
    "moment",
    [before_its_claim, during_its_claim, during_its_record, after_its_record, while_it_waits_for_another_attempt],
)
RETRY = {"maxAttempts": 5, "initialDelaySeconds": 1, "factor": 1, "maxDelaySeconds": 1}


@MOMENTS
def test_on_a_term_whose_trust_ran_out_while_the_machine_slept_nothing_is_launched_or_written(moment: Event) -> None:
    async def scene() -> None:
        stage = Stage("sweep", spec={**SPEC, "retry": RETRY})
        begin(stage)
        await moment(stage, lambda: fall_asleep(stage, A_NIGHT))
        launched = list(stage.launcher.launched)
        asked: list[str] = []

        def refuse(call: str) -> None:
            asked.append(call)
            raise TransientError(call)

        stage.store.before = refuse
        await asyncio.sleep(6.0)
        assert stage.term is not None, "nobody has told the loop that its term is over"
        assert stage.launcher.launched == launched
        assert asked == []

    play(scene)


@MOMENTS
def test_after_a_sleep_that_was_shorter_than_its_trust_a_leader_goes_on_and_launches_no_tick_twice(
    moment: Event,
) -> None:
    async def scene() -> None:
        stage = Stage("sweep", spec={**SPEC, "retry": RETRY, "concurrencyPolicy": "Allow"})
        begin(stage)
        await moment(stage, lambda: fall_asleep(stage, A_WHILE))
        await stage.until(lambda: len({order.scheduled_time for order in stage.launcher.launched}) > A_WHILE)
        attempts = [(order.key, order.attempt) for order in stage.launcher.launched]
        assert len(attempts) == len(set(attempts))
        assert of_the_first(stage)

    play(scene)


def fall_asleep(stage: Stage, seconds: float) -> None:
    stage.clock.slept += seconds


EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "another schedule": ({**SPEC, "schedule": "0 0 29 2 *"}, "ScheduleChanged"),
    "suspended": ({**SPEC, "suspend": True}, "Suspended"),
}
RECORDED = pytest.mark.parametrize("moment", [during_its_record, after_its_record])


@RECORDED
@pytest.mark.parametrize("edit", EDITS)
def test_a_recorded_run_whose_tick_an_edit_takes_away_is_not_launched_and_says_why(moment: Event, edit: str) -> None:
    spec, reason = EDITS[edit]

    async def scene() -> None:
        stage = Stage("sweep")
        begin(stage)
        await moment(stage, lambda: change(stage, spec))
        await stage.until(lambda: "Skipped" in phases(stage))
        (run,) = (run for key, run in stage.store.objects.items() if key[0] == "runs")
        assert parse_time(run["spec"]["scheduledTime"]) == FIRST
        assert run["status"]["reason"] == reason
        await asyncio.sleep(5.0)
        assert stage.launcher.launched == []

    play(scene)


@RECORDED
def test_a_recorded_run_whose_action_is_edited_is_launched_once_as_it_now_is(moment: Event) -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        begin(stage)
        await moment(stage, lambda: change(stage, {**SPEC, "http": {"url": "http://other/"}}))
        await stage.until(lambda: len(stage.launcher.launched) >= 3)
        assert len(of_the_first(stage)) == 1
        assert {order.action.url for order in stage.launcher.launched} == {"http://other/"}  # type: ignore[union-attr]

    play(scene)


def test_a_recorded_run_of_a_job_that_is_removed_is_not_launched() -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        begin(stage)
        await after_its_record(stage, lambda: remove(stage))
        await asyncio.sleep(5.0)
        assert stage.launcher.launched == []

    play(scene)


def remove(stage: Stage) -> None:
    uid = stage.store.objects["jobs", "default", "sweep"]["metadata"]["uid"]
    stage.store.remove("jobs", "default", "sweep")
    for key in stage.cache.drop_job("default", "sweep", uid=uid):
        stage.scheduler.wake(key)


def change(stage: Stage, spec: dict[str, Any]) -> None:
    stage.store.put_job("default", "sweep", spec)
