"""Each fault of the TCP proxy does what its name says, to a real API server's connections."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.children import until
from tests.cluster.client import ApiClient
from tests.cluster.fixtures import Namespace
from tests.cluster.proxy import TcpProxy

pytestmark = pytest.mark.cluster
PATIENCE, BRIEFLY = 30.0, 0.7
"""Seconds: where an answer comes, however busy the machine is, and where none does."""


class Through:
    """Requests through the proxy, each on a new connection, and one connection that stays open."""

    def __init__(self, namespace: Namespace, proxy: TcpProxy) -> None:
        self.namespace, self.proxy = namespace, proxy
        self.token = namespace.cluster.tokens["admin"]

    def api(self, timeout: float = PATIENCE) -> ApiClient:
        return ApiClient(port=self.proxy.port, ca=self.namespace.cluster.ca, token=self.token, timeout=timeout)

    def create(self, timeout: float = PATIENCE) -> str:
        """Tries to create a Secret through the proxy; raises what the client met, with the Secret's name as its note."""
        name = f"s-{uuid.uuid4().hex[:8]}"
        try:
            self.api(timeout).create(self.namespace.path("secrets"), {"metadata": {"name": name}})
        except OSError as met:
            met.add_note(name)
            raise
        return name

    def exists(self, name: str) -> bool:
        return self.namespace.api.find(self.namespace.path("secrets", name)) is not None

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.namespace.cluster.ca))
        connection = http.client.HTTPSConnection("127.0.0.1", self.proxy.port, context=context, timeout=PATIENCE)
        connection.connect()
        return connection

    def send(self, connection: http.client.HTTPSConnection) -> str:
        """Asks for a Secret over that connection; its name."""
        name = f"s-{uuid.uuid4().hex[:8]}"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection.request("POST", self.namespace.path("secrets"), f'{{"metadata": {{"name": "{name}"}}}}', headers)
        return name

    @contextmanager
    def open_connection(self) -> Iterator[Callable[..., Any]]:
        """Gives what asks over it, with seconds to wait for the answer."""
        connection = self.connect()

        def ask(timeout: float = PATIENCE) -> bytes:
            connection.sock.settimeout(timeout)
            connection.request("GET", "/version", headers={"Authorization": f"Bearer {self.token}"})
            return connection.getresponse().read()

        assert b"gitVersion" in ask()
        yield ask
        connection.close()


@pytest.fixture
def through(namespace: Namespace, proxy: TcpProxy) -> Through:
    return Through(namespace, proxy)


def test_it_forwards(through: Through) -> None:
    assert through.exists(through.create())


def test_refuse_turns_new_connections_away_and_leaves_open_ones(through: Through) -> None:
    with through.open_connection() as ask:
        through.proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            through.create()
        assert b"gitVersion" in ask()
        assert through.proxy.cut() == 1
        with pytest.raises(OSError):
            ask()
    through.proxy.forward()
    assert through.exists(through.create())


def test_reset_ends_new_and_open_connections_once_the_client_speaks(through: Through) -> None:
    with through.open_connection() as ask:
        through.proxy.reset()
        with pytest.raises(ConnectionResetError):
            ask()
    with pytest.raises(ConnectionResetError):
        through.create()


def test_a_black_hole_accepts_and_never_answers(through: Through) -> None:
    with through.open_connection() as ask:
        through.proxy.blackhole()
        with pytest.raises(TimeoutError):
            ask(BRIEFLY)
    with pytest.raises(TimeoutError) as met:
        through.create(BRIEFLY)
    assert not through.exists(met.value.__notes__[0])


def test_a_held_request_arrives_late_although_its_sender_gave_up(through: Through) -> None:
    """The TLS handshake needs both directions, so the request is sent on a connection that was open before."""
    connection = through.connect()
    through.proxy.hold_requests()
    name = through.send(connection)
    connection.sock.settimeout(BRIEFLY)
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()
    assert not through.exists(name)
    through.proxy.forward()
    until(lambda: through.exists(name), what="the late request arrived", timeout=PATIENCE)


def test_dropped_bytes_never_arrive_and_their_connection_is_reset_when_the_wire_heals(through: Through) -> None:
    with through.open_connection() as ask:
        through.proxy.drop()
        with pytest.raises(TimeoutError):
            ask(BRIEFLY)
        through.proxy.forward()
        until(lambda: through.proxy.open_connections == 0, what="the connection was reset", timeout=PATIENCE)
    assert through.exists(through.create())


@pytest.mark.parametrize("mode", [TcpProxy.hold_replies, TcpProxy.drop_replies])
def test_without_replies_a_request_takes_effect_and_nobody_hears_of_it(
    through: Through, mode: Callable[[TcpProxy], None]
) -> None:
    connection = through.connect()
    mode(through.proxy)
    name = through.send(connection)
    until(lambda: through.exists(name), what="the request takes effect", timeout=PATIENCE)
    connection.sock.settimeout(BRIEFLY)
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()


def test_delay_makes_each_direction_late(through: Through) -> None:
    with through.open_connection() as ask:
        through.proxy.delay(0.3)
        began = time.monotonic()
        ask()
        assert time.monotonic() - began >= 0.6


def test_a_connection_is_reset_after_so_many_bytes_of_reply(through: Through) -> None:
    through.proxy.close_after(2_000)
    with pytest.raises(OSError):
        through.api().get("/openapi/v2")


def test_modes_may_be_switched_from_another_thread_while_a_client_waits(through: Through) -> None:
    with through.open_connection() as ask:
        through.proxy.blackhole()
        healer = threading.Timer(0.3, through.proxy.forward)
        healer.start()
        assert b"gitVersion" in ask()
        healer.join()
