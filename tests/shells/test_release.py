"""The parent gives back the Lease of a child that it saw dead, and no other."""

import json
import os
import signal
import ssl
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from soloist.adapters.postgres.row_lease import RowLease
from soloist.domain.lease import parse
from soloist.domain.lease_bodies import held_body, new_lease
from tests.postgres.server import Database
from tests.shells.conftest import Start
from tests.shells.leases import LeaseServer
from tests.shells.parents import Parent, gone, until

CONNECTION = '{{"server": "{server}", "token": "open sesame"}}'
HOLDS = """
from soloist.domain.term import Term
now = time.clock_gettime(time.CLOCK_BOOTTIME)
term = Term(identity="pod/1", epoch=5, lease_namespace="ns", lease_name="soloist", lease_uid="lease-uid",
            started_boot=now, trusted_until=now + 9, renew_time=datetime(2031, 1, 1, tzinfo=UTC), renew_sent_boot=now)
beat = Beat.inherited()
beat.write(term, nonce="n1", connection={{"server": "{server}", "token": "open sesame"}})
say("holds", now)
"""
WAITS = "while True: signal.pause()\n"


def outcome(parent: Parent, message: str) -> dict[str, object]:
    def said() -> list[dict[str, object]]:
        return [line for line in map(json.loads, parent.lines("{")) if line["message"] == message]

    return until(said, message)[0]


def kill_child(parent: Parent) -> None:
    parent.wait_for("holds")
    os.kill(parent.child(), signal.SIGKILL)


def test_the_lease_is_released_once_the_child_is_dead_and_says_when_the_term_ended(
    start: Start, server: LeaseServer
) -> None:
    parent = start(HOLDS.format(server=server.url) + WAITS)
    child = parent.child()
    alive_at_requests: list[bool] = []
    server.on_request = lambda _method: alive_at_requests.append(not gone(child))
    kill_child(parent)
    assert parent.ended() == 137
    assert alive_at_requests == [False, False]
    spec, metadata = server.lease["spec"], server.lease["metadata"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
    assert (spec["leaseTransitions"], metadata["labels"]) == (3, {"kept": "yes"})
    assert metadata["annotations"]["soloist.dev/epoch"] == "5"
    stamp = json.loads(metadata["annotations"]["soloist.dev/released"])
    sent = float(parent.lines("holds")[0].split()[1])
    lived = datetime.fromisoformat(stamp["end"]) - datetime.fromisoformat("2031-01-01T00:00:00Z")
    assert stamp["epoch"] == 5
    assert timedelta(0) < lived < timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME) - sent)


@pytest.mark.parametrize(
    ("whose", "change"),
    [
        ("another holder's", {"holder": "pod/2"}),
        ("another process's under the same name", {"nonce": "n2"}),
        ("another object under the same name", {"uid": "other"}),
        ("nobody's", {"holder": ""}),
    ],
)
def test_a_lease_that_names_another_is_left_alone(
    start: Start, server: LeaseServer, whose: str, change: dict[str, str]
) -> None:
    metadata, spec = server.lease["metadata"], server.lease["spec"]
    metadata["uid"] = change.get("uid", metadata["uid"])
    metadata["annotations"]["soloist.dev/nonce"] = change.get("nonce", "n1")
    spec["holderIdentity"] = change.get("holder", "pod/1")
    parent = start(HOLDS.format(server=server.url) + WAITS)
    kill_child(parent)
    parent.ended()
    assert server.requests == ["GET"], whose
    assert outcome(parent, "lease of the dead child")["outcome"] == "not its own any more"


@pytest.mark.parametrize("child", [WAITS, HOLDS + "beat.clear('ns', 'soloist')\nsay('cleared')\n" + WAITS])
def test_a_child_that_holds_nothing_costs_no_request(start: Start, server: LeaseServer, child: str) -> None:
    parent = start(child.format(server=server.url) if "{" in child else child)
    parent.wait_for("cleared" if "clear" in child else "started")
    os.kill(parent.child(), signal.SIGKILL)
    parent.ended()
    assert server.requests == []


def test_a_renewal_that_arrives_after_its_senders_death_is_read_again_and_its_time_counts(
    start: Start, server: LeaseServer
) -> None:
    def late_renewal(method: str) -> None:
        if method == "PUT" and server.requests.count("PUT") == 1:
            renewed = json.loads(json.dumps(server.lease))
            renewed["spec"]["renewTime"] = "2031-01-01T00:10:00.000000Z"
            server.write(renewed)

    server.on_request = late_renewal
    parent = start(HOLDS.format(server=server.url) + WAITS)
    kill_child(parent)
    parent.ended()
    assert server.requests == ["GET", "PUT", "GET", "PUT"]
    assert server.lease["spec"]["holderIdentity"] == ""
    end = json.loads(server.lease["metadata"]["annotations"]["soloist.dev/released"])["end"]
    assert end > "2031-01-01T00:10:00"


@pytest.mark.slow
def test_a_server_that_never_answers_holds_up_neither_the_next_child_nor_the_end_for_long(
    start: Start, server: LeaseServer
) -> None:
    never = threading.Event()
    server.on_request = lambda _method: 500 if never.wait(300) else None
    parent = start(HOLDS.format(server=server.url) + "arm_dead_man(0.05)\n" + WAITS)
    parent.child(2)
    parent.wait_for("holds", 3)
    parent.send(signal.SIGTERM)
    parent.ended()
    never.set()
    assert "timed out" in str(outcome(parent, "lease not released: it runs out by itself")["outcome"])


def in_a_row(database: Database, *, nonce: str = "n1") -> RowLease:
    """Held by the child of ``HOLDS`` where the nonce is its own."""
    lease = RowLease(database.dsn(), namespace="ns", name="soloist")
    body = held_body(
        new_lease("ns", "soloist"), holder="pod/1", nonce=nonce, epoch=5, renew_time=datetime(2031, 1, 1, tzinfo=UTC),
        lease=10, ends={}, pod=None,
    )  # fmt: skip
    lease.create(body, timeout=30)
    return lease


def holds_a_row(lease: RowLease) -> str:
    known = lease.read(timeout=30).lease
    assert known is not None
    facts = HOLDS.replace(CONNECTION, json.dumps(dict(lease.facts)))
    return facts.replace("lease-uid", known["metadata"]["uid"]) + WAITS


def test_a_lease_in_a_row_is_released_too(start: Start, queue_database: Database) -> None:
    lease = in_a_row(queue_database)
    parent = start(holds_a_row(lease))
    kill_child(parent)
    assert parent.ended() == 137
    assert outcome(parent, "lease of the dead child")["outcome"] == "released"
    left = lease.read(timeout=30).lease
    lease.close()
    assert left is not None
    assert parse(left).released


def test_a_row_that_names_another_is_left_alone(start: Start, queue_database: Database) -> None:
    lease = in_a_row(queue_database, nonce="n2")
    before = lease.read(timeout=30).lease
    parent = start(holds_a_row(lease))
    kill_child(parent)
    parent.ended()
    assert outcome(parent, "lease of the dead child")["outcome"] == "not its own any more"
    assert lease.read(timeout=30).lease == before
    lease.close()


def test_a_database_that_is_gone_is_said_and_holds_up_nobody(start: Start, queue_database: Database) -> None:
    lease = in_a_row(queue_database)
    text = holds_a_row(lease).replace(f"port={queue_database.server.port}", "port=1").replace(
        f":{queue_database.server.port}", ":1"
    )  # fmt: skip
    lease.close()
    parent = start(text)
    kill_child(parent)
    assert parent.ended() == 137
    assert "cannot be reached" in str(outcome(parent, "lease not released: it runs out by itself")["outcome"])


@pytest.fixture
def certificate(server: LeaseServer, tmp_path: Path) -> Path:
    """The server speaks TLS; this is its certificate, which is its own authority."""
    key, certificate = tmp_path / "key", tmp_path / "crt"
    subject = ["-subj", "/CN=api", "-addext", "subjectAltName=DNS:api.test"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *curve, *subject, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    return certificate


def holds_with(server: LeaseServer, **connection: str) -> str:
    known = {"server": server.url.replace("http", "https"), **connection}
    return HOLDS.replace(CONNECTION, json.dumps(known))


def test_over_tls_the_server_is_verified_and_the_token_file_is_read_anew(
    start: Start, server: LeaseServer, certificate: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("expired\n")

    def rotate(_method: str) -> None:
        if len(server.requests) == 2:
            token.write_text("open sesame\n")

    server.on_request = rotate
    parent = start(holds_with(server, caFile=str(certificate), tokenFile=str(token), tlsServerName="api.test") + WAITS)
    kill_child(parent)
    parent.ended()
    assert outcome(parent, "lease of the dead child")["outcome"] == "released"
    assert "open sesame" not in "".join(parent._lines)


def test_a_client_certificate_is_taken_from_memory(start: Start, server: LeaseServer, certificate: Path) -> None:
    pem, key = certificate.read_text(), certificate.with_name("key").read_text()
    assert isinstance(server.http.socket, ssl.SSLSocket)
    server.http.socket.context.load_verify_locations(certificate)
    server.http.socket.context.verify_mode = ssl.CERT_REQUIRED
    known = {"caData": pem, "tlsServerName": "api.test", "certData": pem, "keyData": key, "token": "open sesame"}
    parent = start(holds_with(server, **known) + WAITS)
    kill_child(parent)
    parent.ended()
    assert server.lease["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("doubt", ["another name", "another authority"])
def test_a_server_that_is_not_who_it_should_be_gets_no_token(
    start: Start, server: LeaseServer, certificate: Path, doubt: str
) -> None:
    known = {"caFile": str(certificate)} if doubt == "another name" else {"tlsServerName": "api.test"}
    parent = start(holds_with(server, token="open sesame", **known) + WAITS)
    kill_child(parent)
    parent.ended()
    assert server.requests == []
    said = outcome(parent, "lease not released: it runs out by itself")["outcome"]
    assert "not who it should be" in str(said)
