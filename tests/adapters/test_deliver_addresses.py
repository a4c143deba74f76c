"""Where a row may send a request to: addresses that come from data, in every spelling that somebody may try."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from soloist.adapters.http.deliver import HttpDeliverer
from soloist.adapters.http.exchange import Exchange
from soloist.adapters.http.session import HttpLimits
from soloist.domain.addresses import AddressRules, parse_networks
from soloist.domain.claims import Done, Failed, Settled
from soloist.domain.delivery_request import Endpoint
from soloist.domain.public_addresses import rules_for_data
from soloist.domain.queue_spec import FixedUrl, HttpDelivery, UrlColumn
from tests.adapters.receivers import OK, Receiver, names, says
from tests.adapters.test_deliver import FIRST, LOOKUP, Bench, claim, found, spec

LITERALS = [
    "http://127.0.0.1/",
    "http://127.0.0.1:6379/",
    "https://127.0.0.1/",
    "http://127.1.2.3/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/iam/",
    "http://169.254.170.2/v2/credentials",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://192.0.0.1/",
    "http://198.18.0.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:ffff:a00:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::169.254.169.254]/",
    "http://[64:ff9b:1::8.8.8.8]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::]/",
    "http://[2001:0:808:808::80ff:fffe]/",
    "http://[fe80::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[100::1]/",
]
"""Addresses in a URL pass no resolver: it is the socket that refuses."""

OLD_SPELLINGS = [
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0x7f.0x0.0x0.0x1/",
    "http://0177.0.0.1/",
    "http://0177.0x0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://0x0/",
    "http://10.1/",
    "http://192.168.257/",
    "http://0xa9fea9fe/",
    "http://2852039166/",
    "http://169.254.43518/",
    "http://0251.0376.0251.0376/",
    "http://127.0.0.1./",
    "http://１２７.０.０.１/",
    "http://①②⑦.0.0.1/",
    "http://127。0。0。1/",
]
"""Read by the C library's own lookup, as a browser or curl would have it."""

TOLD = {
    "localhost": ["127.0.0.1", "::1"],
    "localhost.": ["127.0.0.1"],
    "LOCALHOST": ["127.0.0.1"],
    "kubernetes.default.svc": ["10.96.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "metadata.google.internal.": ["169.254.169.254"],
    "127.0.0.1.nip.io": ["127.0.0.1"],
    "spoofed.example": ["10.0.0.7"],
    "mapped.example": ["::ffff:10.0.0.7"],
    "nat64.example": ["64:ff9b::a00:7"],
    "6to4.example": ["2002:a00:7::1"],
    "mixed.example": ["192.168.0.1", "fd00::1", "fe80::1"],
    "xn--lcalhost-v3a.example": ["127.0.0.1"],
}
NAMES = [
    "http://localhost/",
    "http://localhost./",
    "http://LOCALHOST/",
    "http://kubernetes.default.svc/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://metadata.google.internal./",
    "http://127.0.0.1.nip.io/",
    "https://spoofed.example/",
    "http://mapped.example/",
    "http://nat64.example/",
    "http://6to4.example/",
    "http://mixed.example:8080/",
    "http://lócalhost.example/",
]
TRICKS = [
    "http://hooks.example@127.0.0.1/",
    "http://hooks.example:80@127.0.0.1/",
    "http://127.0.0.1@hooks.example/",
    "http://user:password@hooks.example/",
    "http://hooks.example\\@127.0.0.1/",
    "http://127.0.0.1\\.hooks.example/",
    "http://hooks.example /",
    "http://127.0.0.1\t/",
    "http://127.0.0.1\r\nHost: hooks.example/",
    "http:127.0.0.1/",
    "http:///127.0.0.1/",
    "//127.0.0.1/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "http://[::1/",
    "http://[fe80::1%25eth0]/",
    "http://127.0.0.1:port/",
]


async def given(url: str, lookup: Any) -> Settled:
    async with Bench(lookup=lookup, for_data=rules_for_data()).open() as bench:
        return await bench.deliverer(HttpDelivery(target=UrlColumn(column="url"))).deliver(claim(columns={"url": url}))


def refused(url: str, lookup: Any = socket.getaddrinfo) -> str:
    outcome = asyncio.run(given(url, lookup))
    assert isinstance(outcome, Failed), outcome
    assert outcome.retry_in is None, outcome.error
    return outcome.error


def test_the_table_is_long_enough_to_mean_something() -> None:
    assert len(LITERALS) + len(OLD_SPELLINGS) + len(NAMES) + len(TRICKS) >= 60


@pytest.mark.parametrize("url", LITERALS)
def test_an_address_that_is_not_public_is_refused_for_good(url: str) -> None:
    assert "refused by default" in refused(url, names())


@pytest.mark.parametrize("url", OLD_SPELLINGS)
def test_an_address_in_an_odd_spelling_is_refused_for_good(url: str) -> None:
    refused(url)


@pytest.mark.parametrize("url", NAMES)
def test_a_name_that_leads_inside_is_refused_for_good(url: str) -> None:
    assert "refused by default" in refused(url, names(**TOLD))


@pytest.mark.parametrize("url", TRICKS)
def test_a_url_that_two_readers_may_read_differently_is_refused_for_good(url: str) -> None:
    refused(url, names())


@pytest.mark.parametrize("url", ["http://0x7f.1./", "http://%31%32%37.0.0.1/", "http://127.0.0.1%2f.example/"])
def test_a_spelling_that_nobody_can_read_leads_nowhere(url: str) -> None:
    outcome = asyncio.run(given(url, socket.getaddrinfo))
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith(("Nothing was sent to ", "The address "))


def test_no_refusal_shows_more_of_the_address_than_where_it_leads() -> None:
    error = refused("http://10.0.0.1/hooks/T0/B0/secret-token?key=hush", names())
    assert error == (
        "Nothing was sent to http://10.0.0.1:80: 10.0.0.1 is a private network and refused by default; "
        "an operator may list 10.0.0.0/8 under the allowed networks."
    )


def test_an_endpoint_that_was_looked_up_is_data_as_well() -> None:
    async def attempt() -> None:
        async with Receiver(says(OK)) as receiver, Bench(for_data=rules_for_data()).open() as bench:
            find = found(Endpoint(url=receiver.url))
            outcome = await bench.deliverer(HttpDelivery(target=LOOKUP), find=find).deliver(claim())
            assert isinstance(outcome, Failed)
            assert outcome.retry_in is None
            assert receiver.connections == 0

    asyncio.run(attempt())


def test_the_manifests_own_address_may_be_inside_but_not_link_local_and_its_rows_are_not_given_up_at_once() -> None:
    async def attempt() -> None:
        async with Receiver(says(OK)) as receiver, Bench(for_data=rules_for_data()).open() as bench:
            inside = bench.deliverer(HttpDelivery(target=FixedUrl(url=receiver.url)))
            assert isinstance(await inside.deliver(claim()), Done)
            metadata = bench.deliverer(HttpDelivery(target=FixedUrl(url="http://169.254.169.254/latest/")))
            outcome = await metadata.deliver(claim())
            assert isinstance(outcome, Failed)
            assert outcome.retry_in == FIRST
            assert "169.254.169.254 is a cloud metadata service" in outcome.error

    asyncio.run(attempt())


def test_a_queue_with_data_and_a_queue_with_a_fixed_address_share_no_connection() -> None:
    """What the one may dial is open in its pool; the other's request must not find it there."""

    async def attempt() -> None:
        async with Receiver(says(OK)) as receiver, Bench(for_data=rules_for_data()).open() as bench:
            inside = bench.deliverer(HttpDelivery(target=FixedUrl(url=receiver.url)))
            assert isinstance(await inside.deliver(claim()), Done)
            by_url = bench.deliverer(HttpDelivery(target=UrlColumn(column="url")))
            outcome = await by_url.deliver(claim(columns={"url": receiver.url}))
            assert isinstance(outcome, Failed)
            assert len(receiver.requests) == 1

    asyncio.run(attempt())


def rebinding(answers: list[list[str]]) -> Any:
    """A name server that says something else each time; the last for ever."""
    asked: list[str] = []

    def lookup(host: str, port: int, **_: object) -> list[Any]:
        asked.append(host)
        addresses = answers[min(len(asked), len(answers)) - 1]
        return [
            (socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))
            for ip in addresses
        ]

    lookup.asked = asked  # type: ignore[attr-defined]
    return lookup


def only_127_0_0_2(lookup: Any) -> Exchange:
    """Of loopback one address is as good as public; names are asked for each request, and no connection is kept."""
    rules = rules_for_data(allowed=parse_networks("test", "127.0.0.2/32"))
    return Exchange(rules, HttpLimits(lookup_ttl=0), lookup=lookup)


def test_a_name_is_asked_for_once_and_what_it_said_then_is_dialled() -> None:
    """The check and the dial see one answer: a name server that would say another to a second question is not asked one."""

    async def attempt() -> None:
        lookup = rebinding([["127.0.0.2"], ["127.0.0.1"]])
        exchange = only_127_0_0_2(lookup)
        async with Bench().open() as bench, Listening("127.0.0.2") as good, Listening("127.0.0.1", good.port) as bad:
            deliverer = HttpDeliverer(
                spec(HttpDelivery(target=UrlColumn(column="url"))),
                namespace="shop",
                source="t",
                exchange=exchange,
                world=bench.world,
            )
            row = claim(columns={"url": f"http://rebind.example:{good.port}/"})
            assert isinstance(await deliverer.deliver(row), Done)
            assert (len(lookup.asked), good.connections, bad.connections) == (1, 1, 0)
            second = await deliverer.deliver(row)
            assert isinstance(second, Failed)
            assert second.retry_in is None
            assert (len(lookup.asked), good.connections, bad.connections) == (2, 1, 0)
        await exchange.close()

    asyncio.run(attempt())


def test_of_a_name_with_good_and_bad_addresses_only_the_good_ones_are_dialled() -> None:
    async def attempt() -> None:
        lookup = rebinding([["127.0.0.1", "::1", "10.0.0.1", "127.0.0.2"]])
        exchange = only_127_0_0_2(lookup)
        async with Bench().open() as bench, Listening("127.0.0.2") as good, Listening("127.0.0.1", good.port) as bad:
            deliverer = HttpDeliverer(
                spec(HttpDelivery(target=UrlColumn(column="url"))),
                namespace="shop",
                source="t",
                exchange=exchange,
                world=bench.world,
            )
            row = claim(columns={"url": f"http://mixed.example:{good.port}/"})
            assert isinstance(await deliverer.deliver(row), Done)
            assert (good.connections, bad.connections) == (1, 0)
            assert good.hosts == [f"mixed.example:{good.port}"]
        await exchange.close()

    asyncio.run(attempt())


def test_an_operator_opens_a_network_of_its_own_for_data() -> None:
    async def attempt() -> None:
        opened = rules_for_data(allowed=parse_networks("test", "127.0.0.0/8"))
        async with Receiver(says(OK)) as receiver, Bench(for_data=opened).open() as bench:
            by_url = bench.deliverer(HttpDelivery(target=UrlColumn(column="url")))
            assert isinstance(await by_url.deliver(claim(columns={"url": receiver.url})), Done)

    asyncio.run(attempt())


def test_data_may_open_no_more_than_a_manifest() -> None:
    assert AddressRules().defaults[0] in rules_for_data().defaults


class Listening:
    """A server on one address of loopback."""

    def __init__(self, address: str, port: int = 0) -> None:
        self._address, self.port = address, port
        self.connections = 0
        self.hosts: list[str] = []

    async def __aenter__(self) -> Listening:
        self._server = await asyncio.start_server(self._serve, self._address, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.hosts += [line[6:] for line in head.split("\r\n") if line.lower().startswith("host: ")]
        writer.write(OK)
        await writer.drain()
        writer.close()
