"""The bare watch on the real API server, with the faults of a network and of a server between."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.store import list_all
from soloist.adapters.kube.watch import Watch
from soloist.ports import Raw
from tests.adapters.kube.conftest import AccessTo
from tests.cluster import faults
from tests.cluster.children import until
from tests.cluster.fixtures import Namespace
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.proxy import TcpProxy

pytestmark = pytest.mark.cluster
SECONDS = 60.0


class Following:
    """A watch over the ConfigMaps of a namespace that are labelled ours, what it told, and how often it listed."""

    def __init__(self, api: KubeApi, path: str, **options: Any) -> None:
        self._api, self._paths = api, [path]
        self.told: list[tuple[str, str, str]] = []
        self.lists = 0
        self._news = asyncio.Event()
        self.watch = Watch(
            api,
            self._paths,
            on_event=self._tell,
            relist=self._relist,
            boottime=SystemClock().boottime,
            selector="ours",
            **{"window": 30.0, "quiet": 30.0, "first_wait": 0.05} | options,
        )

    def _tell(self, kind: str, obj: Raw) -> None:
        self.told.append((kind, obj["metadata"]["name"], obj.get("data", {}).get("x", "")))
        self._news.set()

    async def _relist(self) -> str:
        listing = await list_all(self._api, self._paths, selector="ours")
        self.lists += 1
        self._news.set()
        return listing.resource_version

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not true():
                self._news.clear()
                await self._news.wait()

    async def until_told(self, *event: str) -> None:
        await self.until(lambda: event in self.told)


@asynccontextmanager
async def following(access: Access, path: str, **options: Any) -> AsyncIterator[Following]:
    api = KubeApi(access)
    it = Following(api, path, **options)
    running = asyncio.create_task(it.watch.run())
    try:
        await it.until(lambda: it.lists > 0)
        yield it
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await api.close()


class People:
    """What others do to the ConfigMaps, without blocking the watch."""

    def __init__(self, namespace: Namespace) -> None:
        self._api, self._path = namespace.api, namespace.path("configmaps")

    async def create(self, name: str) -> None:
        await asyncio.to_thread(self._api.create, self._path, {"metadata": {"name": name, "labels": {"ours": ""}}})

    async def change(self, name: str, x: str) -> None:
        await asyncio.to_thread(self._api.patch, f"{self._path}/{name}", {"data": {"x": x}})

    async def delete(self, name: str) -> None:
        await asyncio.to_thread(self._api.delete, f"{self._path}/{name}")


@pytest.fixture
def people(namespace: Namespace) -> People:
    return People(namespace)


@pytest.fixture
def path(namespace: Namespace) -> str:
    return namespace.path("configmaps")


def run(body: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(body())  # type: ignore[arg-type]


def test_every_change_is_told_in_order(access: AccessTo, path: str, people: People) -> None:
    async def body() -> None:
        async with following(access(), path) as it:
            await people.create("a")
            await people.change("a", "1")
            await people.change("a", "2")
            await people.delete("a")
            await it.until_told("DELETED", "a", "2")
            assert it.told == [
                ("ADDED", "a", ""),
                ("MODIFIED", "a", "1"),
                ("MODIFIED", "a", "2"),
                ("DELETED", "a", "2"),
            ]
            assert it.lists == 1

    run(body)


def test_what_others_label_otherwise_is_not_told(
    access: AccessTo, path: str, people: People, namespace: Namespace
) -> None:
    async def body() -> None:
        # The controller manager gives it to each new namespace, in its own time.
        ours = namespace.path("configmaps", "kube-root-ca.crt")
        await asyncio.to_thread(until, lambda: namespace.api.find(ours), what="the ConfigMap is there", timeout=60)
        async with following(access(), path) as it:
            await people.change("kube-root-ca.crt", "1")
            await people.create("a")
            await it.until_told("ADDED", "a", "")
            assert [name for _, name, _ in it.told] == ["a"]

    run(body)


def test_a_stream_that_ends_goes_on_where_it_was(access: AccessTo, path: str, people: People) -> None:
    async def body() -> None:
        async with following(access(), path, window=1.2) as it:
            for number in range(12):
                await people.create(f"c{number}")
                await asyncio.sleep(0.3)
            await it.until_told("ADDED", "c11", "")
            assert [name for _, name, _ in it.told] == [f"c{number}" for number in range(12)]
            assert it.lists == 1

    run(body)


def test_a_frozen_stream_is_given_up_and_loses_nothing(
    access: AccessTo, path: str, people: People, https_proxy: HttpsProxy
) -> None:
    async def body() -> None:
        async with following(access(server=https_proxy.server), path, quiet=1.0) as it:
            await people.create("a")
            await it.until_told("ADDED", "a", "")
            position = next(seen.path for seen in https_proxy.seen if "watch=true" in seen.path)
            https_proxy.on("GET", "watch=true", faults.Freeze(), when=lambda seen: seen.path == position)
            heard = it.watch.heard
            await people.create("b")
            await it.until_told("ADDED", "b", "")
            assert it.watch.heard > heard
            assert it.lists == 1

    run(body)


@pytest.mark.parametrize("how", [faults.EXPIRED, faults.GONE_IN_WATCH], ids=["by status", "in the stream"])
def test_a_position_that_is_gone_is_a_new_list(
    how: faults.Effect, access: AccessTo, path: str, people: People, https_proxy: HttpsProxy
) -> None:
    async def body() -> None:
        https_proxy.on("GET", "watch=true", how, times=1)
        async with following(access(server=https_proxy.server), path) as it:
            await it.until(lambda: it.lists == 2)
            await people.create("a")
            await it.until_told("ADDED", "a", "")

    run(body)


def test_a_list_is_a_word_of_the_server_but_no_watch(
    access: AccessTo, path: str, people: People, https_proxy: HttpsProxy
) -> None:
    async def body() -> None:
        refused = https_proxy.on("GET", "watch=true", faults.FORBIDDEN)
        async with following(access(server=https_proxy.server), path) as it:
            await it.until(lambda: it.lists == 2)
            assert it.watch.heard > it.watch.watched == float("-inf")
            refused.remove()
            await people.create("a")
            await it.until(lambda: any(name == "a" for _, name, _ in it.told) or it.lists > 2)
            async with asyncio.timeout(SECONDS):
                while it.watch.watched == float("-inf"):
                    await asyncio.sleep(0.02)

    run(body)


def test_a_server_that_closes_at_once_is_not_asked_in_a_hot_loop(
    access: AccessTo, path: str, people: People, https_proxy: HttpsProxy
) -> None:
    async def body() -> None:
        rule = https_proxy.on("GET", "watch=true", faults.EMPTY)
        async with following(access(server=https_proxy.server), path, first_wait=0.2) as it:
            await asyncio.sleep(3)
            assert len(rule.caught) <= 8
            await asyncio.to_thread(rule.wait, 2)
            https_proxy.clear()
            await people.create("a")
            await it.until(lambda: any(name == "a" for _, name, _ in it.told) or it.lists > 2)

    run(body)


@pytest.mark.parametrize("fault", ["refuse", "reset", "cut"])
def test_a_server_that_was_away_is_followed_again(
    fault: str, access: AccessTo, path: str, people: People, proxy: TcpProxy
) -> None:
    async def body() -> None:
        async with following(access(server=proxy.server), path) as it:
            await people.create("a")
            await it.until_told("ADDED", "a", "")
            await asyncio.to_thread(getattr(proxy, fault))
            await people.create("b")
            await asyncio.sleep(0.3)
            await asyncio.to_thread(proxy.forward)
            await people.create("c")
            await it.until_told("ADDED", "c", "")
            assert ("ADDED", "b", "") in it.told or it.lists > 1

    run(body)


def test_a_right_that_is_missing_is_asked_for_again_and_again(access: AccessTo, path: str) -> None:
    async def body() -> None:
        api = KubeApi(access("nobody"))
        it = Following(api, path)
        running = asyncio.create_task(it.watch.run())
        await asyncio.sleep(1)
        assert not running.done()
        assert it.watch.heard == float("-inf")
        running.cancel()
        await asyncio.wait({running})
        await api.close()

    run(body)
