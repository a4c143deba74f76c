"""The address that was checked is the one that is dialled.

A check of a URL before the request is worth nothing: the name may resolve to something else a moment later (DNS
rebinding), or not be a name at all. So the check sits below aiohttp's connector, twice: the resolver hands out only
addresses that may be dialled, and the socket for each address is made here, so that an address written in a URL, which
no resolver sees, and one that comes from a redirect pass by the same rules.
"""

import socket
from collections.abc import Callable

from aiohttp.abc import AbstractResolver, ResolveResult

from soloist.adapters.http.lookups import AddrInfo, Lookup, Lookups
from soloist.domain.addresses import AddressRules, parse_address

MOST_ADDRESSES = 64
"""Of one name. A name server may give thousands, each of which is judged, and dialled if those before it do not answer."""

_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class AddressRefused(OSError):
    """Nothing was dialled; ``sentence`` says which address and why. An OSError, as the connector expects of a socket."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class GuardedResolver(AbstractResolver):
    """``lookup`` has the signature of ``socket.getaddrinfo``. Caching and joining of equal lookups is the connector's."""

    def __init__(self, rules: AddressRules, *, lookup: Lookup = socket.getaddrinfo) -> None:
        self._rules = rules
        self._lookups = Lookups(lookup)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._lookups.of(host, port, family)
        results: list[ResolveResult] = []
        refusals: list[str] = []
        addresses = {str(address[0]): (kind, proto) for kind, _, proto, _, address in found[:MOST_ADDRESSES]}
        for text, (kind, proto) in addresses.items():
            if (refusal := _refusal(self._rules, text)) is not None:
                refusals.append(refusal)
            else:
                results.append(
                    ResolveResult(hostname=host, host=text, port=port, family=kind, proto=proto, flags=_NUMERIC)
                )
        if results:
            return results
        raise AddressRefused(f"{host}: {refusals[0]}") if refusals else OSError(f"{host} has no address")

    async def close(self) -> None:
        """There is nothing to close: look-ups that go on end by themselves."""


def guarded_sockets(rules: AddressRules) -> Callable[[AddrInfo], socket.socket]:
    """A socket factory for aiohttp's connector that refuses to make a socket for an address that may not be dialled."""

    def make(info: AddrInfo) -> socket.socket:
        family, kind, proto, _, address = info
        if (refusal := _refusal(rules, str(address[0]))) is not None:
            raise AddressRefused(refusal)
        return socket.socket(family=family, type=kind, proto=proto)

    return make


def _refusal(rules: AddressRules, text: str) -> str | None:
    address = parse_address(text)
    return f"{text} is not an IP address." if address is None else rules.refusal(address)
