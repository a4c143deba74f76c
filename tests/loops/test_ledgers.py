"""A leader after another one, whose runs were transactions: the ledger is asked until it answers, and then believed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from soloist.domain.actions import Order, Outcome, SqlAction, Succeeded, ledger_of
from soloist.domain.errors import PermanentError, TransientError
from tests.fakes.launcher import FakeLauncher
from tests.loops.test_scheduler import Stage, begin, play

DATABASE = {"secretName": "first", "key": "uri"}
SPEC = {
    "schedule": "@every 1s",
    "concurrencyPolicy": "Queue",
    "timeoutSeconds": 3,
    "sql": {"databaseRef": DATABASE, "statement": "SELECT 1"},
}


@dataclass
class Asked(FakeLauncher):
    """Its ledger answers with each of ``answers`` in turn; the last for ever."""

    answers: list[Outcome | Exception | None] = field(default_factory=lambda: [None])
    asked: list[Order] = field(default_factory=list)

    async def found(self, order: Order) -> Outcome | None:
        self.asked.append(order)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def make(*jobs: str) -> tuple[Stage, Asked]:
    launcher = Asked()
    return Stage(*jobs, spec=SPEC, launcher=launcher), launcher


@asynccontextmanager
async def taken_over(*answers: Outcome | Exception | None) -> AsyncIterator[tuple[Stage, Asked, str]]:
    """The second leader; the first has recorded one run, has begun its transaction, and is heard of no more."""
    first, before = make("sweep")
    before.until = asyncio.Event()
    begin(first)
    async with asyncio.timeout(20):
        await before.arrived.wait()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    second, launcher = make()
    launcher.answers = list(answers)
    assert second.term is not None
    second.term = replace(second.term, epoch=8, renew_time=second.term.renew_time.replace(second=2))
    second.store.objects, second.store._version = first.store.objects, 1_000
    for (kind, _, _), obj in first.store.objects.items():
        (second.cache.put_job if kind == "jobs" else second.cache.put_run)(obj)
    begin(second)
    yield second, launcher, before.launched[0].run_name


def phase(stage: Stage, run: str) -> str:
    return str(stage.store.objects["runs", "default", run].get("status", {}).get("phase", "Pending"))


def test_what_the_ledger_holds_is_done_and_not_launched() -> None:
    async def scene() -> None:
        async with taken_over(Succeeded(message="It was committed under fence 7.")) as (stage, launcher, run):
            await stage.until(lambda: phase(stage, run) == "Succeeded")
            status = stage.store.objects["runs", "default", run]["status"]
            assert (status["message"], status["attempt"]) == ("It was committed under fence 7.", 1)
            assert run not in [order.run_name for order in launcher.launched]
            assert launcher.asked[0].fence == 8
            assert ledger_of(launcher.asked[0].action) == "secret/first/uri"

    play(scene)


def test_what_it_does_not_hold_is_launched_as_the_same_attempt_under_the_new_fence() -> None:
    async def scene() -> None:
        async with taken_over(None) as (stage, launcher, run):
            await stage.until(lambda: phase(stage, run) == "Succeeded")
            (order,) = [order for order in launcher.launched if order.run_name == run]
            assert (order.attempt, order.fence) == (1, 8)

    play(scene)


@pytest.mark.parametrize("error", [TransientError("The database sleeps."), PermanentError("Secret x is not there.")])
def test_a_ledger_that_cannot_be_read_is_asked_again_and_a_person_is_told(error: Exception) -> None:
    async def scene() -> None:
        async with taken_over(error, error, Succeeded()) as (stage, launcher, run):
            await stage.until(lambda: phase(stage, run) == "Succeeded")
            assert len(launcher.asked) == 3
            reason, message = stage.notes.in_the_way[0]
            assert reason == "LedgerUnreadable"
            assert message.startswith(f"Whether run {run} was committed is not known yet: {error}")

    play(scene)


def test_a_person_may_give_up_a_run_whose_ledger_is_gone_for_good() -> None:
    async def scene() -> None:
        async with taken_over(TransientError("gone")) as (stage, launcher, run):
            await stage.until(lambda: len(launcher.asked) >= 2)
            stage.store.remove("runs", "default", run)
            stage.cache.drop_run(("default", "sweep"), run, uid=launcher.asked[0].run_uid)
            stage.scheduler.wake(("default", "sweep"))
            await stage.until(lambda: stage.status("sweep")["counters"]["launched"] >= 1)
            assert "Cancelled" in {line["result"] for line in stage.status("sweep")["recent"]}
            seen = len(launcher.asked)
            await asyncio.sleep(1.5)
            assert len(launcher.asked) == seen

    play(scene)


def test_the_ledger_that_was_recorded_is_asked_whatever_the_spec_says_by_now() -> None:
    async def scene() -> None:
        async with taken_over(TransientError("gone")) as (stage, launcher, run):
            moved = {**SPEC, "sql": {"databaseRef": {**DATABASE, "secretName": "second"}, "statement": "SELECT 2"}}
            stage.store.put_job("default", "sweep", moved)
            seen = len(launcher.asked)
            await stage.until(lambda: len(launcher.asked) >= seen + 2)
            assert ledger_of(launcher.asked[-1].action) == "secret/first/uri"
            launcher.answers = [None]
            await stage.until(lambda: phase(stage, run) == "Succeeded")
            (order,) = [order for order in launcher.launched if order.run_name == run]
            assert isinstance(order.action, SqlAction)
            assert ledger_of(order.action) == "secret/second/uri"

    play(scene)


def test_a_server_that_drops_the_ledger_is_named_and_nothing_is_launched_by_it() -> None:
    """CRDs older than the controller; whoever leads next could not ask, and would have to guess."""

    async def scene() -> None:
        stage, launcher = make("sweep")
        stage.store.watchers.clear()
        answer, writes = stage.store.write_job_status, []

        async def pruned(*args: Any, **keys: Any) -> Any:
            writes.append(args)
            written = await answer(*args, **keys)
            for entry in written.obj["status"].get("active", ()):
                entry.pop("ledger", None)
            return written

        stage.store.write_job_status = pruned  # type: ignore[method-assign]
        begin(stage)
        await stage.until(lambda: stage.notes.in_the_way)
        seen = len(writes)
        await asyncio.sleep(1.0)
        reason, message = stage.notes.in_the_way[0]
        assert (reason, "status.active[].ledger" in message) == ("CrdsTooOld", True)
        assert len(writes) <= seen + 3
        assert launcher.launched == []

    play(scene)
