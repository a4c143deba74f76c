"""Which IP address may be dialled.

A URL in a spec is trusted as much as whoever may write the object, so Services, Pods and loopback are open. What no
backend lives at is refused: link-local and cloud metadata (credentials of the node), unspecified, multicast, broadcast.
An address that comes from a table is trusted by nobody: it has defaults of its own (``public_addresses``).

The longest prefix decides, as in a routing table; between equal ones a denied network beats an allowed one, and that beats
a default. So opening 169.254.0.0/16 does not open 169.254.169.254, which has an entry of its own; and denying 0.0.0.0/0
and ::/0 while allowing 10.0.0.0/8 makes a list of what is allowed.

An IPv6 address may carry an IPv4 one (mapped, compatible, translated, 6to4, NAT64, Teredo, ISATAP): every address that a
packet could end at is judged, and one refusal refuses. A NAT64 prefix of the network's own cannot be known here: deny it.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from soloist.domain.errors import ConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Default = tuple[Network, str | None]

_METADATA = "a cloud metadata service"

REFUSED_BY_DEFAULT: tuple[Default, ...] = (
    (IPv4Network("0.0.0.0/8"), "unspecified"),
    (IPv4Network("169.254.0.0/16"), "link-local"),
    (IPv4Network("224.0.0.0/4"), "multicast"),
    (IPv4Network("255.255.255.255/32"), "broadcast"),
    (IPv4Network("169.254.169.254/32"), _METADATA),  # AWS, Azure, Google Cloud, OpenStack
    (IPv4Network("169.254.170.2/32"), _METADATA),  # AWS ECS task credentials
    (IPv4Network("169.254.170.23/32"), _METADATA),  # AWS EKS Pod Identity
    (IPv4Network("100.100.100.200/32"), _METADATA),  # Alibaba Cloud
    (IPv4Network("168.63.129.16/32"), _METADATA),  # Azure's host agent
    (IPv4Network("192.0.0.192/32"), _METADATA),  # Oracle Cloud, older images
    (IPv6Network("::/128"), "unspecified"),
    (IPv6Network("fe80::/10"), "link-local"),
    (IPv6Network("ff00::/8"), "multicast"),
    (IPv6Network("fd00:ec2::254/128"), _METADATA),  # AWS
    (IPv6Network("fd00:ec2::23/128"), _METADATA),  # AWS EKS Pod Identity
    (IPv6Network("fd20:ce::254/128"), _METADATA),  # Google Cloud
)

_COMPATIBLE = IPv6Network("::/96")
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
_ISATAP = (0x00005EFE, 0x02005EFE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRules:
    """The operator's own networks, on top of ``defaults``: networks with what they are, None for one that is open."""

    allowed: tuple[Network, ...] = ()
    denied: tuple[Network, ...] = ()
    defaults: tuple[Default, ...] = REFUSED_BY_DEFAULT

    def refusal(self, address: Address) -> str | None:
        """A sentence that says why ``address`` may not be dialled; None: it may."""
        for face in faces(address):
            if (why := self._judge(face)) is not None:
                return f"{address} {why}." if face == address else f"{address} leads to {face}, which {why}."
        return None

    def _judge(self, face: Address) -> str | None:
        """The reason of the entry that decides, None where it allows."""
        matches: list[tuple[int, int, str | None]] = [(-1, 0, None)]
        for network, kind in self.defaults:
            if face in network:
                remedy = f"an operator may list {network if network.prefixlen else face} under the allowed networks"
                why = None if kind is None else f"is {kind} and refused by default; {remedy}"
                matches.append((network.prefixlen, 0, why))
        matches += [(network.prefixlen, 1, None) for network in self.allowed if face in network]
        matches += [(net.prefixlen, 2, f"is in the denied network {net}") for net in self.denied if face in net]
        return max(matches, key=lambda match: match[:2])[2]


def faces(address: Address) -> tuple[Address, ...]:
    """Every address that a packet to ``address`` may end at: itself first, then the IPv4 addresses that it carries."""
    if isinstance(address, IPv4Address):
        return (address,)
    plain = IPv6Address(int(address))  # without its zone (fe80::1%eth0), which no network contains
    if plain in _MAPPED:
        return (_v4(int(plain)),)  # the same destination in another spelling, not one more
    return (plain, *_carried(plain))


def parse_address(text: str) -> Address | None:
    """The address that ``text`` spells, None for a name. Brackets around an IPv6 address are fine."""
    try:
        return ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def parse_networks(setting: str, text: str) -> tuple[Network, ...]:
    """The networks of a comma-separated list; ``setting`` is its name, for the sentence."""
    return tuple(_network(setting, part.strip()) for part in text.split(",") if part.strip())


def _network(setting: str, text: str) -> Network:
    try:
        network = ip_network(text)
    except ValueError as problem:
        raise ConfigError(f"{setting}: {problem}; write a network such as 10.0.0.0/8 or fd00::/8.") from problem
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return IPv4Network((_v4(int(network.network_address)), network.prefixlen - 96))
    return network


def _carried(address: IPv6Address) -> list[IPv4Address]:
    number = int(address)
    if address in _COMPATIBLE:
        return [] if number <= 1 else [_v4(number)]
    if address in _TRANSLATED or address in _NAT64:
        return [_v4(number)]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    if address in _NAT64_LOCAL:
        return [found for found in _translated_local(number) if int(found) >> 24]
    return [_v4(number)] if (number >> 32) & 0xFFFFFFFF in _ISATAP else []


def _translated_local(number: int) -> list[IPv4Address]:
    """Where RFC 6052 puts the IPv4 address for prefixes of /48, /56, /64 and /96; which is in use cannot be seen."""
    high, low = number >> 64, number & 0xFFFFFFFFFFFFFFFF
    return [
        _v4((high & 0xFFFF) << 16 | (low >> 40) & 0xFFFF),
        _v4((high & 0xFF) << 24 | (low >> 32) & 0xFFFFFF),
        _v4(low >> 24),
        _v4(number),
    ]


def _v4(number: int) -> IPv4Address:
    return IPv4Address(number & 0xFFFFFFFF)
