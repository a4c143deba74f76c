"""One request and its answer, for whoever has a right to send it: runs and rows alike.

What decides is whether anything was sent, and aiohttp says so just before the first byte leaves. Until then every failure
is a known one; from then on only a status line tells. Once there is a status line the body decides nothing: a time-out or
a reset in it leaves the outcome as the status has it.
"""

import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from soloist.adapters.http.failures import what_became
from soloist.adapters.http.guard import GuardedResolver
from soloist.adapters.http.lookups import Lookup
from soloist.adapters.http.session import HttpLimits, open_session
from soloist.domain.actions import FailedKnown, Response, UnknownOutcome
from soloist.domain.addresses import AddressRules
from soloist.domain.http_reply import charset_of, excerpt
from soloist.domain.http_request import HttpReason, HttpRequest
from soloist.domain.redirects import origin

_MOST_READ = 64 * 1024


@dataclass(slots=True, kw_only=True)
class Reply:
    """An answer. ``headers`` are found by their lower-case names."""

    status: int
    headers: Mapping[str, str]
    raw: bytearray = field(default_factory=bytearray)
    complete: bool = False

    def response(self, secrets: Iterable[str]) -> Response:
        """What a person may see of it, without the secrets that were sent."""
        plain = self.headers.get("content-encoding", "identity").lower() == "identity"
        raw = bytes(self.raw) if plain else b""
        charset = charset_of(self.headers.get("content-type"))
        text = excerpt(raw, charset=charset, secrets=secrets, complete=self.complete)
        return Response(status_code=self.status, excerpt=text)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """What is known so far, also to whoever ends it from outside. ``sent`` turns True just before the first byte leaves."""

    sent: bool = False
    reply: Reply | None = None

    def out_of_time(self, seconds: float) -> FailedKnown | UnknownOutcome:
        """What became of it when its time was over before there was a status line."""
        if self.sent:
            message = f"The request was sent and no answer came within {seconds:g} s."
            return UnknownOutcome(reason=HttpReason.TIMED_OUT, message=message)
        message = f"Within {seconds:g} s no connection was made, so nothing was sent."
        return FailedKnown(reason=HttpReason.NOT_SENT_IN_TIME, message=message, retryable=True)


class Exchange:
    """A session under one set of address rules, opened at its first use and closed in the loop that it was used in."""

    def __init__(
        self, rules: AddressRules, limits: HttpLimits | None = None, *, lookup: Lookup = socket.getaddrinfo
    ) -> None:
        self._rules = rules
        self._limits = limits or HttpLimits()
        self._resolver = GuardedResolver(rules, lookup=lookup)
        self._opened: aiohttp.ClientSession | None = None

    async def send(
        self, request: HttpRequest, attempt: Attempt, *, trust: ssl.SSLContext | bool
    ) -> aiohttp.ClientResponse | FailedKnown | UnknownOutcome:
        """Send it once; the answer's body is still to be read (``read``) or closed."""
        if self._opened is None:
            self._opened = open_session(self._resolver, self._rules, self._limits)
        try:
            return await self._opened.request(
                request.method,
                URL(request.url, encoded=request.url.isascii()),
                headers=CIMultiDict(request.headers),
                data=request.body,
                allow_redirects=False,
                ssl=trust,
                skip_auto_headers=("Content-Type",),
                trace_request_ctx=attempt,
            )
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            where = "{}://{}:{}".format(*origin(request.url))
            return what_became(failure, sent=attempt.sent, where=where)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
        await self._resolver.close()  # aiohttp closes only a resolver of its own making


async def read(response: aiohttp.ClientResponse, attempt: Attempt) -> Reply:
    """The answer with the beginning of its body. What came before it broke off is enough: the status is known."""
    reply = attempt.reply = Reply(status=response.status, headers=response.headers)
    try:
        while len(reply.raw) < _MOST_READ:
            piece = await response.content.read(_MOST_READ - len(reply.raw))
            if not piece:
                reply.complete = True
                break
            reply.raw += piece
    except (aiohttp.ClientError, OSError):
        pass
    finally:
        if reply.complete:
            response.release()
        else:
            response.close()
    return reply
