"""Events: rare, folded, never waited for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.events import MOST_WAITING, KubeRecorder
from soloist.ports import Raw
from tests.adapters.kube.conftest import AccessTo
from tests.cluster import faults
from tests.cluster.fixtures import Namespace
from tests.cluster.https_proxy import HttpsProxy

SECONDS = 60.0
START = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


@dataclass
class Telling:
    recorder: KubeRecorder
    namespace: Namespace
    now: datetime = START
    dropped: int = 0
    about: Raw = field(default_factory=dict)

    def later(self, **ago: float) -> None:
        self.now += timedelta(**ago)

    async def events(self) -> list[Raw]:
        path = self.namespace.path("events", group="events.k8s.io")
        return await asyncio.to_thread(self.namespace.api.items, path)

    async def until(self, wanted: Callable[[list[Raw]], bool]) -> list[Raw]:
        async with asyncio.timeout(SECONDS):
            while not wanted(found := await self.events()):
                await asyncio.sleep(0.05)
        return found


@asynccontextmanager
async def telling(access: Access, namespace: Namespace, **options: float) -> AsyncIterator[Telling]:
    api = KubeApi(access)

    def dropped() -> None:
        it.dropped += 1

    recorder = KubeRecorder(api, instance="pod-0", now=lambda: it.now, dropped=dropped, **options)  # type: ignore[arg-type]
    it = Telling(recorder, namespace)
    it.about = {
        "apiVersion": "soloist.dev/v1alpha1",
        "kind": "ScheduledJob",
        "metadata": {"namespace": namespace.name, "name": "nightly", "uid": "u-1", "resourceVersion": "7"},
    }
    running = asyncio.create_task(recorder.run())
    try:
        yield it
    finally:
        running.cancel()
        await asyncio.wait({running})
        await api.close()


def run(body: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(body())  # type: ignore[arg-type]


@pytest.mark.cluster
def test_an_event_says_what_about_what_and_who_says_so(access: AccessTo, namespace: Namespace) -> None:
    async def body() -> None:
        async with telling(access(), namespace) as it:
            it.recorder.event(it.about, reason="InvalidSchedule", message="spec.schedule: …", warning=True)
            [event] = await it.until(bool)
            told = {key: event[key] for key in ("reason", "action", "note", "type", "eventTime", "regarding")}
            assert told == {
                "reason": "InvalidSchedule",
                "action": "InvalidSchedule",
                "note": "spec.schedule: …",
                "type": "Warning",
                "eventTime": "2026-03-01T02:00:00.000000Z",
                "regarding": {
                    "apiVersion": "soloist.dev/v1alpha1",
                    "kind": "ScheduledJob",
                    "namespace": namespace.name,
                    "name": "nightly",
                    "uid": "u-1",
                    "resourceVersion": "7",
                },
            }
            assert event["reportingController"] == "soloist.dev/controller"
            assert event["reportingInstance"] == "pod-0"

    run(body)


@pytest.mark.cluster
def test_like_events_are_one_that_counts(access: AccessTo, namespace: Namespace) -> None:
    async def body() -> None:
        async with telling(access(), namespace) as it:
            it.recorder.event(it.about, reason="RunFailed", message="x")
            await it.until(bool)
            it.later(seconds=1)
            it.recorder.event(it.about, reason="RunFailed", message="x")
            await it.until(lambda found: found[0].get("series", {}).get("count") == 2)
            for _ in range(70):
                it.later(seconds=1)
                it.recorder.event(it.about, reason="RunFailed", message="x")
            [event] = await it.until(lambda found: found[0]["series"]["count"] > 60)
            assert event["series"]["lastObservedTime"] > "2026-03-01T02:01"

    run(body)


@pytest.mark.cluster
def test_another_message_and_one_after_ten_minutes_are_other_events(access: AccessTo, namespace: Namespace) -> None:
    async def body() -> None:
        async with telling(access(), namespace) as it:
            it.recorder.event(it.about, reason="RunFailed", message="x")
            await it.until(lambda found: len(found) == 1)
            it.recorder.event(it.about, reason="RunFailed", message="y")
            await it.until(lambda found: len(found) == 2)
            it.later(minutes=11)
            it.recorder.event(it.about, reason="RunFailed", message="x")
            await it.until(lambda found: len(found) == 3)

    run(body)


@pytest.mark.cluster
def test_one_that_expired_on_the_server_is_made_again(access: AccessTo, namespace: Namespace) -> None:
    async def body() -> None:
        async with telling(access(), namespace) as it:
            it.recorder.event(it.about, reason="RunFailed", message="x")
            [event] = await it.until(bool)
            path = namespace.path("events", event["metadata"]["name"], group="events.k8s.io")
            await asyncio.to_thread(namespace.api.delete, path)
            it.recorder.event(it.about, reason="RunFailed", message="x")
            [again] = await it.until(bool)
            assert (again["metadata"]["uid"] != event["metadata"]["uid"], again["series"]["count"]) == (True, 2)
            assert it.dropped == 0

    run(body)


@pytest.mark.cluster
def test_a_note_is_cut_at_a_kilobyte_of_bytes(access: AccessTo, namespace: Namespace) -> None:
    async def body() -> None:
        async with telling(access(), namespace) as it:
            it.recorder.event(it.about, reason="RunFailed", message="ü" * 2000)
            [event] = await it.until(bool)
            assert event["note"].endswith("ü…")
            assert 1020 < len(event["note"].encode()) <= 1024

    run(body)


@pytest.mark.cluster
def test_what_is_refused_twice_is_counted_and_holds_nothing_up(
    access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy
) -> None:
    async def body() -> None:
        https_proxy.on("POST", "/events", faults.FORBIDDEN, when=lambda seen: seen.json()["note"] == "lost")
        async with telling(access(server=https_proxy.server), namespace) as it:
            it.recorder.event(it.about, reason="RunFailed", message="lost")
            it.recorder.event(it.about, reason="RunFailed", message="told")
            [event] = await it.until(bool)
            async with asyncio.timeout(SECONDS):
                while not it.dropped:
                    await asyncio.sleep(0.05)
            assert (event["note"], it.dropped, len(await it.events())) == ("told", 1, 1)

    run(body)


@pytest.mark.cluster
@pytest.mark.parametrize(
    "how",
    [faults.UNAVAILABLE, faults.FORBIDDEN, faults.DropReply()],
    ids=["unavailable", "not known yet", "reply lost"],
)
def test_what_was_not_answered_is_told_once_it_is_with_the_time_when_it_happened(
    how: faults.Effect, access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy
) -> None:
    async def body() -> None:
        down = https_proxy.on("POST", "/events", how, times=1)
        async with telling(access(server=https_proxy.server), namespace) as it:
            it.recorder.event(it.about, reason="LeaseUnreachable", message="x", warning=True)
            it.later(minutes=30)
            it.recorder.event(it.about, reason="LeaseUnreachable", message="x", warning=True)
            await asyncio.to_thread(down.wait)
            [event] = await it.until(lambda found: bool(found) and "series" in found[0])
            assert event["eventTime"] == "2026-03-01T02:00:00.000000Z"
            assert event["series"] == {"count": 2, "lastObservedTime": "2026-03-01T02:30:00.000000Z"}
            assert it.dropped == 0

    run(body)


@pytest.mark.cluster
def test_a_flood_is_slowed_and_folded_and_beyond_that_dropped(access: AccessTo, namespace: Namespace) -> None:
    async def body() -> None:
        async with telling(access(), namespace, rate=0.001, burst=3) as it:
            for number in range(MOST_WAITING + 10):
                it.recorder.event(it.about, reason="RunFailed", message=str(number))
            await it.until(lambda found: len(found) == 3)
            await asyncio.sleep(0.3)
            assert len(await it.events()) == 3
            assert it.dropped == 10

    run(body)
