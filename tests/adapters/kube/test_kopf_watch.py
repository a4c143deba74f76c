"""kopf as a watcher, on the real API server: what it tells, what it never writes, and that it does not stay away.

A list is told as a gap, and nothing of what is in it: so each test waits for the first one, and then changes something.
"""

import asyncio
import logging
import pwd
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.kopf_watch import KopfWatch
from soloist.ports import Raw
from tests.adapters.kube.conftest import AccessTo
from tests.cluster import faults
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.proxy import TcpProxy
from tests.cluster.request_counts import WRITES

pytestmark = pytest.mark.cluster
SECONDS = 60.0
SPEC = {"schedule": "0 2 * * *", "http": {"url": "http://backend.default.svc/run"}}


class Following:
    """A kopf watch over one namespace and what it told."""

    def __init__(self, access: Access, namespace: str, window: int) -> None:
        self.told: list[tuple[str, str, str]] = []
        self.objects: list[Raw] = []
        self.gaps = 0
        self.threads: set[str] = set()
        self._news = asyncio.Event()
        self.watch = KopfWatch(
            access,
            on_event=self._tell,
            on_gap=self._gap,
            boottime=SystemClock().boottime,
            namespaces=[namespace],
            window=window,
        )

    def _tell(self, kind: str, obj: Raw) -> None:
        self.threads.add(threading.current_thread().name)
        self.told.append((kind, obj["metadata"]["name"], obj["spec"]["schedule"]))
        self.objects.append(obj)
        self._news.set()

    def _gap(self) -> None:
        self.gaps += 1
        self._news.set()

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not true():
                self._news.clear()
                await self._news.wait()

    async def until_told(self, *event: str) -> None:
        await self.until(lambda: event in self.told)

    async def until_listed(self, times: int = 1) -> None:
        await self.until(lambda: self.gaps >= times)


@asynccontextmanager
async def following(access: Access, namespace: Namespace, window: int = 25) -> AsyncIterator[Following]:
    it = Following(access, namespace.name, window)
    it.watch.start()
    try:
        yield it
    finally:
        # kopf itself would wait for its request's own time-out, 30 s. On a busy machine a stop may want more than its seconds.
        async with asyncio.timeout(25):
            while not await it.watch.stop():
                pass


class People:
    """What others do to ScheduledJobs, without blocking the loop."""

    def __init__(self, namespace: Namespace) -> None:
        self._api, self._path = namespace.api, namespace.ours("scheduledjobs")

    async def create(self, name: str) -> None:
        body = {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "metadata": {"name": name}, "spec": SPEC}
        await asyncio.to_thread(self._api.create, self._path, body)

    async def change(self, name: str, schedule: str) -> None:
        await asyncio.to_thread(self._api.patch, f"{self._path}/{name}", {"spec": {"schedule": schedule}})

    async def delete(self, name: str) -> None:
        await asyncio.to_thread(self._api.delete, f"{self._path}/{name}")


@pytest.fixture
def people(namespace: Namespace) -> People:
    return People(namespace)


def run(body: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(body())  # type: ignore[arg-type]


def test_what_changes_is_told_in_the_callers_loop_and_what_was_there_is_left_to_a_list_of_its_own(
    access: AccessTo, namespace: Namespace, people: People
) -> None:
    async def body() -> None:
        await people.create("old")
        async with following(access(), namespace) as it:
            await it.until_listed()
            await people.create("new")
            await people.change("new", "0 3 * * *")
            await people.change("old", "0 4 * * *")
            await people.delete("new")
            await it.until_told("DELETED", "new", "0 3 * * *")
            assert it.told == [
                ("ADDED", "new", "0 2 * * *"),
                ("MODIFIED", "new", "0 3 * * *"),
                ("MODIFIED", "old", "0 4 * * *"),
                ("DELETED", "new", "0 3 * * *"),
            ]
            assert it.threads == {threading.current_thread().name}
            managed = [entry for obj in it.objects for entry in obj["metadata"]["managedFields"]]
            assert managed
            assert all(entry.keys() <= {"time", "subresource"} and "time" in entry for entry in managed)
            assert it.watch.heard > SystemClock().boottime() - 30
            assert it.watch.watched > SystemClock().boottime() - 30
            assert it.gaps == 1
        assert not any(thread.name == "kopf" for thread in threading.enumerate())

    run(body)


def test_it_writes_nothing_and_says_nothing(
    access: AccessTo,
    control_plane: ControlPlane,
    namespace: Namespace,
    people: People,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        before = control_plane.requests()
        async with following(access(), namespace) as it:
            await it.until_listed()
            await people.create("a")
            await it.until_told("ADDED", "a", "0 2 * * *")
        after = control_plane.requests() - before
        # A create is counted when its answer has gone out, which may be after ``before``; and the namespaces of earlier
        # tests may still be going away, collection by collection. What kopf would write is a patch of what it watches.
        changes = ("PUT", "PATCH", "APPLY")
        for resource in ("scheduledjobs", "kopfpeerings", "customresourcedefinitions"):
            assert after.total(changes if resource == "scheduledjobs" else WRITES, resource) == 0
        events = await asyncio.to_thread(namespace.api.get, namespace.path("events"))
        assert events["items"] == []
        assert [record.name for record in caplog.records if record.name.startswith("kopf")] == []
        found = await asyncio.to_thread(namespace.api.get, namespace.ours("scheduledjobs", "a"))
        assert not {"finalizers", "annotations"} & found["metadata"].keys()

    with caplog.at_level(logging.DEBUG):
        run(body)


def test_it_needs_no_right_but_to_list_and_watch(
    access: AccessTo, control_plane: ControlPlane, namespace: Namespace, people: People
) -> None:
    rules = [{"apiGroups": ["soloist.dev"], "resources": ["scheduledjobs"], "verbs": ["list", "watch"]}]
    api = namespace.api
    rbac = "rbac.authorization.k8s.io"
    api.create(namespace.path("roles", group=rbac), {"metadata": {"name": "watcher"}, "rules": rules})
    api.create(
        namespace.path("rolebindings", group=rbac),
        {
            "metadata": {"name": "watcher"},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "watcher"},
            "subjects": [{"kind": "ServiceAccount", "name": "watcher", "namespace": namespace.name}],
        },
    )
    api.create(namespace.path("serviceaccounts"), {"metadata": {"name": "watcher"}})
    token = control_plane.service_account_token(namespace.name, "watcher")

    async def body() -> None:
        async with following(access(token=token), namespace) as it:
            await it.until_listed()
            await people.create("a")
            await it.until_told("ADDED", "a", "0 2 * * *")

    run(body)


def test_a_stream_that_ends_kopf_is_begun_again_and_the_gap_is_told(
    access: AccessTo, namespace: Namespace, people: People, https_proxy: HttpsProxy, caplog: pytest.LogCaptureFixture
) -> None:
    # An error in the stream that is not 410 is what kopf takes for fatal.
    error = b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"x"}}\n'
    headers = {"Content-Type": "application/json"}
    https_proxy.on("GET", "watch=true", faults.Answer(status=200, body=error, headers=headers), times=1)

    async def body() -> None:
        async with following(access(server=https_proxy.server), namespace) as it:
            await it.until_listed(times=2)
            await people.create("a")
            await it.until_told("ADDED", "a", "0 2 * * *")
        assert [r.message for r in caplog.records if r.name == "soloist.adapters.kube.kopf_watch"] == [
            "the watch of ScheduledJobs ended; starting it again"
        ]

    run(body)


def test_a_start_without_a_server_is_a_late_start(
    access: AccessTo, namespace: Namespace, people: People, proxy: TcpProxy
) -> None:
    async def body() -> None:
        await asyncio.to_thread(proxy.refuse)
        async with following(access(server=proxy.server), namespace) as it:
            await asyncio.sleep(1.5)
            assert it.watch.heard == it.watch.watched == float("-inf")
            await asyncio.to_thread(proxy.forward)
            await it.until_listed()
            await people.create("a")
            await it.until_told("ADDED", "a", "0 2 * * *")

    run(body)


def test_a_refused_token_is_no_hot_loop(access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy) -> None:
    async def body() -> None:
        rule = https_proxy.on("GET", "/scheduledjobs", faults.UNAUTHORIZED)
        async with following(access(server=https_proxy.server), namespace):
            await asyncio.to_thread(rule.wait, 1, SECONDS)
            await asyncio.sleep(5)
            assert len(rule.caught) < 20

    run(body)


def test_stopping_a_watch_whose_server_does_not_answer_takes_seconds(
    access: AccessTo, namespace: Namespace, people: People, proxy: TcpProxy
) -> None:
    async def body() -> None:
        async with following(access(server=proxy.server), namespace) as it:
            await it.until_listed()
            await people.create("a")
            await it.until_told("ADDED", "a", "0 2 * * *")
            await asyncio.to_thread(proxy.blackhole)

    run(body)


def test_a_kind_that_is_not_served_yet_is_waited_for_aloud(
    access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy, caplog: pytest.LogCaptureFixture
) -> None:
    https_proxy.on("GET", "/apis/soloist.dev/v1alpha1$", faults.refused(404, "NotFound"), times=1)

    async def body() -> None:
        async with following(access(server=https_proxy.server), namespace) as it:
            await it.until_listed()
        [said] = [record for record in caplog.records if record.name == "soloist.adapters.kube.kopf_watch"]
        assert "apply the CRDs of this version" in said.__dict__["error"]

    run(body)


def test_a_watch_that_went_silent_is_begun_again(
    access: AccessTo, namespace: Namespace, people: People, https_proxy: HttpsProxy, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with following(access(server=https_proxy.server), namespace, window=1) as it:
            await it.until_listed()
            await people.create("a")
            await it.until_told("ADDED", "a", "0 2 * * *")
            held = https_proxy.on("GET", "/scheduledjobs", faults.Hold())
            await asyncio.to_thread(held.wait, 1, SECONDS)
            silent_since = it.watch.heard
            # kopf itself would wait for its request's own time-out, 30 s.
            async with asyncio.timeout(SECONDS):
                while not any("went silent" in r.__dict__.get("error", "") for r in caplog.records):
                    await asyncio.sleep(0.05)
            https_proxy.clear()
            await it.until_listed(times=2)
            await people.create("b")
            await it.until_told("ADDED", "b", "0 2 * * *")
            assert it.watch.heard > silent_since

    run(body)


def test_it_works_for_a_user_without_a_name_as_a_containers_is(
    access: AccessTo, namespace: Namespace, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nameless(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", nameless)
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)

    async def body() -> None:
        async with following(access(), namespace) as it:
            await it.until_listed()
            await people.create("job")
            await it.until_told("ADDED", "job", "0 2 * * *")

    run(body)
