"""What the elector relies on, of the Lease in memory, of the one on an API server and of the one in a row alike.

And of the server by hand that a parent's release is tried against: the elector's client finds in it what it finds in the real one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from soloist.adapters.kube.bounded import BoundedClient
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.lease import LeaseClient
from soloist.adapters.kube.way import Way
from soloist.adapters.postgres.row_lease import RowLease
from soloist.domain.lease import Answer, Clash, Raw, parse
from soloist.domain.lease_bodies import held_body, new_lease, released_body, taken_body
from soloist.loops.election_ports import LeaseApi
from tests.fake_lease import FakeLease
from tests.shells.leases import LeaseServer

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
WAIT = 30.0


@pytest.fixture
def by_hand() -> Iterator[LeaseServer]:
    server = LeaseServer()
    server.lease = {}
    yield server
    server.close()


@pytest.fixture(params=["memory", "by hand", "row", pytest.param("real", marks=pytest.mark.cluster)])
def lease(request: pytest.FixtureRequest, tmp_path: Path, by_hand: LeaseServer) -> Iterator[tuple[LeaseApi, str, str]]:
    name = f"lease-{uuid.uuid4().hex[:8]}"
    if request.param == "by hand":
        way = Way(host=by_hand.url, authority="", credentials=lambda: f"Bearer {by_hand.token}")
        client = BoundedClient(Access(lambda: way))
        yield LeaseClient(client, namespace="ns", name="soloist"), "ns", "soloist"
        client.close()
        return
    if request.param == "memory":
        yield FakeLease(lambda: datetime.now(UTC)), "default", name
        return
    if request.param == "row":
        row = RowLease(request.getfixturevalue("queue_database").dsn(), namespace="default", name=name)
        yield row, "default", name
        row.close()
        return
    cluster: Any = request.getfixturevalue("control_plane")
    access = Access.found(str(cluster.kubeconfig(tmp_path / "kubeconfig")))
    yield LeaseClient(BoundedClient(access), namespace="default", name=name), "default", name


def claimed(raw: Raw, *, holder: str = "a_1_n", at: datetime = NOW, transitions: int = 0) -> Raw:
    body = held_body(raw, holder=holder, nonce="n", epoch=7, renew_time=at, lease=10, ends={}, pod=None)
    return taken_body(body, acquire_time=at, transitions=transitions)


def taken(lease: tuple[LeaseApi, str, str]) -> tuple[LeaseApi, Raw]:
    api, namespace, name = lease
    answer = api.create(claimed(new_lease(namespace, name)), timeout=WAIT)
    assert isinstance(answer, Answer)
    assert answer.lease is not None
    return api, answer.lease


def test_a_lease_that_is_not_there_is_read_as_absent_with_the_servers_time(lease: tuple[LeaseApi, str, str]) -> None:
    answer = lease[0].read(timeout=WAIT)
    assert answer.lease is None
    assert answer.server_time is not None
    assert abs(answer.server_time - datetime.now(UTC)) < timedelta(minutes=5)


def test_what_was_written_is_read_back_to_the_microsecond(lease: tuple[LeaseApi, str, str]) -> None:
    api, _ = taken(lease)
    read = api.read(timeout=WAIT).lease
    assert read is not None
    record = parse(read)
    assert (record.holder, record.duration, record.epoch, record.nonce) == ("a_1_n", 10, 7, "n")
    assert record.renew_time == record.acquire_time == NOW
    assert read["spec"]["renewTime"] == "2026-03-01T12:00:00.000000Z"


def test_a_second_create_clashes(lease: tuple[LeaseApi, str, str]) -> None:
    api, _ = taken(lease)
    assert api.create(claimed(new_lease(lease[1], lease[2]), holder="b_1_n"), timeout=WAIT) == Clash()


def test_of_two_writes_on_one_reading_one_lands(lease: tuple[LeaseApi, str, str]) -> None:
    api, raw = taken(lease)
    first = api.replace(claimed(raw, at=NOW + timedelta(seconds=1)), timeout=WAIT)
    assert isinstance(first, Answer)
    assert api.replace(claimed(raw, holder="b_1_n", transitions=1), timeout=WAIT) == Clash()
    read = api.read(timeout=WAIT).lease
    assert read is not None
    assert parse(read).holder == "a_1_n"


def test_a_write_on_a_lease_that_was_made_anew_clashes(lease: tuple[LeaseApi, str, str]) -> None:
    api, raw = taken(lease)
    other = {**raw, "metadata": {**raw["metadata"], "uid": str(uuid.uuid4())}}
    assert api.replace(other, timeout=WAIT) == Clash()


def test_a_write_on_a_lease_that_is_gone_clashes(
    lease: tuple[LeaseApi, str, str], by_hand: LeaseServer, request: pytest.FixtureRequest
) -> None:
    api, raw = taken(lease)
    if isinstance(api, FakeLease):
        api.lease = None
    elif by_hand.requests:
        by_hand.lease = {}
    elif isinstance(api, RowLease):
        request.getfixturevalue("queue_database").psql(f"DELETE FROM soloist.leases WHERE shard = '{api.shard}'")
    else:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{lease[1]}/leases/{lease[2]}"
        request.getfixturevalue("control_plane").api().delete(path)
    assert api.replace(claimed(raw), timeout=WAIT) == Clash()
    assert api.read(timeout=WAIT).lease is None


def test_a_release_is_accepted_and_read_as_one(lease: tuple[LeaseApi, str, str]) -> None:
    api, raw = taken(lease)
    assert isinstance(api.replace(released_body(raw, epoch=7, end=NOW), timeout=WAIT), Answer)
    read = api.read(timeout=WAIT).lease
    assert read is not None
    record = parse(read)
    assert record.released
    assert record.released_end == NOW


def test_what_others_keep_on_the_lease_stays(lease: tuple[LeaseApi, str, str]) -> None:
    api, raw = taken(lease)
    metadata = {**raw["metadata"], "labels": {"team": "x"}}
    metadata["annotations"] = {**metadata["annotations"], "example.org/note": "kept"}
    answer = api.replace({**raw, "metadata": metadata}, timeout=WAIT)
    assert isinstance(answer, Answer)
    assert answer.lease is not None
    assert isinstance(api.replace(claimed(answer.lease), timeout=WAIT), Answer)
    read = api.read(timeout=WAIT).lease
    assert read is not None
    assert read["metadata"]["labels"] == {"team": "x"}
    assert read["metadata"]["annotations"]["example.org/note"] == "kept"


def test_a_pod_that_is_not_there_is_none(lease: tuple[LeaseApi, str, str]) -> None:
    assert lease[0].read_pod("default", "no-such-pod", timeout=WAIT) is None
