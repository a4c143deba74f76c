"""Each fault of the HTTPS proxy befalls the request it was meant for, and that one only."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import faults
from tests.cluster.children import until
from tests.cluster.client import ApiClient, ApiError
from tests.cluster.fixtures import Namespace
from tests.cluster.https_proxy import HttpsProxy

pytestmark = pytest.mark.cluster
PATIENCE = 30.0


class Through:
    def __init__(self, namespace: Namespace, proxy: HttpsProxy) -> None:
        self.namespace, self.proxy = namespace, proxy
        self.secrets = namespace.path("secrets")

    def api(self, user: str = "admin", timeout: float = PATIENCE) -> ApiClient:
        cluster = self.namespace.cluster
        return ApiClient(port=self.proxy.port, ca=cluster.ca, token=cluster.tokens[user], timeout=timeout)

    def create(self, name: str, timeout: float = PATIENCE) -> Any:
        return self.api(timeout=timeout).create(self.secrets, {"metadata": {"name": name}})

    def exists(self, name: str) -> bool:
        return self.namespace.api.find(f"{self.secrets}/{name}") is not None


@pytest.fixture
def through(namespace: Namespace, https_proxy: HttpsProxy) -> Through:
    return Through(namespace, https_proxy)


def test_it_forwards_as_the_user_who_asked(through: Through) -> None:
    through.create("mine")
    with pytest.raises(ApiError) as refused:
        through.api("nobody").get(through.secrets)
    assert (through.exists("mine"), refused.value.status) == (True, 403)


def test_kubectl_works_through_it(through: Through, tmp_path: Path) -> None:
    config = through.namespace.cluster.kubeconfig(tmp_path / "config", server=through.proxy.server)
    assert "kube-system" in through.namespace.kubectl("--kubeconfig", config, "get", "namespaces")


def test_an_answer_in_the_servers_place_is_chosen_by_method_path_and_body(through: Through) -> None:
    wanted = {"metadata": {"name": "chosen"}}
    rule = through.proxy.on("POST", "/secrets$", faults.CONFLICT, when=lambda seen: seen.json() == wanted, times=1)
    through.create("other")
    with pytest.raises(ApiError) as refused:
        through.create("chosen")
    assert (refused.value.status, refused.value.reason, len(rule.caught)) == (409, "Conflict", 1)
    through.create("chosen")
    assert through.exists("chosen")


@pytest.mark.parametrize(
    ("answer", "status", "begins"),
    [
        pytest.param(faults.UNAVAILABLE, 503, b"{", id="503"),
        pytest.param(faults.TOO_MANY, 429, b"{", id="429"),
        pytest.param(faults.BAD_GATEWAY, 502, b"<html>", id="html-502"),
        pytest.param(faults.INTERNAL, 500, b"{", id="500"),
        pytest.param(faults.UNAUTHORIZED, 401, b"{", id="401"),
        pytest.param(faults.FORBIDDEN, 403, b"{", id="403"),
        pytest.param(faults.EXPIRED, 410, b"{", id="410"),
        pytest.param(faults.EMPTY, 200, b"", id="empty-200"),
    ],
)
def test_answers_come_as_they_are_written(through: Through, answer: faults.Answer, status: int, begins: bytes) -> None:
    through.proxy.on("*", "/secrets", answer)
    said, body = through.api().raw("GET", through.secrets)
    assert (said, body[: len(begins) or None]) == (status, begins)


def test_a_held_request_takes_effect_when_it_is_released_although_its_sender_gave_up(through: Through) -> None:
    rule = through.proxy.on("POST", "/secrets$", faults.Hold(), times=1)
    with pytest.raises(TimeoutError):
        through.create("late", timeout=3)
    assert rule.wait().json()["metadata"]["name"] == "late"
    assert not through.exists("late")
    rule.release()
    until(lambda: through.exists("late"), what="the late request took effect", timeout=PATIENCE)


def test_a_dropped_reply_is_a_reset_after_the_effect(through: Through) -> None:
    through.proxy.on("POST", "/secrets$", faults.DropReply(), times=1)
    with pytest.raises(ConnectionError):
        through.create("unheard")
    assert through.exists("unheard")


def test_a_held_reply_comes_when_it_is_released(through: Through) -> None:
    rule = through.proxy.on("POST", "/secrets$", faults.HoldReply(), times=1)

    def let_go() -> None:
        rule.wait()
        until(lambda: through.exists("told"), what="the request took effect", timeout=PATIENCE)
        rule.release()

    letting_go = threading.Thread(target=let_go)
    letting_go.start()
    assert through.create("told")["metadata"]["name"] == "told"
    letting_go.join()


def test_a_delayed_reply_is_late(through: Through) -> None:
    through.proxy.on("GET", "/secrets", faults.DelayReply(0.4))
    began = time.monotonic()
    through.api().get(through.secrets)
    assert time.monotonic() - began >= 0.4


def test_a_truncated_reply_ends_in_its_middle(through: Through) -> None:
    through.proxy.on("GET", "/secrets", faults.Truncate())
    with pytest.raises(ConnectionError, match="IncompleteRead"):
        through.api().get(through.secrets)


class Watch:
    """The names that a watch through the proxy brings, as they come."""

    def __init__(self, through: Through) -> None:
        context = ssl.create_default_context(cafile=str(through.namespace.cluster.ca))
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", through.proxy.port, context=context, timeout=PATIENCE
        )
        token = through.namespace.cluster.tokens["admin"]
        self._connection.request("GET", f"{through.secrets}?watch=true", headers={"Authorization": f"Bearer {token}"})
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()

    def next(self, timeout: float = PATIENCE) -> str:
        self._socket.settimeout(timeout)
        event = json.loads(self._answer.readline())
        return str(event["object"].get("reason") or event["object"]["metadata"]["name"])


def test_a_watch_streams(through: Through) -> None:
    names = Watch(through)
    through.create("first")
    assert names.next() == "first"
    through.create("second")
    assert names.next() == "second"


def test_a_frozen_watch_stays_open_and_brings_nothing_until_it_is_released(through: Through) -> None:
    names = Watch(through)
    through.create("before")
    assert names.next() == "before"
    rule = through.proxy.on("GET", "watch=true", faults.Freeze())
    through.create("meanwhile")
    with pytest.raises(TimeoutError):
        names.next(1)
    rule.release()
    names = Watch(through)
    assert {names.next(), names.next()} == {"before", "meanwhile"}


def test_a_watch_may_be_told_that_its_version_is_gone(through: Through) -> None:
    through.proxy.on("GET", "watch=true", faults.GONE_IN_WATCH, times=1)
    assert Watch(through).next() == "Expired"


def test_a_test_with_a_loop_of_its_own_is_not_in_its_way(through: Through) -> None:
    async def ask() -> Any:
        return await asyncio.to_thread(through.create, "from-a-loop")

    assert asyncio.run(ask())["metadata"]["name"] == "from-a-loop"
