"""Starts of Jobs whose requests or replies are lost or late, at the real API server: no run has two Jobs that are started, and
none is started once somebody was told that it was not.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from soloist.domain.actions import JobAction, Order, Succeeded, UnknownOutcome
from tests.adapters.kube.conftest import AccessTo
from tests.adapters.kube.job_place import RUN, SECONDS, Place, ask_until, place, run, template
from tests.cluster import faults
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.https_proxy import HttpsProxy

pytestmark = pytest.mark.cluster

ONE = f"/jobs/{RUN}$"


async def die(task: "asyncio.Task[Any]") -> None:
    """Whoever waits for the answer is gone; the request is on its way."""
    task.cancel()
    await asyncio.wait({task}, timeout=SECONDS)
    assert task.done()


async def started(it: Place) -> None:
    await it.until(lambda job: job is not None and not job["spec"]["suspend"])


def test_a_dead_leaders_start_fails_once_its_successor_was_told_that_nothing_was_started(
    access: AccessTo, namespace: Namespace, order: Order, https_proxy: HttpsProxy, control_plane: ControlPlane
) -> None:
    held = https_proxy.on("PATCH", ONE, faults.Hold(), times=1)

    async def refused() -> int:
        requests = await asyncio.to_thread(control_plane.requests)
        return requests.total("PATCH", "jobs", code="422")

    async def body() -> None:
        server = https_proxy.server
        async with place(access(server=server), namespace, order) as dead, place(access(), namespace, order) as it:
            made, before = await dead.launcher.prepare(order), await refused()
            launch = asyncio.create_task(dead.launcher.launch(order))
            await asyncio.to_thread(held.wait)
            await die(launch)
            mine = replace(order, fence=order.fence + 1)
            assert await it.launcher.found(replace(mine, prepared=made)) is None
            held.release()
            await ask_until(refused, lambda count: count > before)
            assert (await it.job() or {})["spec"]["suspend"] is True
            launched = asyncio.create_task(it.launcher.launch(mine))
            pod = await it.end_pod("Succeeded")
            assert pod["metadata"]["annotations"]["soloist.dev/fence"] == str(mine.fence)
            assert isinstance(await asyncio.wait_for(launched, SECONDS), Succeeded)

    run(body)


def test_no_other_job_is_made_once_a_start_was_sent(
    access: AccessTo, namespace: Namespace, order: Order, https_proxy: HttpsProxy
) -> None:
    https_proxy.on("PATCH", ONE, faults.DropReply(), times=1)
    held = https_proxy.on("GET", ONE, faults.Hold(), times=1)

    async def body() -> None:
        async with place(access(server=https_proxy.server), namespace, order) as it:
            launch = asyncio.create_task(it.launcher.launch(order))
            await asyncio.to_thread(held.wait)
            await started(it)
            await it.delete_job()
            await ask_until(it.job, lambda job: job is None)
            held.release()
            outcome = await asyncio.wait_for(launch, SECONDS)
            assert isinstance(outcome, UnknownOutcome)
            assert outcome.reason == "JobGone"
            assert await it.job() is None

    run(body)


def test_what_is_being_stopped_is_not_started(
    access: AccessTo, namespace: Namespace, order: Order, https_proxy: HttpsProxy
) -> None:
    create = https_proxy.on("POST", "/jobs$", faults.Hold())
    look = https_proxy.on("GET", ONE, faults.HoldReply(), times=1)
    start = https_proxy.on("PATCH", ONE, faults.Hold())

    async def body() -> None:
        async with place(access(server=https_proxy.server), namespace, order) as it:
            launch = asyncio.create_task(it.launcher.launch(order))
            await asyncio.to_thread(create.wait)
            stop = asyncio.create_task(it.launcher.stop(order))
            await asyncio.to_thread(look.wait)
            create.release()
            await asyncio.to_thread(create.wait, 2)  # by then it has seen the first one answered
            assert start.caught == []
            look.release()
            await asyncio.wait_for(stop, SECONDS)
            await die(launch)

    run(body)


def test_a_job_that_a_late_request_makes_does_not_say_that_none_was_started(
    access: AccessTo, namespace: Namespace, order: Order, https_proxy: HttpsProxy
) -> None:
    held = https_proxy.on("POST", "/jobs$", faults.Hold(), times=1)

    async def body() -> None:
        server = https_proxy.server
        async with place(access(server=server), namespace, order) as late, place(access(), namespace, order) as it:
            lost = asyncio.create_task(late.launcher.prepare(order))
            await asyncio.to_thread(held.wait)
            await die(lost)
            made = await it.launcher.prepare(order)
            launch = asyncio.create_task(it.launcher.launch(order))
            await started(it)
            await it.launcher.stop(order)
            await die(launch)
            held.release()
            other = await it.until(lambda job: job is not None)
            assert (other["metadata"]["uid"] != made, other["spec"]["suspend"]) == (True, True)
            outcome = await it.launcher.found(replace(order, prepared=made, fence=order.fence + 1))
            assert isinstance(outcome, UnknownOutcome)
            assert outcome.reason == "JobGone"

    run(body)


def test_a_job_of_another_generation_that_is_started_meanwhile_is_not_removed(
    access: AccessTo, namespace: Namespace, order: Order, https_proxy: HttpsProxy
) -> None:
    held = https_proxy.on("DELETE", ONE, faults.Hold(), times=1)
    newer = replace(order, generation=4, action=JobAction(template=template(backoffLimit=2)))

    async def body() -> None:
        server = https_proxy.server
        async with place(access(server=server), namespace, order) as it, place(access(), namespace, order) as other:
            old = await other.launcher.prepare(order)
            prepared = asyncio.create_task(it.launcher.prepare(newer))
            await asyncio.to_thread(held.wait)
            launched = asyncio.create_task(other.launcher.launch(order))
            await started(other)
            held.release()
            assert await asyncio.wait_for(prepared, SECONDS) == old
            await other.end_pod("Succeeded")
            assert isinstance(await asyncio.wait_for(launched, SECONDS), Succeeded)

    run(body)
