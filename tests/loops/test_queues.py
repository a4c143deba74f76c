"""The set of queues as it changes: started, restarted, stopped, each without any other noticing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from soloist.domain.claims import Claim, Failed, Settled
from soloist.domain.errors import PermanentError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import Concurrency, External, QueueSpec
from soloist.loops.queues import Queues
from tests.loops.queue_world import Handler, Notes, Opened, Rows, Scene, done, for_ever, lasting, now, queue_spec
from tests.loops.virtual_time import LoopClock, run

Act = Callable[[Claim], Awaitable[Settled]]


class House:
    """Queues over tables of their own, in one process; the ``QueueOpener`` of all of them."""

    def __init__(self) -> None:
        self.scenes: dict[str, Scene] = {}
        self.acts: dict[str, Act] = {}
        self.handlers: dict[str, list[Handler]] = {}
        self.refused: set[str] = set()
        self.hanging: set[str] = set()
        self.notes = Notes()
        self.queues = Queues(self, clock=LoopClock(), report=self.notes, drawn=lambda: 0.5)

    async def open(self, name: QueueName, spec: QueueSpec, wake: Callable[[], None]) -> Opened:
        if name.name in self.hanging:
            await asyncio.Event().wait()
        if name.name in self.refused:
            raise PermanentError(f"{name}: no such table")
        self.handlers.setdefault(name.name, []).append(Handler(self.acts.get(name.name, done)))
        return Opened(Rows(self.scene(name.name).table, spec), self.handlers[name.name][-1])

    def scene(self, name: str) -> Scene:
        return self.scenes.setdefault(name, Scene())

    def follow(self, **specs: QueueSpec) -> None:
        self.queues.follow({QueueName("default", name): spec for name, spec in specs.items()})

    def clean(self) -> None:
        for it in self.scenes.values():
            assert [row for row in it.table.rows.values() if row.fence is not None] == []
        assert [handler for each in self.handlers.values() for handler in each if handler.running] == []
        assert not self.queues.units


def test_a_queue_is_worked_from_the_moment_it_is_known_until_it_is_gone() -> None:
    async def body() -> None:
        house = House()
        house.follow(a=queue_spec())
        house.scene("a").add(5)
        await house.scene("a").finished()
        house.follow(a=queue_spec(), b=queue_spec())
        house.scene("b").add(5)
        await house.scene("b").finished()
        house.follow(b=queue_spec())
        await house.scene("a").until(lambda: len(house.queues.units) == 1)
        house.scene("a").add(5)
        await asyncio.sleep(60.0)
        assert house.scene("a").states().count("waiting") == 5
        house.follow(a=queue_spec(), b=queue_spec())
        await house.scene("a").finished()
        await house.queues.close(10.0)
        house.clean()

    run(body())


def test_the_same_queues_told_again_disturb_nothing() -> None:
    async def body() -> None:
        house = House()
        house.acts["a"] = lasting(5.0)
        house.scene("a").add(3)
        for _ in range(20):
            house.follow(a=queue_spec())
            await asyncio.sleep(0.1)
        await house.scene("a").finished()
        assert len(house.handlers["a"]) == 1
        await house.queues.close(10.0)
        house.clean()

    run(body())


def test_a_queue_that_is_changed_finishes_what_runs_before_it_goes_on_as_it_is_now() -> None:
    async def body() -> None:
        house = House()
        house.acts["a"] = lasting(5.0)
        it = house.scene("a")
        it.add(10)
        house.follow(a=queue_spec(per_worker=4))
        await it.until(lambda: len(house.handlers["a"][0].running) == 4 if house.handlers.get("a") else False)
        house.follow(a=queue_spec(concurrency=Concurrency(per_worker=1)))
        await it.finished()
        old, new = house.handlers["a"]
        assert (len(old.started), len(new.started)) == (4, 6)
        assert new.most_at_once == 1
        assert new.started[0][0] >= old.started[0][0] + 5.0, "at no moment are there more than the limit"
        assert {row.attempt for row in it.table.rows.values()} == {1}
        await house.queues.close(10.0)
        house.clean()

    run(body())


def test_a_suspended_queue_claims_nothing_and_finishes_what_runs() -> None:
    async def body() -> None:
        house = House()
        house.acts["a"] = lasting(5.0)
        it = house.scene("a")
        it.add(2)
        house.follow(a=queue_spec())
        await it.until(lambda: len(house.handlers["a"][0].running) == 2 if house.handlers.get("a") else False)
        house.follow(a=replace(queue_spec(), suspend=True))
        it.add(2)
        await asyncio.sleep(120.0)
        assert it.states() == ["done", "done", "waiting", "waiting"]
        house.follow(a=queue_spec())
        await it.finished()
        await house.queues.close(10.0)
        house.clean()

    run(body())


def test_a_queue_of_the_users_own_workers_is_left_to_them() -> None:
    async def body() -> None:
        house = House()
        house.scene("a").add(2)
        house.follow(a=replace(queue_spec(), deliver=External()))
        await asyncio.sleep(60.0)
        assert house.scene("a").states() == ["waiting", "waiting"]
        assert not house.queues.units
        await house.queues.close(10.0)

    run(body())


def test_a_queue_that_hangs_one_that_fails_and_one_that_cannot_be_opened_leave_a_healthy_one_alone() -> None:
    async def body() -> None:
        house = House()

        async def fails(claim: Claim) -> Settled:
            return Failed(claim=claim, error="HTTP 500", retry_in=None)

        house.acts |= {"hangs": for_ever, "fails": fails}
        house.refused.add("refused")
        house.hanging.add("slow")
        names = ("hangs", "fails", "refused", "slow", "healthy")
        for name in names:
            house.scene(name).add(500)
        house.follow(**{name: queue_spec() for name in names})
        await house.scene("healthy").finished()
        assert now() < 1.0
        for _ in range(50):
            (row,) = house.scene("healthy").add(due_in=1.0)
            due = now() + 1.0
            await house.scene("healthy").until(lambda row=row: row.state == "done")
            assert now() <= due + 0.25 + 0.05
        await house.scene("fails").finished()
        assert set(house.scene("fails").states()) == {"dead"}
        assert ("queue", "default/refused: no such table") in house.notes.failures
        assert len(house.queues.units) == 5
        await house.queues.close(10.0)
        house.clean()

    run(body())


def test_at_the_end_all_are_drained_side_by_side_within_the_grace() -> None:
    async def body() -> None:
        house = House()
        for name in ("a", "b", "c"):
            house.acts[name] = for_ever
            house.scene(name).add(3)
        house.follow(a=queue_spec(), b=queue_spec(), c=queue_spec())
        await house.scene("c").until(lambda: all(house.handlers.get(name) for name in "abc"))
        await asyncio.sleep(1.0)
        before = now()
        await house.queues.close(20.0)
        assert now() - before < 20.0
        house.follow(d=queue_spec())
        await asyncio.sleep(1.0)
        house.clean()
        for it in house.scenes.values():
            assert {(row.state, row.attempt) for row in it.table.rows.values()} == {("waiting", 1)}

    run(body())


def test_a_change_of_mind_while_a_queue_is_drained_is_heeded() -> None:
    async def body() -> None:
        house = House()
        house.acts["a"] = lasting(10.0)
        it = house.scene("a")
        it.add(6)
        house.follow(a=queue_spec(per_worker=3))
        await it.until(lambda: len(house.handlers["a"][0].running) == 3 if house.handlers.get("a") else False)
        house.follow()
        await asyncio.sleep(1.0)
        house.follow(a=queue_spec(per_worker=3))
        await asyncio.sleep(1.0)
        house.follow(a=queue_spec(per_worker=2))
        await it.finished()
        assert house.handlers["a"][-1].most_at_once <= 3
        assert [handler.most_at_once for handler in house.handlers["a"]][-1] == 2
        await house.queues.close(10.0)
        house.clean()

    run(body())
