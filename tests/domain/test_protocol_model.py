"""The rules of a tick hold against crashes, freezes, lost and late writes, deletions and clock steps; without any one of
them the promise breaks, and this search finds it."""

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from soloist.domain import adoption, launching, protocol, recording
from soloist.domain import view as views
from soloist.domain.actions import Succeeded
from soloist.domain.instants import parse_time
from soloist.domain.runs import Entry, Run
from soloist.domain.settling import is_superseded
from soloist.domain.steps import Launch, Step, Wait, WriteJob
from soloist.domain.ticks import tick_of
from soloist.domain.view import View, launch_at
from tests.domain.api_server import START, Breach
from tests.domain.world import World

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


def statement_in(database: str) -> dict[str, Any]:
    return {"databaseRef": {"secretName": database, "key": "uri"}, "statement": "SELECT 1"}


SQL: dict[str, Any] = {key: value for key, value in FORBID.items() if key != "http"} | {"sql": statement_in("first")}
TRANSACTIONS = [
    SQL,
    SQL | {"retry": {"maxAttempts": 1}},
    SQL | {"concurrencyPolicy": "Queue"},
    SQL | {"concurrencyPolicy": "Allow", "missedRunPolicy": "RunAll"},
    SQL | {"concurrencyPolicy": "Replace", "missedRunPolicy": "RunAll", "jitterSeconds": 1},
]
"""Whose effect is a transaction in one of two databases."""

POD: dict[str, Any] = {"restartPolicy": "Never", "containers": [{"name": "sweep", "image": "sweep"}]}
JOB: dict[str, Any] = {key: value for key, value in FORBID.items() if key not in ("http", "retry")} | {
    "job": {"template": {"spec": {"template": {"spec": POD}}}}
}
JOBS = [
    JOB,
    JOB | {"concurrencyPolicy": "Queue"},
    JOB | {"concurrencyPolicy": "Allow", "missedRunPolicy": "RunAll"},
    JOB | {"concurrencyPolicy": "Replace", "missedRunPolicy": "RunAll", "jitterSeconds": 1},
]
"""Whose effect is a Job, which tells what became of it."""


def person(world: World) -> None:
    world.create(
        {
            "metadata": {"namespace": "shop", "name": f"by-hand-{world.serial}"},
            "spec": {"scheduledJobName": "sweep", "trigger": "Manual"},
        }
    )


MOVES: dict[str, int] = {
    "step": 46,
    "time": 18,
    "renew": 10,
    "take": 8,
    "crash": 3,
    "freeze": 2,
    "thaw": 2,
    "arrive": 2,
    "clock": 2,
    "delete": 1,
    "suspend": 1,
    "person": 1,
    "start": 2,
    "sync": 1,
    "edit": 1,
}
"""What happens how often. A search for one broken rule shifts the weights towards what that rule is for."""

TRANSACTING = MOVES | {"move": 1}
STARTING = MOVES | {"arrive": 5, "crash": 5}


def move(world: World, dice: random.Random, weights: dict[str, int]) -> None:
    """One thing that happens. Most often a process takes a step or time goes by."""
    process = dice.choice(world.processes)
    match dice.choices(list(weights), weights=list(weights.values()))[0]:
        case "step":
            fate = dice.choices((0, 1, 2, 3), weights=(12, 2, 1, 2))[0]
            for leader in world.processes:
                world.step(leader, fate, dice.choice((100, 900, 2_000)), dice.choice((0, 0, 0, 1, 2)))
        case "time":
            world.advance(dice.choice((1, 50, 200, 700)))
        case "renew":
            world.renew(process)
        case "take":
            evidence = dice.random() < 0.5
            if world.may_take(process, evidence):
                world.take(process, evidence=evidence)
        case "crash":
            world.crash(process, with_parent=dice.random() < 0.5)
        case "freeze":
            process.frozen = process.alive
        case "thaw":
            process.frozen = False
        case "arrive":
            if world.late:
                world.late.pop(dice.randrange(len(world.late)))()
        case "clock":
            process.wall = max(-1_500, min(1_500, process.wall + dice.choice((-1_400, -600, 600, 1_400))))
        case "delete":
            if world.runs:
                del world.runs[dice.choice(list(world.runs))]
        case "suspend":
            world.edit({"suspend": not world.job["spec"].get("suspend", False)})
        case "person":
            person(world)
        case "start":
            world.start(process)
        case "sync":
            if world.leads(process):
                world.sync(process)
        case "edit":
            world.edit({"jitterSeconds": dice.choice((0, 0, 2)), "timeoutSeconds": dice.choice((1, 2, 2))})
        case "move":
            world.edit({"sql": statement_in(dice.choice(("first", "second")))})


def walk(world: World, dice: random.Random, moves: int, weights: dict[str, int] | None = None) -> None:
    for _ in range(moves):
        for process in world.processes:
            if not process.alive and dice.random() < 0.2:
                world.start(process)
        move(world, dice, weights or MOVES)


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
    healed = world.moment() + timedelta(seconds=5)
    until = world.t + 16_000
    while world.t < until:
        world.renew(leader)
        for _ in range(100):
            if isinstance(world.step(leader), Wait | None):
                break
        else:
            raise Breach(f"the leader spins: {world.step(leader)}")
        world.advance(250)
    if not any(tick > healed for tick in world.launched):
        raise Breach("all is well, nothing is in the way, and no tick is launched")
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


WALKS = 420


walked = settings(
    max_examples=WALKS, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


@given(seed=st.integers(0, 2**32), spec=st.sampled_from(SPECS))
@walked
def step_the_intact_rules(seed: int, spec: dict[str, Any]) -> None:
    walk_to_the_end(World(spec=spec), seed)


@given(seed=st.integers(0, 2**32), spec=st.sampled_from(TRANSACTIONS))
@walked
def step_the_intact_rules_of_transactions(seed: int, spec: dict[str, Any]) -> None:
    world = World(spec=spec)
    walk_to_the_end(world, seed, TRANSACTING)
    check_ledgers(world)


@given(seed=st.integers(0, 2**32), spec=st.sampled_from(JOBS))
@settings(walked, max_examples=WALKS // 4)
def step_the_intact_rules_of_jobs(seed: int, spec: dict[str, Any]) -> None:
    world = World(spec=spec)
    walk_to_the_end(world, seed, STARTING)
    check_jobs(world)


def walk_to_the_end(world: World, seed: int, weights: dict[str, int] | None = None) -> None:
    try:
        walk(world, random.Random(seed), 300, weights)
        settle(world)
    except Breach as breach:
        raise AssertionError("\n".join([f"seed {seed}", *world.log[-80:], str(breach)])) from breach
    TAKEN.append(300)


def check_ledgers(world: World) -> None:
    """A run that succeeded is in a ledger; none is unknown or cut off for good because somebody crashed."""
    done = {there.uid for database in world.databases.values() for there in database.rows.values()}
    keys = {key for database in world.databases.values() for key in database.rows}
    for run in world.runs.values():
        phase, uid, at = run.get("status", {}).get("phase"), run["metadata"]["uid"], run["spec"].get("scheduledTime")
        assert phase not in ("Unknown", "Interrupted"), run
        assert phase != "Succeeded" or uid in done or f"job-uid/{at}" in keys, run


def check_jobs(world: World) -> None:
    """A run that succeeded says what its Job said; none is unknown while there is a Job that was started."""
    for run in world.runs.values():
        phase, uid = run.get("status", {}).get("phase"), run["metadata"]["uid"]
        job, there = world.begun.get(uid), world.jobs.get(run["metadata"]["name"])
        assert phase != "Succeeded" or (job is not None and isinstance(job.outcome, Succeeded)), run
        assert phase not in ("Unknown", "Interrupted") or job is None or there is not job, run


TAKEN: list[int] = []
"""Moves of each walk that was taken to its end."""


def test_no_tick_is_launched_twice_early_or_lost_whatever_happens() -> None:
    """k8s #127678."""
    TAKEN.clear()
    step_the_intact_rules()
    assert sum(TAKEN) >= 100_000


def test_no_effect_of_a_transaction_commits_twice_or_for_a_run_that_was_given_up() -> None:
    TAKEN.clear()
    step_the_intact_rules_of_transactions()
    assert sum(TAKEN) >= 100_000


def test_no_job_is_started_twice_or_early_nor_ends_unknown_while_it_is_there() -> None:
    TAKEN.clear()
    step_the_intact_rules_of_jobs()
    assert sum(TAKEN) >= 25_000


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


@contextmanager
def not_taken_over() -> Iterator[None]:
    with ExitStack() as stack:
        for module in (recording, adoption, launching):
            stack.enter_context(mock.patch.object(module, "ours_alone", return_value=True))
        yield


def not_prepared() -> Any:
    return mock.patch.object(recording, "unprepared", return_value=False)


def jitter_of_now() -> Any:
    def not_launched(view: View, entry: Entry, run: Run) -> bool:
        end, tick = view.past_ends.get(entry.epoch), run.tick
        known = end is not None and run.scheduled and tick is not None and run.attempt <= 1
        return known and tick is not None and end is not None and tick_of(view.job, view.spec, tick).launch_at > end

    return mock.patch.object(adoption, "not_launched", not_launched)


def timeout_of_now() -> Any:
    def held_until(view: View, uid: str) -> float:
        known = view.remembered(uid)
        since = known.sent_boot if known.launched else view.term_started
        return since + view.spec.timeout.total_seconds()

    return mock.patch.object(views, "held_until", held_until)


def wherever_the_spec_says() -> Any:
    def go(view: View, run: Run, *, attempt: int) -> Step:
        return Launch(run=run, attempt=attempt)

    return mock.patch.object(launching, "_go", go)


def rules_with(first: Callable[[View], Step | None]) -> Any:
    return mock.patch.object(protocol, "RULES", (first, *protocol.RULES))


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One rule (``how``) or one part of the world (``world``) broken on purpose; ``often`` shifts what happens how often.

    ``seed`` is a walk in which it was found; should the rules have changed so that it is not, the search goes on.
    """

    how: Callable[[], Any] = nullcontext
    world: str = ""
    seed: int = 0
    often: dict[str, int] = field(default_factory=dict)
    specs: list[dict[str, Any]] = field(default_factory=lambda: SPECS)


FAULTS: dict[str, Fault] = {
    "launched without a record": Fault(seed=1, how=lambda: rules_with(without_record)),
    "no precondition": Fault(seed=295, world="no precondition", often={"arrive": 8}),
    "adopted without recording anew": Fault(
        seed=165,
        how=lambda: mock.patch.object(adoption, "record_anew", launch_without_recording_anew),
        often={"crash": 8},
    ),
    "a late POST's run is taken as new": Fault(
        seed=1883, how=lambda: rules_with(taken_as_new), often={"arrive": 12, "crash": 6}
    ),
    "the end of the term is ignored": Fault(
        seed=2,
        how=lambda: mock.patch.object(
            adoption, "not_launched", lambda view, entry, run: run.scheduled and run.attempt <= 1
        ),
    ),
    "wall clock for the term clock": Fault(seed=443, world="wall clock", often={"clock": 10, "crash": 8}),
    "the kubelet's stamp taken as the end": Fault(seed=122, world="kubelet's stamp", often={"crash": 8, "take": 14}),
    "one predecessor remembered only": Fault(
        seed=105, world="one predecessor", often={"crash": 16, "take": 40, "step": 30, "time": 30}
    ),
    "deleted and unknown runs are let go at once": Fault(
        seed=19, how=lambda: mock.patch.object(views, "held_until", return_value=0.0), often={"delete": 3}
    ),
    "retries go past the gate": Fault(
        seed=112, how=lambda: mock.patch.object(launching, "retry_blockers", return_value=()), often={"person": 4}
    ),
    "a run is not taken over before it is recorded": Fault(
        seed=2077, how=not_taken_over, often={"person": 4, "arrive": 10}
    ),
    "the jitter of now decides whether a run was launched": Fault(
        seed=1284, how=jitter_of_now, often={"edit": 8, "crash": 8}
    ),
    "the time-out of now decides for how long an unknown run is in the way": Fault(
        seed=3829, how=timeout_of_now, often={"edit": 8}
    ),
    "the epoch is not checked when a transaction commits": Fault(
        seed=5, specs=TRANSACTIONS, world="no check of the epoch", often={"crash": 8}
    ),
    "the ledger is read while the old term may still commit": Fault(
        seed=153, specs=TRANSACTIONS, world="no shutting out", often={"crash": 8, "suspend": 8}
    ),
    "a transaction goes to a database that was not recorded": Fault(
        seed=181, specs=TRANSACTIONS, how=wherever_the_spec_says, often={"crash": 8, "move": 8}
    ),
    "a Job is not asked what became of it": Fault(
        specs=JOBS, how=lambda: mock.patch.object(adoption, "a_job_tells", return_value=False), often={"crash": 8}
    ),
    "a Job is made anew without a look at the one that is there": Fault(specs=JOBS, world="always another Job"),
    "a Job that is gone is taken for one that was not started": Fault(
        specs=JOBS, world="what is gone was not started", often={"crash": 8, "person": 4}
    ),
    "a Job is not taken by whoever is told that it was not started": Fault(
        seed=1425, specs=JOBS, world="a Job is not taken", often={"arrive": 16, "crash": 8, "suspend": 8}
    ),
    "another Job is made though a start was sent": Fault(
        seed=379, specs=JOBS, world="another Job for a start that was sent", often={"delete": 10, "person": 6}
    ),
    "any Job that was not started tells that none was": Fault(
        seed=584, specs=JOBS[-1:], world="any Job tells", often={"arrive": 12, "crash": 8}
    ),
    "a run is recorded before its Job stands ready": Fault(
        seed=4, specs=JOBS, how=not_prepared, often={"crash": 8, "person": 4}
    ),
}
BUDGET = 6_000
"""Walks. A fault is found in a walk that the intact rules take without a breach, step for step the same weights."""


def breach_of(seed: int, fault: Fault, *, broken: bool) -> str | None:
    """What breaks in this walk, with the fault or without it; None where nothing does."""
    world = World(spec=fault.specs[seed % len(fault.specs)], broken=fault.world if broken else "")
    with fault.how() if broken else nullcontext():
        try:
            walk(world, random.Random(seed), 300, MOVES | fault.often)
        except Breach as breach:
            return str(breach)
    return None


@pytest.mark.parametrize("name", FAULTS)
def test_the_search_finds_what_is_broken_on_purpose_and_nothing_else(name: str) -> None:
    """argo #4558 is "no precondition"."""
    fault = FAULTS[name]
    for seed in itertools.chain([fault.seed], range(BUDGET)):
        intact = breach_of(seed, fault, broken=False)
        assert intact is None, f"the intact rules break in walk {seed}: {intact}"
        if breach_of(seed, fault, broken=True) is not None:
            return
    pytest.fail(f"not found in {BUDGET} walks: {name}")


def test_a_run_that_was_never_launched_is_not_given_up_if_the_ends_of_all_terms_are_remembered() -> None:
    """Recorded by the first of three terms, which ends before the instant; the second ends before it looks at anything."""
    world = World(spec=FORBID | {"retry": {"maxAttempts": 1}, "jitterSeconds": 0})
    first, second, third = world.processes
    world.take(first)
    world.advance(1_000)
    while not world.job["status"].get("active"):
        world.step(first)
        world.advance(50 if world.t < 4_890 else 1)
        world.renew(first)
    assert not world.launched
    world.crash(first, with_parent=False)
    world.take(second)
    world.crash(second, with_parent=False)
    world.take(third)
    for _ in range(30):
        world.step(third)
        world.renew(third)
        world.advance(50)
    run = next(run for run in world.runs.values() if run["spec"]["scheduledTime"] == "2026-03-01T12:00:05Z")
    assert run["status"]["phase"] == "Succeeded"
