"""Which IP address may be dialled when it comes from data: what a customer wrote into a table of the application.

Whoever may write that row must not reach what stands behind the firewall. So nothing is open but the public internet:
of IPv4 all that IANA has not set aside, of IPv6 global unicast and the well-known NAT64 prefix, in whose addresses the
carried one is judged. That is a list of what is allowed for IPv6, where most of the space is no receiver's.

An operator's networks come on top, as for trusted addresses, with a list of their own. A cluster whose Pods and Services
have public addresses (IPv6 without translation, as a rule) must deny those networks: no address tells that it is inside.
"""

from ipaddress import IPv4Network, IPv6Network

from soloist.domain.addresses import REFUSED_BY_DEFAULT, AddressRules, Default, Network

_PRIVATE = "a private network"
_LOOPBACK = "loopback"
_EXAMPLES = "for documentation only"
_SET_ASIDE = "set aside for protocols"

CLOSED_TO_DATA: tuple[Default, ...] = (
    *REFUSED_BY_DEFAULT,
    (IPv4Network("10.0.0.0/8"), _PRIVATE),
    (IPv4Network("172.16.0.0/12"), _PRIVATE),
    (IPv4Network("192.168.0.0/16"), _PRIVATE),
    (IPv4Network("100.64.0.0/10"), "shared by a carrier's or a cloud's customers (CGNAT)"),
    (IPv4Network("127.0.0.0/8"), _LOOPBACK),
    (IPv4Network("192.0.0.0/24"), _SET_ASIDE),
    (IPv4Network("192.0.2.0/24"), _EXAMPLES),
    (IPv4Network("198.51.100.0/24"), _EXAMPLES),
    (IPv4Network("203.0.113.0/24"), _EXAMPLES),
    (IPv4Network("192.31.196.0/24"), _SET_ASIDE),  # AS112
    (IPv4Network("192.52.193.0/24"), _SET_ASIDE),  # AMT
    (IPv4Network("192.88.99.0/24"), _SET_ASIDE),  # relays of 6to4
    (IPv4Network("192.175.48.0/24"), _SET_ASIDE),  # AS112
    (IPv4Network("198.18.0.0/15"), "for benchmarks of networks"),
    (IPv4Network("240.0.0.0/4"), "reserved"),
    (IPv6Network("::/0"), "no public address"),
    (IPv6Network("2000::/3"), None),
    (IPv6Network("64:ff9b::/96"), None),
    (IPv6Network("::1/128"), _LOOPBACK),
    (IPv6Network("fc00::/7"), _PRIVATE),
    (IPv6Network("fec0::/10"), _PRIVATE),
    (IPv6Network("2001::/23"), _SET_ASIDE),  # Teredo and ORCHID among them
    (IPv6Network("2001:db8::/32"), _EXAMPLES),
    (IPv6Network("3fff::/20"), _EXAMPLES),
    (IPv6Network("2620:4f:8000::/48"), _SET_ASIDE),  # AS112
)


def rules_for_data(*, allowed: tuple[Network, ...] = (), denied: tuple[Network, ...] = ()) -> AddressRules:
    """The rules for addresses that come from data."""
    return AddressRules(allowed=allowed, denied=denied, defaults=CLOSED_TO_DATA)
