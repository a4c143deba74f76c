"""The leader's loop against a store in memory: what it survives, and when it does nothing."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from soloist.domain import status
from soloist.domain.actions import FailedKnown
from soloist.domain.errors import TransientError
from soloist.domain.instants import parse_time
from soloist.domain.runs import Job
from soloist.domain.term import Term
from soloist.loops.cache import Cache
from soloist.loops.scheduler import Pace, Scheduler
from soloist.ports import Refused
from tests.fakes.launcher import FakeLauncher
from tests.fakes.store import FakeStore
from tests.loops.virtual_time import LoopClock, run

NOW = datetime(2026, 3, 2, 12, 0, 0, tzinfo=UTC)
SPEC = {"schedule": "@every 1s", "http": {"url": "http://backend/"}, "missedRunPolicy": "RunAll"}


@dataclass
class Notes:
    """The ``Report`` port: what failed, and the rest is let go."""

    failures: list[BaseException] = field(default_factory=list)
    in_the_way: list[tuple[str, str]] = field(default_factory=list)

    def stands_in_the_way(self, job: Job, reason: str, message: str) -> None:
        self.in_the_way.append((reason, message))

    def failed(self, where: str, error: BaseException) -> None:
        self.failures.append(error)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


TERM = Term(
    identity="a",
    epoch=7,
    lease_namespace="soloist",
    lease_name="soloist",
    lease_uid="lease",
    started_boot=0.0,
    trusted_until=1_000.0,
    renew_time=NOW,
    renew_sent_boot=0.0,
)


class Stage:
    """One leader, one store, one launcher."""

    def __init__(self, *jobs: str, spec: dict[str, Any] | None = None, launcher: FakeLauncher | None = None) -> None:
        self.clock, self.store, self.notes = LoopClock(), FakeStore(), Notes()
        self.launcher = launcher or FakeLauncher()
        self.cache, self.fresh = Cache(), True
        self.term: Term | None = TERM
        self.stopped: list[str] = []
        self.scheduler = Scheduler(
            cache=self.cache,
            store=self.store,
            launcher=self.launcher,
            report=self.notes,
            clock=self.clock,
            term=lambda: self.term,
            fresh=lambda: self.fresh,
            on_stop=self.stopped.append,
            stage=lambda _: None,
            pace=Pace(claim_ahead=0.5, record_ahead=0.1),
        )
        self.store.watchers.append(self._seen)
        for name in jobs:
            self.store.put_job("default", name, spec or SPEC, creationTimestamp=NOW.isoformat())

    def _seen(self, kind: str, obj: dict[str, Any]) -> None:
        put = self.cache.put_run if obj["kind"] == "JobRun" else self.cache.put_job
        for key in put(obj) if kind != "DELETED" else ():
            self.scheduler.wake(key)

    async def until(self, probe: Callable[[], Any]) -> None:
        async with asyncio.timeout(10):
            while not probe():
                await asyncio.sleep(0.01)

    def ticks(self, job: str) -> list[datetime | None]:
        return [order.scheduled_time for order in self.launcher.launched if order.job_name == job]

    def status(self, job: str) -> dict[str, Any]:
        return dict(self.store.objects["jobs", "default", job].get("status", {}))


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the scene in virtual time, with whatever loops it started ended after it."""

    async def whole() -> None:
        await scene()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    run(whole())


def begin(stage: Stage) -> None:
    asyncio.get_running_loop().create_task(stage.scheduler.run())
    stage.scheduler.start()


def test_each_tick_is_launched_once_and_accounted_for() -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        begin(stage)
        await stage.until(lambda: stage.status("sweep").get("counters", {}).get("succeeded", 0) >= 2)
        ticks = stage.ticks("sweep")
        assert len(ticks) == len(set(ticks))
        assert stage.status("sweep")["lastResult"] == "Succeeded"

    play(scene)


def test_history_is_not_trimmed_between_a_record_and_its_launch() -> None:
    """A record lets the run before it go; to delete that there and then would hold up the launch."""

    async def scene() -> None:
        stage = Stage("sweep", spec={**SPEC, "successfulRunsHistoryLimit": 0})
        done: list[str] = []
        stage.store.before = done.append
        stage.notes.launched = lambda *_: done.append("launch")  # type: ignore[attr-defined]
        begin(stage)
        await stage.until(lambda: done.count("delete_run") >= 3)
        for number, call in enumerate(done):
            if call == "delete_run":
                before = [each for each in done[:number] if each in ("write_job_status", "launch")]
                assert before[-1] == "launch", "deleted before what was recorded had been launched"

    play(scene)


@pytest.mark.parametrize("call", ["create_run", "write_job_status", "write_run_status"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_write_that_fails_or_whose_reply_is_lost_launches_nothing_twice(call: str, when: str) -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        failures = iter([True, False, True, True])

        def fail(seen: str) -> None:
            if seen == call and next(failures, False):
                raise TransientError("no answer")

        setattr(stage.store, when, fail)
        begin(stage)
        await stage.until(lambda: stage.status("sweep").get("counters", {}).get("succeeded", 0) >= 3)
        ticks = stage.ticks("sweep")
        assert len(ticks) == len(set(ticks))
        assert stage.notes.failures

    play(scene)


def test_a_run_that_the_server_refuses_is_said_in_the_status_until_it_makes_one() -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        create = stage.store.create_run

        async def refuse(body: dict[str, Any]) -> Refused:
            return Refused(message="exceeded quota: runs")

        stage.store.create_run = refuse  # type: ignore[method-assign]
        begin(stage)

        def scheduled() -> tuple[str, str, str]:
            found = {c["type"]: c for c in stage.status("sweep").get("conditions", [])}.get("Scheduled", {})
            return found.get("status", ""), found.get("reason", ""), found.get("message", "")

        await stage.until(lambda: scheduled()[:2] == ("False", "RunRefused"))
        assert "exceeded quota: runs" in scheduled()[2]
        assert ("RunRefused", "exceeded quota: runs") in stage.notes.in_the_way
        stage.store.create_run = create  # type: ignore[method-assign]
        await stage.until(lambda: stage.ticks("sweep"))
        await stage.until(lambda: scheduled()[:2] == ("True", "Scheduled"))

    play(scene)


def test_history_is_trimmed_while_the_server_refuses_more_runs() -> None:
    """k8s #119775: a quota that is used up would never be emptied."""

    async def scene() -> None:
        stage = Stage("sweep")
        create, made = stage.store.create_run, []

        async def two(body: dict[str, Any]) -> Any:
            made.append(body)
            return await create(body) if len(made) <= 2 else Refused(message="exceeded quota: runs")

        stage.store.create_run = two  # type: ignore[method-assign]
        begin(stage)
        await stage.until(lambda: len(made) > 2 and len(stage.launcher.launched) == 2)
        first = ("runs", "default", stage.launcher.launched[0].run_name)
        assert first in stage.store.objects
        stage.store.put_job("default", "sweep", {**SPEC, "successfulRunsHistoryLimit": 0})
        await stage.until(lambda: first not in stage.store.objects)
        assert len(stage.launcher.launched) == 2

    play(scene)


def test_the_fault_of_one_job_does_not_stop_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """quartz #145, #218, #635, #48."""
    compose = status.compose

    def faulty(view: Any, step: Any) -> Any:
        if view.job.name == "broken":
            raise ZeroDivisionError
        return compose(view, step)

    monkeypatch.setattr(status, "compose", faulty)

    async def scene() -> None:
        stage = Stage("broken", "sweep")
        begin(stage)
        await stage.until(lambda: len(stage.ticks("sweep")) >= 2)
        assert stage.ticks("broken") == []
        assert any(isinstance(error, ZeroDivisionError) for error in stage.notes.failures)

    play(scene)


@pytest.mark.parametrize("lack", ["trust", "freshness", "term"])
def test_without_trust_or_a_fresh_cache_nothing_starts(lack: str) -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        assert stage.term is not None
        match lack:
            case "trust":
                stage.term = replace(stage.term, trusted_until=0.0)
            case "freshness":
                stage.fresh = False
            case "term":
                stage.term = None
        begin(stage)
        await asyncio.sleep(1.3)
        assert stage.launcher.launched == []
        assert stage.store.objects.keys() == {("jobs", "default", "sweep")}

    play(scene)


def test_going_away_starts_nothing_and_writes_what_ended() -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        stage.launcher.until = asyncio.Event()
        begin(stage)
        async with asyncio.timeout(10):
            await stage.launcher.arrived.wait()
        draining = asyncio.create_task(stage.scheduler.drain(10.0))
        await asyncio.sleep(1.2)
        assert len(stage.launcher.launched) == 1
        stage.launcher.until.set()
        await draining
        phases = [run.get("status", {}).get("phase") for key, run in stage.store.objects.items() if key[0] == "runs"]
        assert "Succeeded" in phases

    play(scene)


def test_the_grace_ends_even_if_an_action_does_not() -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        stage.launcher.until = asyncio.Event()
        begin(stage)
        async with asyncio.timeout(10):
            await stage.launcher.arrived.wait()
        async with asyncio.timeout(2):
            await stage.scheduler.drain(0.2)

    play(scene)


def test_a_run_of_a_later_term_ends_this_one() -> None:
    async def scene() -> None:
        stage = Stage("sweep")
        job = stage.store.objects["jobs", "default", "sweep"]
        entry = {"run": "x", "uid": "x", "epoch": 8, "lease": "soloist/soloist"}
        job["status"] = {"active": [entry]}
        job["metadata"]["resourceVersion"] = "50"
        stage.cache.put_job(job)
        begin(stage)
        await stage.until(lambda: stage.stopped)
        assert stage.launcher.launched == []

    play(scene)


def test_a_known_failure_is_tried_again_with_the_same_key() -> None:
    async def scene() -> None:
        retry = {"maxAttempts": 2, "initialDelaySeconds": 1, "factor": 1, "maxDelaySeconds": 1}
        stage = Stage("sweep", spec={**SPEC, "schedule": "@every 1s", "retry": retry, "concurrencyPolicy": "Forbid"})
        stage.launcher.outcome = FailedKnown(reason="UnexpectedStatus", message="503", retryable=True)
        begin(stage)
        await stage.until(lambda: len(stage.launcher.launched) >= 2)
        first, second = stage.launcher.launched[:2]
        assert (first.attempt, second.attempt, first.key) == (1, 2, second.key)
        assert parse_time("2026-03-02T12:00:01Z") == first.scheduled_time

    play(scene)


def test_a_server_that_drops_what_is_written_is_named_and_not_written_to_for_ever() -> None:
    """CRDs older than the controller: unknown fields are pruned without a word."""

    async def scene() -> None:
        stage = Stage("sweep")
        writes: list[str] = []
        stage.store.watchers.clear()
        stage.store.after = writes.append
        answer = stage.store.write_job_status

        async def pruned(*args: Any, **keys: Any) -> Any:
            written = await answer(*args, **keys)
            for entry in written.obj["status"].get("active", ()):
                entry.pop("launchTime", None)
            return written

        stage.store.write_job_status = pruned  # type: ignore[method-assign]
        begin(stage)
        await stage.until(lambda: stage.notes.in_the_way)
        seen = len(writes)
        await asyncio.sleep(1.0)
        reason, message = stage.notes.in_the_way[0]
        assert (reason, "manifests/crds" in message) == ("CrdsTooOld", True)
        assert len(writes) <= seen + 3

    play(scene)
