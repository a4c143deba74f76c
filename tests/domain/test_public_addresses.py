"""Which addresses a row of a table may name."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soloist.domain.addresses import AddressRules, faces, parse_networks
from soloist.domain.public_addresses import CLOSED_TO_DATA, rules_for_data

RULES = rules_for_data()

CLOSED = {
    "private": ["10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.255.255"],
    "loopback": ["127.0.0.1", "127.1.2.3", "127.255.255.254"],
    "link-local": ["169.254.0.1", "169.254.255.254", "fe80::1", "fe80::1%eth0", "febf::1"],
    "cloud metadata": [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    ],
    "CGNAT": ["100.64.0.1", "100.127.255.254"],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"],
    "reserved or set aside": [
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.19.255.254",
        "198.51.100.1",
        "203.0.113.1",
        "240.0.0.1",
        "255.255.255.255",
    ],
    "IPv6 that is not public": [
        "::1",
        "::2",
        "fc00::1",
        "fd12:3456::1",
        "fec0::1",
        "100::1",
        "2001:db8::1",
        "3fff::1",
        "2001::1",
        "2001:10::1",
        "2001:20::1",
        "5f00::1",
        "4000::1",
        "64:ff9b:1::808:808",
    ],
    "IPv4 in IPv6's clothes": [
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:7f00:1",
        "::ffff:192.168.1.1",
        "::127.0.0.1",
        "::ffff:0:10.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::100.64.0.1",
        "2002:7f00:1::1",
        "2002:a00:1::1",
        "2002:c0a8:101::1",
        "2a00::5efe:10.0.0.1",
        "2001:0:808:808::f5ff:fffe",
    ],
}
OPEN = [
    "8.8.8.8",
    "1.1.1.1",
    "100.63.255.255",
    "100.128.0.1",
    "126.255.255.255",
    "128.0.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.1",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "2001:200::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
]


@pytest.mark.parametrize("text", [text for texts in CLOSED.values() for text in texts])
def test_what_is_not_the_public_internet_is_closed_to_data(text: str) -> None:
    assert RULES.refusal(ip_address(text)) is not None


@pytest.mark.parametrize("text", OPEN)
def test_the_public_internet_is_open(text: str) -> None:
    assert RULES.refusal(ip_address(text)) is None


def test_a_refusal_says_what_the_address_is() -> None:
    assert RULES.refusal(ip_address("64:ff9b::a00:1")) == (
        "64:ff9b::a00:1 leads to 10.0.0.1, which is a private network and refused by default; "
        "an operator may list 10.0.0.0/8 under the allowed networks."
    )
    assert RULES.refusal(ip_address("4000::1")) == (
        "4000::1 is no public address and refused by default; an operator may list 4000::1 under the allowed networks."
    )


def test_an_operator_opens_a_network_for_data_and_with_it_nothing_else() -> None:
    opened = rules_for_data(allowed=parse_networks("x", "10.20.0.0/16"))
    assert opened.refusal(ip_address("10.20.1.1")) is None
    assert opened.refusal(ip_address("10.21.1.1")) is not None
    shut = rules_for_data(denied=parse_networks("x", "2a00:1450::/32"))
    assert shut.refusal(ip_address("2a00:1450:4001::1")) is not None


@settings(deadline=None)
@given(st.ip_addresses())
def test_nothing_is_open_to_data_that_is_closed_to_a_spec(address: IPv4Address | IPv6Address) -> None:
    if AddressRules().refusal(address) is not None:
        assert RULES.refusal(address) is not None


@settings(deadline=None)
@given(st.ip_addresses())
def test_what_is_open_to_data_is_global_in_each_of_its_faces(address: IPv4Address | IPv6Address) -> None:
    if RULES.refusal(address) is None:
        for face in faces(address):
            assert face.is_global or face in NAT64
            assert not face.is_multicast


NAT64 = next(network for network, kind in CLOSED_TO_DATA if kind is None and network.prefixlen == 96)
