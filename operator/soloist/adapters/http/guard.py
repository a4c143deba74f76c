"""The address that was checked is the one that is dialled.

A check of a URL before the request is worth nothing: the name may resolve to something else a moment later (DNS
rebinding), or not be a name at all. So the check sits below aiohttp's connector, twice: the resolver hands out only
addresses that may be dialled, and the socket for each address is made here, so that an address written in a URL, which
no resolver sees, and one that comes from a redirect pass by the same rules.

Lookups run in threads of their own: names that never resolve must not hold up whatever else uses the loop's executor.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from soloist.domain.addresses import AddressRules, parse_address

AddrInfo = tuple[Any, Any, int, str, tuple[Any, ...]]
Lookup = Callable[..., Sequence[AddrInfo]]

_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
_LOOKUP_THREADS = 16


class AddressRefused(OSError):
    """Nothing was dialled; ``sentence`` says which address and why. An OSError, as the connector expects of a socket."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class GuardedResolver(AbstractResolver):
    """``lookup`` has the signature of ``socket.getaddrinfo``. Caching and joining of equal lookups is the connector's."""

    def __init__(self, rules: AddressRules, *, lookup: Lookup = socket.getaddrinfo) -> None:
        self._rules = rules
        self._lookup = lookup
        self._threads = ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="soloist-lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, self._look_up, host, port, family)
        results: list[ResolveResult] = []
        refusals: list[str] = []
        for found_family, _, proto, _, address in found:
            text = str(address[0])
            if (refusal := _refusal(self._rules, text)) is not None:
                refusals.append(refusal)
            elif all(result["host"] != text for result in results):
                results.append(
                    ResolveResult(hostname=host, host=text, port=port, family=found_family, proto=proto, flags=_NUMERIC)
                )
        if results:
            return results
        raise AddressRefused(f"{host}: {refusals[0]}") if refusals else OSError(f"{host} has no address")

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _look_up(self, host: str, port: int, family: int) -> Sequence[AddrInfo]:
        try:
            return self._lookup(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except UnicodeError as problem:
            raise OSError(f"{host} is no host name: {problem}") from problem


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
