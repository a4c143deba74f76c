"""What every ``Store`` does: the one in memory that the loops are tested with, the one on an API server, and the one in rows."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.store import JOBS, KubeStore, path_of
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.row_specs import RowSpecs
from soloist.adapters.postgres.row_store import RowStore
from soloist.ports import AlreadyExists, Conflict, Gone, Raw, Refused, Store, Written
from tests.fakes.store import FakeStore
from tests.queue.databases import with_database

SPEC = {"schedule": "0 2 * * *", "http": {"url": "http://backend.default.svc/run"}}
SECOND = "2026-03-01T02:00:00Z"


class FakeWorld:
    """A ``FakeStore`` and what other people do to it."""

    def __init__(self) -> None:
        self.namespace, self.other = "here", "there"
        self.store: Store = FakeStore([self.namespace, self.other])

    async def add_job(self, name: str) -> Raw:
        assert isinstance(self.store, FakeStore)
        return self.store.put_job(self.namespace, name, SPEC)

    async def remove_job(self, name: str) -> None:
        assert isinstance(self.store, FakeStore)
        self.store.remove("jobs", self.namespace, name)


class KubeWorld:
    """The same on an API server, in two namespaces of its own."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        tag = secrets.token_hex(4)
        self.namespace, self.other = f"store-{tag}-a", f"store-{tag}-b"
        self.store: Store = KubeStore(api, namespaces=[self.namespace, self.other])

    async def start(self) -> None:
        for name in (self.namespace, self.other):
            await self._api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    async def add_job(self, name: str) -> Raw:
        body = {
            "apiVersion": "soloist.dev/v1alpha1",
            "kind": "ScheduledJob",
            "metadata": {"name": name},
            "spec": SPEC,
        }
        return await self._api.request("POST", path_of(JOBS, self.namespace), body)

    async def remove_job(self, name: str) -> None:
        await self._api.request("DELETE", path_of(JOBS, self.namespace, name))


class RowWorld:
    """The same in a database, in an installation of its own."""

    def __init__(self, database: Database) -> None:
        self.namespace, self.other, self._shard = "here", "there", f"store-{secrets.token_hex(4)}"
        self._database = database
        self.store: Store = RowStore(database, shard=self._shard, writer="me", namespaces=[self.namespace, self.other])
        self._jobs: dict[str, Raw] = {}

    async def start(self) -> None:
        await self._database.fetch(b"SELECT soloist.take_epoch(%s, 1)", [self._shard])

    async def add_job(self, name: str) -> Raw:
        metadata = {"namespace": self.namespace, "name": name}
        self._jobs[name] = {"kind": "ScheduledJob", "metadata": metadata, "spec": SPEC}
        await self._apply()
        made = await self.store.read_job(self.namespace, name)
        assert made is not None
        return made

    async def remove_job(self, name: str) -> None:
        del self._jobs[name]
        await self._apply()

    async def _apply(self) -> None:
        specs = RowSpecs(self._database, shard=self._shard, writer="me")
        await specs.apply(list(self._jobs.values()), kinds=["ScheduledJob"], epoch=1)


World = FakeWorld | KubeWorld | RowWorld
Enter = Callable[[Callable[[World], Awaitable[None]]], None]


@asynccontextmanager
async def _kube_world(kubeconfig: str) -> AsyncIterator[KubeWorld]:
    api = KubeApi(Access.found(kubeconfig))
    try:
        world = KubeWorld(api)
        await world.start()
        yield world
    finally:
        await api.close()


@pytest.fixture(params=["in memory", "rows", pytest.param("real", marks=pytest.mark.cluster)])
def enter(request: pytest.FixtureRequest) -> Enter:
    """Runs a test's coroutine in a fresh world."""
    if request.param == "in memory":
        return lambda body: asyncio.run(body(FakeWorld()))  # type: ignore[arg-type]
    if request.param == "rows":
        dsn = request.getfixturevalue("queue_database").dsn()

        async def in_rows(database: Database, body: Callable[[World], Awaitable[None]]) -> None:
            world = RowWorld(database)
            await world.start()
            await body(world)

        return lambda body: with_database(dsn, lambda database: in_rows(database, body))
    cluster = request.getfixturevalue("control_plane")
    kubeconfig = str(cluster.kubeconfig(request.getfixturevalue("tmp_path") / "kubeconfig"))

    def run(body: Callable[[World], Awaitable[None]]) -> None:
        async def inside() -> None:
            async with _kube_world(kubeconfig) as world:
                await body(world)

        asyncio.run(inside())

    return run


def a_run(namespace: str, name: str = "nightly-1", **spec: Any) -> Raw:
    metadata = {"namespace": namespace, "name": name, "labels": {"soloist.dev/scheduled-job": "nightly"}}
    return {"metadata": metadata, "spec": {"scheduledJobName": "nightly"} | spec}


async def create(world: World, name: str = "nightly-1", namespace: str | None = None, **spec: Any) -> Raw:
    made = await world.store.create_run(a_run(namespace or world.namespace, name, **spec))
    assert isinstance(made, Written), made
    return made.obj


def version_of(obj: Raw) -> str:
    return str(obj["metadata"]["resourceVersion"])


def uid_of(obj: Raw) -> str:
    return str(obj["metadata"]["uid"])


async def until(true: Callable[[], Awaitable[bool]], seconds: float = 90.0) -> None:
    async with asyncio.timeout(seconds):
        while not await true():
            await asyncio.sleep(0.05)


def test_an_empty_store_has_a_version(enter: Enter) -> None:
    async def body(world: World) -> None:
        for listing in (await world.store.list_jobs(), await world.store.list_runs()):
            assert listing.items == []
            assert listing.resource_version.isdecimal()

    enter(body)


def assert_only_moments_are_kept(obj: Raw) -> None:
    """Of what was written, when and to which part; not the fields, which are half of an object's size."""
    for entry in obj["metadata"].get("managedFields", ()):
        assert entry.keys() <= {"time", "subresource"}


def test_what_is_not_there_reads_as_none(enter: Enter) -> None:
    async def body(world: World) -> None:
        assert await world.store.read_job(world.namespace, "nobody") is None
        assert await world.store.read_run(world.namespace, "nobody") is None

    enter(body)


def test_a_created_run_is_read_and_listed_as_it_was_answered(enter: Enter) -> None:
    async def body(world: World) -> None:
        before = int((await world.store.list_runs()).resource_version)
        run = await create(world)
        assert run["apiVersion"] == "soloist.dev/v1alpha1"
        assert run["kind"] == "JobRun"
        assert run["spec"] == {"scheduledJobName": "nightly", "trigger": "Manual"}
        assert "status" not in run
        assert_only_moments_are_kept(run)
        assert await world.store.read_run(world.namespace, "nightly-1") == run
        listing = await world.store.list_runs()
        assert listing.items == [run]
        assert int(listing.resource_version) > before

    enter(body)


def test_the_lists_of_all_its_namespaces_are_one(enter: Enter) -> None:
    async def body(world: World) -> None:
        await create(world, "one")
        await create(world, "two", namespace=world.other)
        names = {run["metadata"]["name"] for run in (await world.store.list_runs()).items}
        assert names == {"one", "two"}

    enter(body)


def test_a_job_is_listed_and_read(enter: Enter) -> None:
    async def body(world: World) -> None:
        job = await world.add_job("nightly")
        [listed] = (await world.store.list_jobs()).items
        assert uid_of(listed) == uid_of(job)
        assert listed == await world.store.read_job(world.namespace, "nightly")

    enter(body)


def test_a_name_that_is_taken_answers_with_whose_it_is(enter: Enter) -> None:
    async def body(world: World) -> None:
        first = await create(world)
        second = await world.store.create_run(a_run(world.namespace))
        assert second == AlreadyExists(obj=first)

    enter(body)


def test_a_status_given_to_a_create_is_not_taken(enter: Enter) -> None:
    async def body(world: World) -> None:
        made = await world.store.create_run(a_run(world.namespace) | {"status": {"phase": "Succeeded"}})
        assert isinstance(made, Written)
        assert "status" not in made.obj

    enter(body)


def test_a_run_that_breaks_the_schema_is_refused_with_a_sentence(enter: Enter) -> None:
    async def body(world: World) -> None:
        bad = a_run(world.namespace)
        del bad["spec"]["scheduledJobName"]
        refused = await world.store.create_run(bad)
        assert isinstance(refused, Refused)
        assert "spec.scheduledJobName" in refused.message

    enter(body)


def test_no_run_is_created_in_a_namespace_that_is_not_there(enter: Enter) -> None:
    async def body(world: World) -> None:
        gone = await world.store.create_run(a_run("no-such-namespace"))
        assert isinstance(gone, Gone)
        assert "no-such-namespace" in gone.message

    enter(body)


def test_a_status_write_merges_replaces_lists_and_removes_nulls(enter: Enter) -> None:
    async def body(world: World) -> None:
        job = await world.add_job("nightly")
        entry = {"run": "r", "uid": "u", "trigger": "Schedule", "epoch": 7}

        async def write(obj: Raw, status: Raw) -> Raw:
            done = await world.store.write_job_status(
                world.namespace,
                "nightly",
                uid=uid_of(obj),
                resource_version=version_of(obj),
                status=status,
                before=obj.get("status", {}),
            )
            assert isinstance(done, Written), done
            return done.obj

        first = await write(job, {"watermark": SECOND, "active": [entry], "counters": {"launched": 1, "failed": 2}})
        second = await write(first, {"active": [], "counters": {"failed": None, "skipped": 3}, "lastResult": "Failed"})
        assert second["status"] == {
            "watermark": SECOND,
            "active": [],
            "counters": {"launched": 1, "skipped": 3},
            "lastResult": "Failed",
        }
        assert int(version_of(second)) > int(version_of(first)) > int(version_of(job))
        assert second["spec"] == job["spec"]
        assert second["metadata"]["generation"] == job["metadata"]["generation"]
        assert_only_moments_are_kept(second)
        assert await world.store.read_job(world.namespace, "nightly") == second

    enter(body)


def test_a_run_has_a_status_of_its_own(enter: Enter) -> None:
    async def body(world: World) -> None:
        run = await create(world)
        done = await world.store.write_run_status(
            world.namespace,
            "nightly-1",
            uid=uid_of(run),
            resource_version=version_of(run),
            status={"phase": "Running", "attempt": 1, "epoch": 2**53 + 1},
        )
        assert isinstance(done, Written)
        assert done.obj["status"] == {"phase": "Running", "attempt": 1, "epoch": 2**53 + 1}

    enter(body)


def test_a_status_write_decided_on_an_older_state_writes_nothing(enter: Enter) -> None:
    async def body(world: World) -> None:
        old = await create(world)
        asked = {"uid": uid_of(old), "resource_version": version_of(old)}
        first = await world.store.write_run_status(world.namespace, "nightly-1", **asked, status={"phase": "Running"})
        second = await world.store.write_run_status(world.namespace, "nightly-1", **asked, status={"phase": "Failed"})
        assert isinstance(first, Written)
        assert second == Conflict()
        assert await world.store.read_run(world.namespace, "nightly-1") == first.obj

    enter(body)


def test_a_status_write_that_changes_nothing_is_no_new_state(enter: Enter) -> None:
    async def body(world: World) -> None:
        old = await create(world)
        obj = old
        for _ in range(2):
            done = await world.store.write_run_status(
                world.namespace,
                "nightly-1",
                uid=uid_of(obj),
                resource_version=version_of(obj),
                status={"phase": "Running"},
            )
            assert isinstance(done, Written)
            before, obj = obj, done.obj
        assert obj == before

    enter(body)


def test_the_status_of_a_run_made_anew_under_the_same_name_is_not_written(enter: Enter) -> None:
    """quartz #107, #29, #731, #548."""

    async def body(world: World) -> None:
        old = await create(world)
        await world.store.delete_run(world.namespace, "nightly-1", uid=uid_of(old))
        new = await create(world)
        answer = await world.store.write_run_status(
            world.namespace, "nightly-1", uid=uid_of(old), resource_version=version_of(old), status={"phase": "Failed"}
        )
        assert answer == Conflict()
        assert await world.store.read_run(world.namespace, "nightly-1") == new

    enter(body)


def test_a_status_write_to_what_is_gone_says_so(enter: Enter) -> None:
    async def body(world: World) -> None:
        asked = {"uid": "0", "resource_version": "1"}
        run = await world.store.write_run_status(world.namespace, "nobody", **asked, status={"phase": "Failed"})
        job = await world.store.write_job_status(
            world.namespace, "nobody", **asked, status={"lastResult": "Failed"}, before={}
        )
        assert isinstance(run, Gone)
        assert isinstance(job, Gone)

    enter(body)


def test_a_delete_is_of_that_very_run_and_may_be_repeated(enter: Enter) -> None:
    async def body(world: World) -> None:
        run = await create(world)
        await world.store.delete_run(world.namespace, "nightly-1", uid="0")
        assert await world.store.read_run(world.namespace, "nightly-1") == run
        for _ in range(2):
            await world.store.delete_run(world.namespace, "nightly-1", uid=uid_of(run))
        assert await world.store.read_run(world.namespace, "nightly-1") is None

    enter(body)


def test_a_job_takes_its_runs_with_it(enter: Enter) -> None:
    async def body(world: World) -> None:
        job = await world.add_job("nightly")
        run = a_run(world.namespace)
        run["metadata"]["ownerReferences"] = [
            {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "name": "nightly", "uid": uid_of(job)}
        ]
        assert isinstance(await world.store.create_run(run), Written)
        await create(world, "a-stranger")
        await world.remove_job("nightly")

        async def gone() -> bool:
            return await world.store.read_run(world.namespace, "nightly-1") is None

        # The garbage collector looks for new kinds every half a minute.
        await until(gone)
        assert await world.store.read_run(world.namespace, "a-stranger") is not None

    enter(body)
