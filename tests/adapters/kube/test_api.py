"""Requests to the API server: what is sent, what comes back, and what each way of going wrong is called."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from soloist.adapters.kube.answers import Clash, Expired, NotFound, Refusal, from_watch_error, refusal_or_transient
from soloist.adapters.kube.api import MERGE_PATCH, KubeApi
from soloist.adapters.kube.config import Access
from soloist.domain.errors import PermanentError, TransientError
from tests.adapters.kube.conftest import AccessTo
from tests.cluster import faults
from tests.cluster.children import until
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.proxy import TcpProxy

pytestmark = pytest.mark.cluster


def talk(access: Access, body: Callable[[KubeApi], Awaitable[Any]], **options: Any) -> Any:
    async def inside() -> Any:
        api = KubeApi(access, **options)
        try:
            return await body(api)
        finally:
            await api.close()

    return asyncio.run(inside())


def config_maps(namespace: Namespace) -> str:
    return namespace.path("configmaps")


def test_an_object_is_created_read_patched_and_deleted(access: AccessTo, namespace: Namespace) -> None:
    async def body(api: KubeApi) -> None:
        path = config_maps(namespace)
        made = await api.request("POST", path, {"metadata": {"name": "a"}, "data": {"x": "ü", "y": "2"}})
        assert made["data"] == {"x": "ü", "y": "2"}
        patched = await api.request("PATCH", path + "/a", {"data": {"y": None}}, content_type=MERGE_PATCH)
        assert patched["data"] == {"x": "ü"}
        listed = await api.request("GET", path, query={"fieldSelector": "metadata.name=a"})
        assert [item["data"] for item in listed["items"]] == [{"x": "ü"}]
        await api.request("DELETE", path + "/a")
        with pytest.raises(NotFound):
            await api.request("GET", path + "/a")

    talk(access(), body)


def test_a_taken_name_and_a_precondition_that_fails_are_clashes(access: AccessTo, namespace: Namespace) -> None:
    async def body(api: KubeApi) -> None:
        path = config_maps(namespace)
        await api.request("POST", path, {"metadata": {"name": "a"}})
        with pytest.raises(Clash) as taken:
            await api.request("POST", path, {"metadata": {"name": "a"}})
        assert taken.value.reason == "AlreadyExists"
        with pytest.raises(Clash) as other:
            await api.request("DELETE", path + "/a", {"preconditions": {"uid": "0"}})
        assert other.value.reason == "Conflict"

    talk(access(), body)


def test_a_missing_right_is_permanent_and_names_it(access: AccessTo, namespace: Namespace) -> None:
    with pytest.raises(PermanentError, match='User "nobody" cannot list resource "configmaps"'):
        talk(access(user="nobody"), lambda api: api.request("GET", config_maps(namespace)))


def test_a_refused_connection_sent_nothing(access: AccessTo) -> None:
    [port] = free_ports(1)
    with pytest.raises(TransientError) as refused:
        talk(access(server=f"https://127.0.0.1:{port}"), lambda api: api.request("POST", "/x", {}))
    assert not refused.value.sent


def test_a_name_that_does_not_resolve_sent_nothing(access: AccessTo) -> None:
    with pytest.raises(TransientError) as unknown:
        talk(access(server="https://no-such-host.invalid"), lambda api: api.request("POST", "/x", {}))
    assert not unknown.value.sent


def test_an_answer_that_never_comes_is_given_up_in_time_and_may_have_been_sent(
    access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy
) -> None:
    rule = https_proxy.on("POST", "/configmaps", faults.HoldReply())
    with pytest.raises(TransientError, match=r"no answer within 3 s") as late:
        talk(
            access(server=https_proxy.server),
            lambda api: api.request("POST", config_maps(namespace), {"metadata": {"name": "a"}}, timeout=3),
        )
    assert late.value.sent
    rule.release()
    until(lambda: namespace.api.find(config_maps(namespace) + "/a"), what="it was sent", timeout=60)


def test_a_reply_that_is_lost_may_have_been_sent(
    access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy
) -> None:
    https_proxy.on("POST", "/configmaps", faults.DropReply())
    with pytest.raises(TransientError) as lost:
        talk(
            access(server=https_proxy.server),
            lambda api: api.request("POST", config_maps(namespace), {"metadata": {"name": "a"}}),
        )
    assert lost.value.sent
    assert namespace.api.find(config_maps(namespace) + "/a") is not None


@pytest.mark.parametrize(
    ("answer", "retry_after"),
    [
        pytest.param(faults.UNAVAILABLE, None, id="503"),
        pytest.param(faults.TOO_MANY, 1.0, id="429 with Retry-After"),
        pytest.param(faults.BAD_GATEWAY, None, id="502 in HTML"),
        pytest.param(faults.INTERNAL, None, id="500"),
        pytest.param(faults.EMPTY, None, id="200 with nothing"),
        pytest.param(faults.Answer(status=200, body=b"<html>sign in</html>"), None, id="200 in HTML"),
        pytest.param(faults.Answer(status=200, body=b"[]"), None, id="200 with a list"),
        pytest.param(faults.Truncate(), None, id="half an answer"),
    ],
)
def test_what_may_be_better_later_is_transient(
    answer: Any, retry_after: float | None, access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy
) -> None:
    https_proxy.on("GET", "/configmaps", answer)
    with pytest.raises(TransientError) as later:
        talk(access(server=https_proxy.server), lambda api: api.request("GET", config_maps(namespace)))
    assert later.value.retry_after == retry_after
    assert later.value.sent


def test_a_redirect_is_not_followed(access: AccessTo, namespace: Namespace, https_proxy: HttpsProxy) -> None:
    https_proxy.on("GET", "/configmaps", faults.Answer(status=302, headers={"Location": "http://169.254.169.254/"}))
    with pytest.raises(Refusal) as refused:
        talk(access(server=https_proxy.server), lambda api: api.request("GET", config_maps(namespace)))
    assert refused.value.status == 302


def test_a_token_that_was_replaced_is_read_again_after_a_401(
    access: AccessTo, namespace: Namespace, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("an-old-one")
    reached = access(token_file=token)
    with pytest.raises(PermanentError, match="401"):
        talk(reached, lambda api: api.request("GET", config_maps(namespace)))
    token.write_text("admin-token")
    assert "items" in talk(reached, lambda api: api.request("GET", config_maps(namespace)))


def test_no_more_is_under_way_than_there_are_connections(
    access: AccessTo, namespace: Namespace, proxy: TcpProxy
) -> None:
    async def body(api: KubeApi) -> None:
        async def create(number: int) -> None:
            await api.request("POST", config_maps(namespace), {"metadata": {"name": f"c{number}"}})

        await asyncio.gather(*(create(number) for number in range(30)))
        assert proxy.open_connections <= 3

    talk(access(server=proxy.server), body, connections=3)
    assert len(namespace.api.items(config_maps(namespace))) >= 30


def test_the_lines_of_a_watch_are_whole_however_they_arrive(access: AccessTo, namespace: Namespace) -> None:
    long = "x" * 700_000

    async def body(api: KubeApi) -> None:
        for name in ("a", "b"):
            await api.request("POST", config_maps(namespace), {"metadata": {"name": name}, "data": {"long": long}})
        query = {"watch": "true", "resourceVersion": "0", "timeoutSeconds": "1", "fieldSelector": "metadata.name!=x"}
        lines = [line async for line in api.lines(config_maps(namespace), query, quiet=10, total=20)]
        assert lines[0] == b""
        assert [len(line) > 700_000 for line in lines[1:] if b"kube-root-ca.crt" not in line] == [True, True]

    talk(access(), body)


def test_an_error_in_a_watch_is_called_as_elsewhere() -> None:
    gone = from_watch_error("WATCH /x", {"code": 410, "reason": "Expired", "message": "too old"})
    assert isinstance(gone, Expired)
    assert isinstance(from_watch_error("WATCH /x", {"message": "no code"}), TransientError)


def test_a_namespace_that_is_going_is_known_by_the_cause() -> None:
    body = b'{"reason":"Forbidden","message":"no","details":{"causes":[{"reason":"NamespaceTerminating"}]}}'
    refused = refusal_or_transient("POST /x", 403, body, {})
    assert isinstance(refused, Refusal)
    assert refused.namespace_is_going
