"""What every ``Launcher`` does: the one in memory that the loops are tested with, requests on loopback, and Jobs on an API server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

import pytest

from soloist.adapters.http.client import HttpLauncher
from soloist.adapters.kube.config import Access
from soloist.domain.actions import FailedKnown, Order, Outcome, Succeeded
from soloist.domain.addresses import AddressRules
from soloist.domain.errors import PermanentError
from soloist.ports import Launcher
from tests.adapters.kube.job_place import SECONDS, Place, ask_until, order, place
from tests.adapters.receivers import OK, Keys, Receiver, answer
from tests.adapters.test_http_client import order as http_order
from tests.fakes.launcher import FakeLauncher

__all__ = ["order"]


class World(Protocol):
    """A launcher, one of another process, and where an order has its effect. ``tells``: others can find out what became of it."""

    launcher: Launcher
    successor: Launcher
    order: Order
    tells: bool

    async def effects(self) -> list[str]:
        """The keys that came with what was started."""

    async def end(self, *, well: bool) -> None:
        """What was started is over."""


class InMemory:
    tells = True

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.launcher = self.successor = FakeLauncher(until=self.over)
        self.order = http_order("http://backend/")

    async def effects(self) -> list[str]:
        return [each.key for each in self.launcher.launched]

    async def end(self, *, well: bool) -> None:
        if not well:
            self.launcher.outcome = FailedKnown(reason="Full", message="no room", retryable=False)
        self.over.set()


class Requests:
    tells = False

    def __init__(self) -> None:
        self.over, self.reply = asyncio.Event(), OK
        self.receiver = Receiver(self._answer)
        self.launcher, self.successor = (HttpLauncher(read_key=Keys(), rules=AddressRules()) for _ in range(2))

    async def _answer(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.over.wait()
        writer.write(self.reply)

    async def effects(self) -> list[str]:
        keys = (self.receiver.header("Idempotency-Key", index) for index in range(len(self.receiver.requests)))
        return [str(key) for key in keys]

    async def end(self, *, well: bool) -> None:
        self.reply = OK if well else answer("400 No")
        self.over.set()

    @property
    def order(self) -> Order:
        return http_order(self.receiver.url, seconds=SECONDS)


class Jobs:
    tells = True

    def __init__(self, first: Place, second: Place) -> None:
        self._place, self.order = first, first.order
        self.launcher, self.successor = first.launcher, second.launcher

    async def effects(self) -> list[str]:
        containers = [pod["spec"]["containers"][0] for pod in await self._place.pods()]
        return [env["value"] for each in containers for env in each["env"] if env["name"] == "SOLOIST_KEY"]

    async def end(self, *, well: bool) -> None:
        await self._place.end_pod("Succeeded" if well else "Failed")


@asynccontextmanager
async def in_memory() -> AsyncIterator[World]:
    yield InMemory()


@asynccontextmanager
async def requests() -> AsyncIterator[World]:
    world = Requests()
    async with world.receiver:
        try:
            yield world
        finally:
            await world.launcher.close()
            await world.successor.close()


def jobs(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[World]:
    cluster, namespace = request.getfixturevalue("control_plane"), request.getfixturevalue("namespace")
    access = Access.found(str(cluster.kubeconfig(request.getfixturevalue("tmp_path") / "kubeconfig")))
    wanted: Order = request.getfixturevalue("order")

    @asynccontextmanager
    async def entered() -> AsyncIterator[World]:
        async with place(access, namespace, wanted) as first, place(access, namespace, wanted) as second:
            yield Jobs(first, second)

    return entered()


Enter = Callable[[Callable[[World], Awaitable[None]]], None]


@pytest.fixture(params=["in memory", "http", pytest.param("job", marks=pytest.mark.cluster)])
def enter(request: pytest.FixtureRequest) -> Enter:
    """Runs a test's coroutine in a fresh world."""
    kinds: dict[str, Any] = {"in memory": in_memory, "http": requests, "job": lambda: jobs(request)}
    made = kinds[request.param]()

    async def inside(body: Callable[[World], Awaitable[None]]) -> None:
        async with made as world:
            await body(world)

    return lambda body: asyncio.run(inside(body))


async def launched(world: World) -> asyncio.Task[Outcome]:
    """A launch whose effect is there and goes on."""
    task = asyncio.create_task(world.launcher.launch(world.order))
    await ask_until(world.effects, bool)
    assert not task.done()
    return task


async def abandon(task: asyncio.Task[Outcome]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=SECONDS)
    assert task.cancelled()


def test_preparing_starts_nothing_and_may_be_repeated(enter: Enter) -> None:
    async def body(world: World) -> None:
        for _ in range(2):
            made = await world.launcher.prepare(world.order)
        assert await world.effects() == []
        if world.tells:
            recorded = replace(world.order, prepared=made)
            assert await world.successor.found(recorded) is None, "it was certainly not launched"

    enter(body)


@pytest.mark.parametrize("well", [True, False], ids=["well", "badly"])
def test_a_launch_has_its_effect_once_under_its_key_and_says_how_it_ended(enter: Enter, well: bool) -> None:
    async def body(world: World) -> None:
        await world.launcher.prepare(world.order)
        task = await launched(world)
        await world.end(well=well)
        outcome = await asyncio.wait_for(task, SECONDS)
        assert isinstance(outcome, Succeeded if well else FailedKnown), outcome
        assert await world.effects() == [world.order.key]

    enter(body)


def test_what_became_of_an_abandoned_attempt_is_found_or_nobody_can_tell(enter: Enter) -> None:
    async def body(world: World) -> None:
        await abandon(await launched(world))
        later = replace(world.order, fence=world.order.fence + 1)
        if world.tells:
            found = asyncio.create_task(world.successor.found(later))
            await world.end(well=True)
            assert isinstance(await asyncio.wait_for(found, SECONDS), Succeeded)
            assert isinstance(await world.successor.found(later), Succeeded), "as often as it is asked"
        else:
            with pytest.raises(PermanentError, match="nobody can know"):
                await world.successor.found(later)
        assert await world.effects() == [world.order.key]

    enter(body)


def test_stopping_starts_nothing_and_may_be_repeated_whatever_there_is(enter: Enter) -> None:
    async def body(world: World) -> None:
        await world.launcher.stop(world.order)
        assert await world.effects() == []
        await abandon(await launched(world))
        for _ in range(2):
            await asyncio.wait_for(world.launcher.stop(world.order), SECONDS)
        assert await world.effects() in ([], [world.order.key])

    enter(body)
