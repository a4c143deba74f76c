"""The one aiohttp session of a process: which connections there are, and what aiohttp must not do on its own.

No cookies, no proxy from the environment, no unpacking, no time limits other than the attempt's and the connect's, no
second sending (``failures``), no address that was not checked (``guard``), no answer that nobody asked for (``connector``).
Equal lookups are joined and kept for seconds, so a thousand jobs of one backend that are due together ask the name server
once.

By default no connection is used twice. A kept one that the receiver closes just as the next request goes out makes an
unknown outcome out of nothing, and jobs that are due together need their connections together anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Protocol

import aiohttp
from yarl import URL

from soloist.adapters.http.connector import Connector
from soloist.adapters.http.failures import send_once
from soloist.adapters.http.guard import GuardedResolver, guarded_sockets
from soloist.domain.addresses import AddressRules


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Seconds and counts. ``keep_alive`` 0: a connection of its own for every request."""

    connections: int = 1000
    keep_alive: float = 0.0
    connect_timeout: float = 10.0
    lookup_ttl: int = 5


class NoCookies(aiohttp.DummyCookieJar):
    """None is read, either: of what a receiver sends only what is needed is looked at."""

    def update_cookies_from_headers(self, headers: Sequence[str], response_url: URL) -> None:
        """Nothing is kept."""


class Sending(Protocol):
    """What a request is made for; ``sent`` turns True just before its first byte leaves."""

    sent: bool


def open_session(resolver: GuardedResolver, rules: AddressRules, limits: HttpLimits) -> aiohttp.ClientSession:
    """A session for the running loop. Each request names its ``Sending`` as ``trace_request_ctx``."""
    tracing = aiohttp.TraceConfig()
    tracing.on_request_headers_sent.append(_note_sent)
    kept = limits.keep_alive > 0
    connector = Connector(
        resolver=resolver,
        socket_factory=guarded_sockets(rules),
        ttl_dns_cache=limits.lookup_ttl,
        limit=limits.connections,
        force_close=not kept,
        keepalive_timeout=limits.keep_alive if kept else None,  # aiohttp refuses a number beside force_close
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_timeout),
        cookie_jar=NoCookies(),
        middlewares=(send_once,),
        trace_configs=[tracing],
        auto_decompress=False,
        trust_env=False,
    )


async def _note_sent(_session: aiohttp.ClientSession, context: SimpleNamespace, _request: object) -> None:
    sending: Sending = context.trace_request_ctx
    sending.sent = True
