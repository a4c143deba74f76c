"""The ``job`` action on the real API server and its Job controller. There is no node: the test ends Pods as a kubelet would."""

import asyncio
from dataclasses import replace

import pytest

from soloist.domain.actions import FailedKnown, JobAction, Order, Succeeded, UnknownOutcome
from soloist.domain.errors import TransientError
from tests.adapters.kube.conftest import AccessTo
from tests.adapters.kube.job_place import RUN, SECONDS, ask_until, place, run, template
from tests.cluster import faults
from tests.cluster.fixtures import Namespace
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.proxy import TcpProxy

pytestmark = pytest.mark.cluster


def test_a_prepared_job_is_suspended_owned_and_told_which_run_it_is(
    access: AccessTo, namespace: Namespace, order: Order
) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as it:
            await it.launcher.prepare(order)
            job = await it.job()
            assert job is not None
            assert job["spec"]["suspend"] is True
            assert job["spec"]["activeDeadlineSeconds"] == 300
            metadata = job["metadata"]
            [owner] = metadata["ownerReferences"]
            assert (owner["kind"], owner["uid"], owner["controller"]) == ("JobRun", order.run_uid, True)
            assert metadata["labels"] == {
                "team": "billing",
                "soloist.dev/scheduled-job": "nightly",
                "soloist.dev/scheduled-job-uid": order.job_uid,
                "soloist.dev/run": RUN,
            }
            assert metadata["annotations"]["note"] == "kept"
            assert metadata["annotations"]["soloist.dev/scheduled-time"] == "2026-03-01T02:00:00Z"
            assert metadata["annotations"]["soloist.dev/generation"] == "3"
            pod = job["spec"]["template"]["spec"]
            [main], [first] = pod["containers"], pod["initContainers"]
            fence = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations['soloist.dev/fence']"}}
            expected = [
                {"name": "SOLOIST_RUN", "value": RUN},
                {"name": "SOLOIST_KEY", "value": order.key},
                {"name": "SOLOIST_FENCE", "valueFrom": fence},
                {"name": "SOLOIST_SCHEDULED_TIME", "value": "2026-03-01T02:00:00Z"},
            ]
            assert first["env"] == expected
            assert main["env"] == [*expected, {"name": "A", "value": "1"}]
            assert await it.pods() == []
            await it.launcher.prepare(order)
            assert (await it.job() or {})["metadata"]["uid"] == metadata["uid"]

    run(body)


@pytest.mark.parametrize("prepared", [True, False], ids=["prepared", "not prepared"])
def test_a_launched_job_carries_the_fence_of_its_launch_and_succeeds_when_it_completes(
    prepared: bool, access: AccessTo, namespace: Namespace, order: Order
) -> None:
    """k8s #62772."""

    async def body() -> None:
        async with place(access(), namespace, order) as it:
            if prepared:
                await it.launcher.prepare(replace(order, fence=1))
            launched = asyncio.create_task(it.launcher.launch(order))
            pod = await it.end_pod("Succeeded")
            assert pod["metadata"]["annotations"] == {"pod": "kept", "soloist.dev/fence": "1234567890123456"}
            outcome = await asyncio.wait_for(launched, SECONDS)
            assert isinstance(outcome, Succeeded), outcome

    run(body)


def test_a_start_lets_the_jobs_field_ownership_go_and_the_job_controller_begins_no_other(
    access: AccessTo, namespace: Namespace, order: Order
) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as it:
            await it.launcher.prepare(order)
            assert (await it.job() or {})["metadata"]["managedFields"]
            launched = asyncio.create_task(it.launcher.launch(order))
            job = await it.until(lambda job: job is not None and job["status"].get("active") == 1)
            assert not job["metadata"].get("managedFields")
            await it.end_pod("Succeeded")
            assert isinstance(await asyncio.wait_for(launched, SECONDS), Succeeded)

    run(body)


def test_a_job_that_fails_gives_the_jobs_own_reason(access: AccessTo, namespace: Namespace, order: Order) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as it:
            launched = asyncio.create_task(it.launcher.launch(order))
            await it.end_pod("Failed")
            outcome = await asyncio.wait_for(launched, SECONDS)
            assert isinstance(outcome, FailedKnown)
            assert (outcome.reason, outcome.retryable) == ("BackoffLimitExceeded", False)
            assert outcome.message == "Job has reached the specified backoff limit"

    run(body)


def test_without_a_watch_reads_tell_the_end(access: AccessTo, namespace: Namespace, order: Order) -> None:
    async def body() -> None:
        async with place(access(), namespace, order, watching=False, read_every=0.2) as it:
            launched = asyncio.create_task(it.launcher.launch(order))
            await it.end_pod("Succeeded")
            assert isinstance(await asyncio.wait_for(launched, SECONDS), Succeeded)

    run(body)


def test_whoever_leads_next_finds_what_was_started_and_only_that(
    access: AccessTo, namespace: Namespace, order: Order
) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as first, place(access(), namespace, order) as second:
            missing = await second.launcher.found(order)
            assert isinstance(missing, UnknownOutcome)
            assert missing.reason == "JobGone"
            recorded = replace(order, prepared=await first.launcher.prepare(order))
            assert await second.launcher.found(recorded) is None
            launched = asyncio.create_task(first.launcher.launch(order))
            await first.until(lambda job: job is not None and not job["spec"]["suspend"])
            launched.cancel()
            await asyncio.wait({launched})
            found = asyncio.create_task(second.launcher.found(replace(order, fence=order.fence + 1)))
            await first.end_pod("Succeeded")
            assert isinstance(await asyncio.wait_for(found, SECONDS), Succeeded)
            assert isinstance(await second.launcher.found(order), Succeeded)

    run(body)


def test_a_job_that_was_started_before_is_not_started_again(
    access: AccessTo, namespace: Namespace, order: Order
) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as it:
            launched = asyncio.create_task(it.launcher.launch(order))
            job = await it.until(lambda job: job is not None and not job["spec"]["suspend"])
            await it.change_job({"spec": {"suspend": True}})
            again = asyncio.create_task(it.launcher.launch(replace(order, generation=4, fence=99)))
            await asyncio.sleep(0.5)
            now = await it.job() or {}
            assert now["metadata"]["uid"] == job["metadata"]["uid"]
            assert now["spec"]["suspend"] is True
            await it.change_job({"spec": {"suspend": False}})
            await it.end_pod("Succeeded")
            assert isinstance(await asyncio.wait_for(launched, SECONDS), Succeeded)
            assert isinstance(await asyncio.wait_for(again, SECONDS), Succeeded)

    run(body)


def test_a_job_of_another_generation_is_made_anew(access: AccessTo, namespace: Namespace, order: Order) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as it:
            await it.launcher.prepare(order)
            old = await it.job() or {}
            newer = replace(order, generation=4, action=JobAction(template=template(backoffLimit=2)))
            await it.launcher.prepare(newer)
            new = await it.job() or {}
            assert new["metadata"]["uid"] != old["metadata"]["uid"]
            assert (new["spec"]["backoffLimit"], new["spec"]["suspend"]) == (2, True)

    run(body)


def test_a_job_that_was_replaced_after_it_was_prepared_is_started_all_the_same(
    access: AccessTo, namespace: Namespace, order: Order
) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as it, place(access(), namespace, order) as other:
            await it.launcher.prepare(order)
            old = await it.job() or {}
            await it.delete_job()
            await other.launcher.prepare(order)
            launched = asyncio.create_task(it.launcher.launch(order))
            await it.end_pod("Succeeded")
            assert isinstance(await asyncio.wait_for(launched, SECONDS), Succeeded)
            assert (await it.job() or {})["metadata"]["uid"] != old["metadata"]["uid"]

    run(body)


def test_a_job_left_over_by_a_run_of_the_same_name_gives_way(
    access: AccessTo, namespace: Namespace, order: Order
) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as it:
            await it.launcher.prepare(replace(order, run_uid="of-a-run-that-is-gone"))
            await it.launcher.prepare(order)
            job = await it.job() or {}
            assert job["metadata"]["ownerReferences"][0]["uid"] == order.run_uid

    run(body)


def test_a_strangers_job_is_left_alone(access: AccessTo, namespace: Namespace, order: Order) -> None:
    stranger = {"metadata": {"name": RUN}, "spec": template()["spec"] | {"suspend": True}}
    namespace.api.create(namespace.path("jobs", group="batch"), stranger)

    async def body() -> None:
        async with place(access(), namespace, order) as it:
            before = await it.job()
            await it.launcher.prepare(order)
            outcome = await it.launcher.launch(order)
            assert isinstance(outcome, FailedKnown)
            assert (outcome.reason, outcome.retryable) == ("NameTaken", False)
            assert isinstance(await it.launcher.found(order), UnknownOutcome)
            await it.launcher.stop(order)
            assert await it.job() == before

    run(body)


def test_a_template_that_is_refused_is_a_failure_in_the_servers_words(
    access: AccessTo, namespace: Namespace, order: Order
) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as it:
            bad = template()
            bad["spec"]["template"]["spec"]["containers"][0]["image"] = ""
            refused = replace(order, action=JobAction(template=bad))
            await it.launcher.prepare(refused)
            outcome = await it.launcher.launch(refused)
            assert isinstance(outcome, FailedKnown)
            assert (outcome.reason, outcome.retryable) == ("JobRefused", False)
            assert "spec.template.spec.containers[0].image: Required value" in outcome.message

    run(body)


def test_stop_returns_when_the_job_and_its_pods_are_gone(access: AccessTo, namespace: Namespace, order: Order) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as it:
            launched = asyncio.create_task(it.launcher.launch(order))
            await ask_until(it.pods, bool)
            async with asyncio.timeout(SECONDS):
                await it.launcher.stop(order)
                assert await it.job() is None
                assert await it.pods() == []
                outcome = await launched
                await it.launcher.stop(order)
            assert isinstance(outcome, FailedKnown)
            assert outcome.reason == "JobDeleted"

    run(body)


def test_a_job_whose_end_nobody_saw_is_unknown(access: AccessTo, namespace: Namespace, order: Order) -> None:
    async def body() -> None:
        async with place(access(), namespace, order, watching=False, read_every=0.3) as it:
            launched = asyncio.create_task(it.launcher.launch(order))
            await it.until(lambda job: job is not None and not job["spec"]["suspend"])
            await it.delete_job()
            outcome = await asyncio.wait_for(launched, SECONDS)
            assert isinstance(outcome, UnknownOutcome)
            assert outcome.reason == "JobGone"

    run(body)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_lost_reply_starts_one_job_once(
    method: str, access: AccessTo, namespace: Namespace, order: Order, https_proxy: HttpsProxy
) -> None:
    https_proxy.on(method, "/jobs", faults.DropReply(), times=1)

    async def body() -> None:
        async with place(access(server=https_proxy.server), namespace, order) as it:
            launched = asyncio.create_task(it.launcher.launch(order))
            await it.end_pod("Succeeded")
            assert isinstance(await asyncio.wait_for(launched, SECONDS), Succeeded)
            assert len(await it.pods()) == 1

    run(body)


def test_a_server_that_is_away_at_the_time_is_asked_again_while_the_term_is_trusted(
    access: AccessTo, namespace: Namespace, order: Order, proxy: TcpProxy
) -> None:
    async def body() -> None:
        async with place(access(server=proxy.server), namespace, order) as it:
            await it.launcher.prepare(order)
            await asyncio.to_thread(proxy.refuse)
            launched = asyncio.create_task(it.launcher.launch(order))
            await asyncio.sleep(0.5)
            assert not launched.done()
            await asyncio.to_thread(proxy.forward)
            await it.end_pod("Succeeded")
            assert isinstance(await asyncio.wait_for(launched, SECONDS), Succeeded)

    run(body)


def test_without_trust_nothing_is_started(access: AccessTo, namespace: Namespace, order: Order) -> None:
    async def body() -> None:
        async with place(access(), namespace, order) as it:
            await it.launcher.prepare(order)
            it.trusted = False
            with pytest.raises(TransientError) as over:
                await it.launcher.launch(order)
            assert not over.value.sent
            assert (await it.job() or {})["spec"]["suspend"] is True

    run(body)
