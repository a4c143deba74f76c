"""What only the real store can meet: pages, namespaces on their way out, lost replies, rights that are missing.

What every store does is in ``tests/contracts/test_store.py``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.store import KubeStore
from soloist.domain.errors import PermanentError, TransientError
from soloist.ports import AlreadyExists, Gone, Raw, Refused, Written
from tests.adapters.kube.conftest import AccessTo
from tests.cluster import faults
from tests.cluster.fixtures import Namespace
from tests.cluster.https_proxy import HttpsProxy

pytestmark = pytest.mark.cluster


def a_run(namespace: Namespace, name: str = "nightly-1") -> Raw:
    return {"metadata": {"namespace": namespace.name, "name": name}, "spec": {"scheduledJobName": "nightly"}}


def store(access: Access, namespace: Namespace, body: Callable[[KubeStore], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        api = KubeApi(access)
        try:
            return await body(KubeStore(api, namespaces=[namespace.name]))
        finally:
            await api.close()

    return asyncio.run(inside())


@pytest.mark.parametrize("expired", [False, True], ids=["whole", "with a page that expired"])
def test_a_long_list_comes_in_pages(
    expired: bool, access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy
) -> None:
    pages = https_proxy.on("GET", "/jobruns", faults.EXPIRED, when=lambda seen: expired and "continue=" in seen.path)

    async def body(it: KubeStore) -> None:
        for first in range(0, 503, 50):  # all at once, the last would wait too long for an answer on a busy machine
            some = range(first, min(first + 50, 503))
            await asyncio.gather(*(it.create_run(a_run(namespace, f"r{number}")) for number in some))
        listing = await it.list_runs()
        assert {run["metadata"]["name"] for run in listing.items} == {f"r{number}" for number in range(503)}
        assert len(listing.items) == 503
        assert len(pages.caught) == int(expired)

    store(access(server=https_proxy.server), namespace, body)


def test_in_a_namespace_that_is_being_deleted_a_run_is_gone(access: AccessTo, namespace: Namespace) -> None:
    keeps = {"metadata": {"name": "keeps", "finalizers": ["soloist.dev/test"]}}
    namespace.api.create(namespace.path("configmaps"), keeps)
    namespace.api.delete(f"/api/v1/namespaces/{namespace.name}")
    try:
        gone = store(access(), namespace, lambda it: it.create_run(a_run(namespace)))
    finally:
        namespace.api.patch(namespace.path("configmaps", "keeps"), {"metadata": {"finalizers": None}})
    assert isinstance(gone, Gone)
    assert "being terminated" in gone.message


def test_a_create_whose_reply_was_lost_is_found_under_its_name(
    access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy
) -> None:
    https_proxy.on("POST", "/jobruns", faults.DropReply(), times=1)

    async def body(it: KubeStore) -> None:
        with pytest.raises(TransientError) as lost:
            await it.create_run(a_run(namespace))
        assert lost.value.sent
        again = await it.create_run(a_run(namespace))
        assert again == AlreadyExists(obj=await it.read_run(namespace.name, "nightly-1"))

    store(access(server=https_proxy.server), namespace, body)


def test_a_quota_that_lost_a_race_is_no_taken_name(
    access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy
) -> None:
    https_proxy.on("POST", "/jobruns", faults.CONFLICT, times=1)

    async def body(it: KubeStore) -> None:
        with pytest.raises(TransientError) as raced:
            await it.create_run(a_run(namespace))
        assert not raced.value.sent
        assert isinstance(await it.create_run(a_run(namespace)), Written)

    store(access(server=https_proxy.server), namespace, body)


def test_an_admission_policy_that_refuses_is_quoted(
    access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy
) -> None:
    https_proxy.on(
        "POST", "/jobruns", faults.refused(403, "Forbidden", "exceeded quota: runs, limited: count/jobruns=5")
    )
    refused = store(access(server=https_proxy.server), namespace, lambda it: it.create_run(a_run(namespace)))
    assert isinstance(refused, Refused)
    assert "exceeded quota: runs, limited: count/jobruns=5" in refused.message


def test_a_status_that_breaks_the_schema_is_an_error_that_names_the_field(
    access: AccessTo, namespace: Namespace
) -> None:
    async def body(it: KubeStore) -> None:
        made = await it.create_run(a_run(namespace))
        assert isinstance(made, Written)
        metadata = made.obj["metadata"]
        with pytest.raises(PermanentError, match=r"status.phase: Unsupported value"):
            await it.write_run_status(
                namespace.name,
                "nightly-1",
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
                status={"phase": "Lost"},
            )

    store(access(), namespace, body)


def test_without_the_right_to_list_the_error_says_which(access: AccessTo, namespace: Namespace) -> None:
    with pytest.raises(PermanentError, match="cannot list resource"):
        store(access("nobody"), namespace, lambda it: it.list_jobs())
