"""A ``job`` action's launcher in a namespace of its own, and what a test does there as a kubelet or a person would."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.job_watch import JobWatch
from soloist.adapters.kube.jobs import JobLauncher
from soloist.domain.actions import JobAction, Order
from soloist.ports import Raw
from tests.cluster.fixtures import Namespace

TICK = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
RUN = "nightly-1"
SECONDS = 90.0
T = TypeVar("T")


def template(**spec: Any) -> Raw:
    container = {
        "name": "main",
        "image": "x",
        "env": [{"name": "SOLOIST_KEY", "value": "mine"}, {"name": "A", "value": "1"}],
    }
    pod = {"restartPolicy": "Never", "containers": [container], "initContainers": [{"name": "first", "image": "x"}]}
    return {
        "metadata": {"labels": {"team": "billing"}, "annotations": {"note": "kept"}},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": {"pod": "kept"}}, "spec": pod}} | spec,
    }


async def ask_until(ask: Callable[[], Awaitable[T]], wanted: Callable[[T], bool]) -> T:
    async with asyncio.timeout(SECONDS):
        while not wanted(answer := await ask()):
            await asyncio.sleep(0.05)
    return answer


@dataclass
class Place:
    """A launcher, and what the test does to its namespace."""

    launcher: JobLauncher
    namespace: Namespace
    order: Order
    trusted: bool = True

    async def job(self) -> Raw | None:
        return await asyncio.to_thread(self.namespace.api.find, self.namespace.path("jobs", RUN, group="batch"))

    async def until(self, wanted: Callable[[Raw | None], bool]) -> Raw:
        return await ask_until(self.job, wanted) or {}

    async def pods(self) -> list[Raw]:
        return await asyncio.to_thread(self.namespace.api.items, self.namespace.path("pods"))

    async def end_pod(self, phase: str) -> Raw:
        """What a kubelet writes when the containers have ended."""
        pods = await ask_until(self.pods, bool)
        path = self.namespace.path("pods", pods[0]["metadata"]["name"]) + "/status"
        await asyncio.to_thread(self.namespace.api.patch, path, {"status": {"phase": phase}})
        return pods[0]

    async def change_job(self, patch: Raw) -> None:
        path = self.namespace.path("jobs", RUN, group="batch")
        await asyncio.to_thread(self.namespace.api.patch, path, patch)

    async def delete_job(self) -> None:
        path = self.namespace.path("jobs", RUN, group="batch")
        await asyncio.to_thread(self.namespace.api.delete, path, {"propagationPolicy": "Background"})


@pytest.fixture
def order(namespace: Namespace) -> Order:
    run = namespace.api.create(
        namespace.ours("jobruns"),
        {
            "apiVersion": "soloist.dev/v1alpha1",
            "kind": "JobRun",
            "metadata": {"name": RUN},
            "spec": {"scheduledJobName": "nightly"},
        },
    )
    return Order(
        namespace=namespace.name,
        job_name="nightly",
        job_uid="11111111-2222",
        generation=3,
        run_name=RUN,
        run_uid=run["metadata"]["uid"],
        scheduled_time=TICK,
        attempt=1,
        key="11111111-2222/2026-03-01T02:00:00Z",
        fence=1234567890123456,
        timeout=timedelta(minutes=5),
        action=JobAction(template=template()),
    )


@asynccontextmanager
async def place(access: Access, namespace: Namespace, order: Order, **options: Any) -> AsyncIterator[Place]:
    watching = options.pop("watching", True)
    api = KubeApi(access)
    watch = JobWatch(api, boottime=SystemClock().boottime, namespaces=[namespace.name], **options)
    it = Place(JobLauncher(api, watch, trusted=lambda: it.trusted), namespace, order)
    running = asyncio.create_task(watch.run() if watching else asyncio.sleep(3600))
    try:
        yield it
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await api.close()


def run(body: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(body())  # type: ignore[arg-type]
