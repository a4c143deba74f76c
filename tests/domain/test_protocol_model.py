"""The rules of a tick hold against crashes, freezes, lost and late writes, deletions and clock steps; without any one of
them the promise breaks, and this search finds it."""

import random
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from soloist.domain.instants import parse_time
from soloist.domain.steps import Wait
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
    match dice.choices(range(14), weights=(46, 18, 10, 8, 3, 2, 2, 2, 2, 1, 1, 1, 2, 1))[0]:
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


def test_the_search_took_enough_steps() -> None:
    assert STEPS >= 100_000
