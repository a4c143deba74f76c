"""What the elector's clients, over HTTP and over PostgreSQL, do with a server that is not one; and with a token that was replaced."""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from soloist.adapters.kube.bounded import BoundedClient
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.lease import LeaseClient
from soloist.adapters.postgres.row_lease import RowLease
from soloist.domain.errors import TransientError
from soloist.loops.election_ports import LeaseApi
from tests.cluster.control_plane import ControlPlane

Serve = Callable[[socket.socket], None]


@contextmanager
def a_server(serve: Serve) -> Iterator[str]:
    """Plain HTTP on a free port; ``serve`` gets each connection in a thread of its own."""
    listening = socket.create_server(("127.0.0.1", 0))

    def one(connection: socket.socket) -> None:
        with connection:
            serve(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def client(server: str, directory: Path) -> LeaseClient:
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }  # fmt: skip
    path = directory / "kubeconfig"
    path.write_text(json.dumps(config))
    return LeaseClient(BoundedClient(Access.found(str(path))), namespace="x", name="l")


def over_postgres(server: str, _directory: Path) -> RowLease:
    return RowLease(server.replace("http:", "postgresql:") + "/x?sslmode=disable", namespace="x", name="l")


Client = Callable[[str, Path], LeaseApi]
CLIENTS = pytest.mark.parametrize("client_of", [client, over_postgres], ids=["HTTP", "PostgreSQL"])


def dripping(head: bytes) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(head)
        while True:
            try:
                connection.sendall(b"X")
            except OSError:
                return
            time.sleep(0.05)

    return serve


@pytest.mark.parametrize(
    ("client_of", "head"),
    [
        pytest.param(client, b"", id="in the head"),
        pytest.param(client, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", id="in the body"),
        pytest.param(over_postgres, b"R\x00\x00\x07\xd0\x00\x00\x00\x0a", id="in the greeting of PostgreSQL"),
    ],
)
def test_a_server_that_sends_a_byte_now_and_then_holds_nobody_up(
    client_of: Client, head: bytes, tmp_path: Path
) -> None:
    with a_server(dripping(head)) as server:
        lease = client_of(server, tmp_path)
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(TransientError, match=r"no answer within 0\.5 s"):
                lease.read(timeout=0.5)
            assert time.monotonic() - began < 20, "it would go on for ever"
        ends = time.monotonic() + 60
        while any(thread.name == "lease-request" for thread in threading.enumerate()):
            assert time.monotonic() < ends, "a request that was given up goes on"
            time.sleep(0.02)


def test_a_write_that_got_no_answer_was_sent_once_only(tmp_path: Path) -> None:
    asked: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        asked.append(connection.recv(65536))

    with a_server(serve) as server, pytest.raises(TransientError) as caught:
        client(server, tmp_path).replace({"metadata": {}}, timeout=20)
    assert caught.value.sent
    assert len(asked) == 1


@CLIENTS
def test_a_refused_connection_has_certainly_sent_nothing(client_of: Client, tmp_path: Path) -> None:
    with a_server(lambda connection: None) as server:
        gone = server
    with pytest.raises(TransientError) as caught:
        client_of(gone, tmp_path).replace({"metadata": {}}, timeout=20)
    assert not caught.value.sent


def answering(status: str, body: bytes) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body))

    return serve


OTHER = {"kind": "Lease", "metadata": {"name": "other", "uid": "u", "resourceVersion": "1"}}
NOWHERE = {"kind": "Status", "reason": "NotFound", "details": {}}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("200 OK", b""),
        ("200 OK", b"<html>"),
        ("200 OK", b"[]"),
        ("200 OK", b"{}"),
        ("200 OK", json.dumps(OTHER).encode()),
        ("200 OK", b'{"kind": "Lease", "metadata": 3}'),
        ("204 No Content", b""),
        ("302 Found", b""),
        ("404 Not Found", b"<html>"),
        ("429 Too Many Requests", b"slow down"),
        ("502 Bad Gateway", b"<html>"),
    ],
)
def test_what_is_not_the_api_servers_word_is_no_answer(status: str, body: bytes, tmp_path: Path) -> None:
    with a_server(answering(status, body)) as server, pytest.raises(TransientError):
        client(server, tmp_path).read(timeout=20)


@pytest.mark.cluster
def test_a_token_that_was_replaced_is_read_again_after_a_401(control_plane: ControlPlane, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("expired")
    config = control_plane.kubeconfig(tmp_path / "kubeconfig", token_file=token)
    access = Access.found(str(config))
    lease = LeaseClient(BoundedClient(access), namespace="default", name=f"lease-{uuid.uuid4().hex[:8]}")
    with pytest.raises(TransientError) as caught:
        lease.read(timeout=30)
    assert not caught.value.sent
    token.write_text(control_plane.tokens["admin"] + "\n")
    assert lease.read(timeout=30).lease is None
