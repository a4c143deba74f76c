"""Which addresses an http action may dial."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soloist.domain.addresses import REFUSED_BY_DEFAULT, AddressRules, faces, parse_address, parse_networks
from soloist.domain.errors import ConfigError

DEFAULT = AddressRules()
REFUSED = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "224.0.0.1",
    "239.255.255.250",
    "255.255.255.255",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "ff02::1",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "::ffff:0.0.0.0",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "2002:a9fe:a9fe::1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::169.254.169.254",
    "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:1:a9:fe:a9fe::",
    "2001:0:a9fe:a9fe::1",
    "fd00:1::5efe:a9fe:a9fe",
    "fd00:1::200:5efe:a9fe:a9fe",
]
OPEN = [
    "10.0.0.1",
    "10.96.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "127.0.0.1",
    "100.64.0.1",
    "240.1.2.3",
    "8.8.8.8",
    "::1",
    "fd12:3456::1",
    "2606:4700::1111",
    "::ffff:10.0.0.1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::8.8.8.8",
    "2002:808:808::1",
]


def rules(*, allowed: str = "", denied: str = "") -> AddressRules:
    return AddressRules(allowed=parse_networks("allowed", allowed), denied=parse_networks("denied", denied))


@pytest.mark.parametrize("text", REFUSED)
def test_no_backend_lives_there_so_it_is_refused_in_every_spelling(text: str) -> None:
    assert DEFAULT.refusal(ip_address(text)) is not None


@pytest.mark.parametrize("text", OPEN)
def test_services_pods_loopback_and_the_internet_are_open(text: str) -> None:
    assert DEFAULT.refusal(ip_address(text)) is None


@pytest.mark.parametrize(
    ("allowed", "denied", "address", "open_"),
    [
        pytest.param("", "10.0.0.0/8", "10.1.2.3", False, id="a denied network beats the default"),
        pytest.param("", "10.0.0.0/8", "::ffff:10.1.2.3", False, id="also for the mapped spelling"),
        pytest.param("", "::ffff:10.0.0.0/104", "10.1.2.3", False, id="a mapped network denies what it maps"),
        pytest.param("", "10.0.0.0/8", "64:ff9b::10.1.2.3", False, id="also through NAT64"),
        pytest.param("169.254.0.0/16", "", "169.254.20.10", True, id="an allowed network opens link-local"),
        pytest.param("169.254.0.0/16", "", "169.254.169.254", False, id="but not the metadata service in it"),
        pytest.param("169.254.169.254", "", "169.254.169.254", True, id="which must be named"),
        pytest.param("fe80::/10", "", "fe80::1%eth0", True, id="a zone changes nothing"),
        pytest.param("0.0.0.0/0", "", "169.254.1.1", False, id="allowing everything opens nothing more"),
        pytest.param("10.0.0.0/8", "0.0.0.0/0,::/0", "10.1.2.3", True, id="a list of what is allowed: in it"),
        pytest.param("10.0.0.0/8", "0.0.0.0/0,::/0", "8.8.8.8", False, id="a list of what is allowed: not in it"),
        pytest.param("10.0.0.0/8", "0.0.0.0/0,::/0", "2606:4700::1", False, id="a list of what is allowed: IPv6"),
        pytest.param("10.0.0.0/8", "10.0.0.0/8", "10.1.2.3", False, id="of two equal ones the denied wins"),
        pytest.param("10.1.0.0/16", "10.0.0.0/8", "10.1.2.3", True, id="the longer prefix wins"),
        pytest.param("10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", False, id="the longer prefix wins, also against"),
    ],
)
def test_the_longest_prefix_decides(allowed: str, denied: str, address: str, open_: bool) -> None:
    assert (rules(allowed=allowed, denied=denied).refusal(ip_address(address)) is None) is open_


def test_a_refusal_names_the_address_the_reason_and_the_remedy() -> None:
    assert DEFAULT.refusal(ip_address("64:ff9b::a9fe:a9fe")) == (
        "64:ff9b::a9fe:a9fe leads to 169.254.169.254, which is a cloud metadata service and refused by default; "
        "an operator may list 169.254.169.254/32 under the allowed networks."
    )
    assert rules(denied="10.0.0.0/8").refusal(ip_address("10.0.0.1")) == "10.0.0.1 is in the denied network 10.0.0.0/8."


@pytest.mark.parametrize("text", ["10.0.0.1/8", "ten", "10.0.0.0/33"])
def test_a_network_that_cannot_be_read_is_an_error_of_its_setting(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^SOLOIST_X: .*; write a network such as 10\.0\.0\.0/8"):
        parse_networks("SOLOIST_X", f"fd00::/8, {text}")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", IPv4Address("10.0.0.1")),
        ("[::1]", IPv6Address("::1")),
        ("backend", None),
        ("127.1", None),
        ("", None),
    ],
)
def test_only_a_whole_address_is_one(text: str, address: object) -> None:
    assert parse_address(text) == address


CARRIERS = {
    "mapped": lambda v4: IPv6Address(0xFFFF << 32 | v4),
    "translated": lambda v4: IPv6Address(0xFFFF << 48 | v4),
    "6to4": lambda v4: IPv6Address(0x2002 << 112 | v4 << 80 | 1),
    "NAT64": lambda v4: IPv6Address(int(IPv6Address("64:ff9b::")) | v4),
    "local NAT64 /48": lambda v4: IPv6Address(int(IPv6Address("64:ff9b:1::")) | (v4 >> 16) << 64 | (v4 & 0xFFFF) << 40),
    "local NAT64 /96": lambda v4: IPv6Address(int(IPv6Address("64:ff9b:1::")) | v4),
    "Teredo client": lambda v4: IPv6Address(0x20010000 << 96 | 0x08080808 << 64 | (v4 ^ 0xFFFFFFFF)),
    "ISATAP": lambda v4: IPv6Address(0x2A00 << 112 | 0x5EFE << 32 | v4),
}


@settings(deadline=None)
@given(st.ip_addresses(v=4), st.sampled_from(sorted(CARRIERS)))
def test_what_an_ipv6_address_carries_is_found(v4: IPv4Address, carrier: str) -> None:
    carried = CARRIERS[carrier](int(v4))
    if carrier.startswith("local") and int(v4) >> 24 == 0:
        return  # zeros there are another layout's padding
    assert v4 in faces(carried)


@settings(deadline=None)
@given(st.sampled_from([net for net, _ in REFUSED_BY_DEFAULT if net.version == 4]), st.data())
def test_whatever_is_refused_is_refused_in_every_wrapping(network: IPv4Network, data: st.DataObject) -> None:
    v4 = data.draw(st.ip_addresses(network=network))
    assert DEFAULT.refusal(v4) is not None
    for name, carry in CARRIERS.items():
        if not (name.startswith("local") and int(v4) >> 24 == 0):
            assert DEFAULT.refusal(carry(int(v4))) is not None, name


@settings(deadline=None)
@given(st.ip_addresses())
def test_denying_everything_leaves_nothing(address: IPv4Address | IPv6Address) -> None:
    everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    assert AddressRules(denied=everything, allowed=everything).refusal(address) is not None


@settings(deadline=None)
@given(st.ip_addresses())
def test_an_address_named_as_allowed_is_open(address: IPv4Address | IPv6Address) -> None:
    named = tuple(ip_network(int(face).to_bytes(face.max_prefixlen // 8)) for face in faces(address))
    assert AddressRules(allowed=named).refusal(address) is None
