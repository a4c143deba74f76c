"""The rules of a tick hold against crashes, freezes, lost and late writes, deletions and clock steps; without any one of
them the promise breaks, and this search finds it."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from soloist.domain import adoption, launching, protocol, recording
from soloist.domain import view as views
from soloist.domain.instants import parse_time
from soloist.domain.runs import Entry, Run
from soloist.domain.settling import is_superseded
from soloist.domain.steps import Launch, Step, Wait, WriteJob
from soloist.domain.view import View, launch_at
from tests.domain.world import START, Breach, World

STEPS = 0
HORIZON = 60_000
FORBID: dict[str, Any] = {
    "schedule": "@every 5s",
    "concurrencyPolicy": "Forbid",
    "timeoutSeconds": 2,
    "successfulRunsHistoryLimit": 1,
    "failedRunsHistoryLimit": 1,
    "retry": {"maxAttempts": 3, "initialDelaySeconds": 1, "factor": 1, "maxDelaySeconds": 2, "onUnknown": "Retry"},
    "http": {"url": "http://backend/"},
}
SPECS = [
    FORBID,
    FORBID | {"retry": {"maxAttempts": 1}},
    FORBID | {"concurrencyPolicy": "Queue"},
    FORBID | {"concurrencyPolicy": "Allow", "missedRunPolicy": "RunAll"},
    FORBID | {"missedRunPolicy": "RunAll", "jitterSeconds": 1},
    FORBID | {"concurrencyPolicy": "Replace", "missedRunPolicy": "Skip"},
]


def person(world: World) -> None:
    world.create(
        {
            "metadata": {"namespace": "shop", "name": f"by-hand-{world.serial}"},
            "spec": {"scheduledJobName": "sweep", "trigger": "Manual"},
        }
    )


def move(world: World, dice: random.Random) -> None:
    """One thing that happens. Most often a process takes a step or time goes by."""
    process = dice.choice(world.processes)
    match dice.choices(range(15), weights=(46, 18, 10, 8, 3, 2, 2, 2, 2, 1, 1, 1, 2, 1, 1))[0]:
        case 0:
            fate = dice.choices((0, 1, 2, 3), weights=(12, 2, 1, 2))[0]
            for leader in world.processes:
                world.step(leader, fate, dice.choice((100, 900, 2_000)), dice.choice((0, 0, 0, 1, 2)))
        case 1:
            world.advance(dice.choice((1, 50, 200, 700)))
        case 2:
            world.renew(process)
        case 3:
            evidence = dice.random() < 0.5
            if world.may_take(process, evidence):
                world.take(process, evidence=evidence)
        case 4:
            world.crash(process, with_parent=dice.random() < 0.5)
        case 5:
            process.frozen = process.alive
        case 6:
            process.frozen = False
        case 7:
            if world.late:
                world.late.pop(dice.randrange(len(world.late)))()
        case 8:
            process.wall = max(-1_500, min(1_500, process.wall + dice.choice((-1_400, -600, 600, 1_400))))
        case 9:
            if world.runs:
                del world.runs[dice.choice(list(world.runs))]
        case 10:
            world.edit({"suspend": not world.job["spec"].get("suspend", False)})
        case 11:
            person(world)
        case 14:
            world.edit({"jitterSeconds": dice.choice((0, 0, 2)), "timeoutSeconds": dice.choice((1, 2, 2))})
        case 12:
            world.start(process)
        case 13:
            if world.leads(process):
                world.sync(process)


def walk(world: World, dice: random.Random, moves: int) -> None:
    global STEPS
    for _ in range(moves):
        for process in world.processes:
            if not process.alive and dice.random() < 0.2:
                world.start(process)
        move(world, dice)
        STEPS += 1


def settle(world: World) -> None:
    """All is well again: one healthy process leads and the rest is quiet. Every tick must end up decided."""
    world.late.clear()
    for process in world.processes:
        world.crash(process, with_parent=True)
    leader = world.processes[0]
    leader.wall = 0
    world.edit({"suspend": False})
    world.advance(4_000)
    world.start(leader)
    world.take(leader)
    until = world.t + 16_000
    while world.t < until:
        world.renew(leader)
        for _ in range(100):
            if isinstance(world.step(leader), Wait | None):
                break
        else:
            raise Breach(f"the leader spins: {world.step(leader)}")
        world.advance(250)
    check_books(world)


def check_books(world: World) -> None:
    status = world.job["status"]
    watermark = parse_time(status.get("watermark"))
    if watermark is None or watermark < world.moment() - timedelta(seconds=8):
        raise Breach(f"ticks stay undecided: watermark {watermark} at {world.moment()}")
    stale = [entry for entry in status["active"] if moment_of(entry) < world.moment() - timedelta(seconds=12)]
    if stale and world.job["spec"]["concurrencyPolicy"] != "Queue":
        raise Breach(f"still active: {stale}")


def moment_of(entry: dict[str, Any]) -> datetime:
    return parse_time(entry.get("scheduledTime")) or START


@given(seed=st.integers(0, 2**32), spec=st.sampled_from(SPECS))
@settings(
    max_examples=420, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
def test_no_tick_is_launched_twice_early_or_lost_whatever_happens(seed: int, spec: dict[str, Any]) -> None:
    world = World(spec=spec)
    try:
        walk(world, random.Random(seed), 300)
        settle(world)
    except Breach as breach:
        raise AssertionError("\n".join([f"seed {seed}", *world.log[-80:], str(breach)])) from breach


def without_record(view: View) -> Step | None:
    """Launch what is merely claimed."""
    for run in view.runs:
        fresh = view.remembered(run.uid).launched == 0 and view.expected(run) and not run.phase.final
        if fresh and view.job.entry(run.uid) is None and run.tick is not None and launch_at(view, run) <= view.now:
            return Launch(run=run, attempt=1)
    return None


def launch_without_recording_anew(view: View, entry: Entry, run: Run) -> Step:
    return Launch(run=run, attempt=1)


def taken_as_new(view: View) -> Step | None:
    """A late POST's run, below the watermark, is recorded like any other."""
    for run in view.runs:
        if not run.phase.final and view.expected(run) and view.job.entry(run.uid) is None and is_superseded(view, run):
            return WriteJob(add=(recording.entry_for(view, run),))
    return None


def rules_with(first: Callable[[View], Step | None]) -> Any:
    return mock.patch.object(protocol, "RULES", (first, *protocol.RULES))


BROKEN: dict[str, Callable[[], Any]] = {
    "launched without a record": lambda: rules_with(without_record),
    "adopted without recording anew": lambda: mock.patch.object(adoption, "record_anew", launch_without_recording_anew),
    "a late POST's run is taken as new": lambda: rules_with(taken_as_new),
    "the end of the term is ignored": lambda: mock.patch.object(
        adoption, "not_launched", lambda view, entry, run: run.scheduled and run.attempt <= 1
    ),
    "deleted and unknown runs are let go at once": lambda: mock.patch.object(views, "held_until", return_value=0.0),
    "retries go past the gate": lambda: mock.patch.object(launching, "retry_blockers", return_value=()),
}
BROKEN_WORLDS = ["no precondition", "wall clock", "kubelet's stamp", "one predecessor"]
BUDGET = 3_000
"""Walks. The intact rules pass as many (in ``test_no_tick_...`` and whenever the number of examples is raised)."""


def found_within(budget: int, broken: str = "") -> str | None:
    """Walk until the promise breaks; what broke, or None."""
    for seed in range(budget):
        world = World(spec=SPECS[seed % len(SPECS)], broken=broken)
        try:
            walk(world, random.Random(seed), 300)
        except (Breach, AssertionError) as breach:
            return str(breach)
    return None


@pytest.mark.parametrize("name", BROKEN)
def test_the_search_finds_a_broken_rule(name: str) -> None:
    with BROKEN[name]():
        assert found_within(BUDGET), f"not found: {name}"


@pytest.mark.parametrize("broken", BROKEN_WORLDS)
def test_the_search_finds_a_broken_world(broken: str) -> None:
    assert found_within(BUDGET, broken), f"not found: {broken}"


def test_the_search_took_enough_steps() -> None:
    assert STEPS >= 100_000
