"""The ``http`` action: one request, sent at most once per attempt, and an honest answer to what became of it.

What decides is whether anything was sent, and aiohttp says so just before the first byte leaves. Until then every
failure is a known one and may be retried; from then on only a status line tells. Once there is a status line the body
decides nothing: a time-out or a reset in it leaves the outcome as the status has it.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from soloist import __version__
from soloist.adapters.http.failures import what_became
from soloist.adapters.http.guard import GuardedResolver, Lookup
from soloist.adapters.http.session import HttpLimits, open_session
from soloist.adapters.http.trust import TrustStore
from soloist.domain.actions import FailedKnown, HttpAction, KeyRef, Order, Outcome, Response, UnknownOutcome
from soloist.domain.addresses import AddressRules
from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.domain.http_reply import classify, excerpt
from soloist.domain.http_request import HttpReason, HttpRequest, build_request, without_line_break
from soloist.domain.redirects import MOST_REDIRECTS, REDIRECTS, REPEATED, origin, redirect

_MOST_READ = 64 * 1024


class Sealed(Protocol):
    """A value that shows itself only when asked to, so that no log and no traceback does."""

    def reveal(self) -> str: ...


ReadKey = Callable[[str, KeyRef], Awaitable[Sealed]]


@dataclass(slots=True, kw_only=True)
class _Reply:
    status: int
    headers: dict[str, str]
    charset: str | None
    raw: bytearray = field(default_factory=bytearray)
    complete: bool = False


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """What is known so far. ``sent`` stays True over a redirect after which the first receiver may have acted."""

    action: HttpAction
    secrets: dict[KeyRef, str] = field(default_factory=dict)
    sent: bool = False
    reply: _Reply | None = None

    def conclude(self, reply: _Reply) -> Outcome:
        plain = reply.headers.get("content-encoding", "identity").lower() == "identity"
        raw = bytes(reply.raw) if plain else b""
        text = excerpt(raw, charset=reply.charset, secrets=self.secrets.values(), complete=reply.complete)
        response = Response(status_code=reply.status, excerpt=text)
        return classify(response, status=reply.status, expected=self.action.expected, headers=reply.headers)

    def out_of_time(self, seconds: float) -> Outcome:
        if self.reply is not None:
            return self.conclude(self.reply)
        if self.sent:
            message = f"The request was sent and no answer came within {seconds:g} s."
            return UnknownOutcome(reason=HttpReason.TIMED_OUT, message=message)
        message = f"Within {seconds:g} s no connection was made, so nothing was sent."
        return FailedKnown(reason=HttpReason.NOT_SENT_IN_TIME, message=message, retryable=True)


class HttpLauncher:
    """A ``Launcher`` for ``HttpAction``. One per process, closed in the loop that it was used in."""

    def __init__(
        self,
        *,
        read_key: ReadKey,
        rules: AddressRules,
        limits: HttpLimits | None = None,
        trusted: Callable[[], bool] = lambda: True,
        lookup: Lookup = socket.getaddrinfo,
    ) -> None:
        self._read_key = read_key
        self._rules = rules
        self._limits = limits or HttpLimits()
        self._may_act = trusted
        self._resolver = GuardedResolver(rules, lookup=lookup)
        self._trust = TrustStore()
        self._opened: aiohttp.ClientSession | None = None

    async def prepare(self, order: Order) -> None:
        """Nothing can be made ready that does nothing by itself."""

    async def launch(self, order: Order) -> Outcome:
        if not isinstance(order.action, HttpAction):
            raise PermanentError(f"{order.run_name}: the http launcher was given another kind of action.")
        attempt = _Attempt(action=order.action)
        seconds = order.timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await self._run(order, attempt)
        except TimeoutError:
            return attempt.out_of_time(seconds)

    async def found(self, order: Order) -> Outcome | None:
        raise PermanentError(f"{order.run_name}: nobody can know what became of a request that another process sent.")

    async def stop(self, order: Order) -> None:
        """What the receiver is at cannot be called back."""

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
        await self._resolver.close()  # aiohttp closes only a resolver of its own making

    async def _run(self, order: Order, attempt: _Attempt) -> Outcome:
        """Send the request, and those that it is redirected to."""
        try:
            await self._read_secrets(order.namespace, attempt)
            trust = await self._trusted(order.namespace, attempt.action)
        except SoloistError as problem:
            return FailedKnown(reason=HttpReason.SECRET_UNAVAILABLE, message=str(problem), retryable=True)
        step: HttpRequest | Outcome = build_request(order, attempt.secrets, version=__version__)
        exchanges = 0
        while isinstance(step, HttpRequest):
            if exchanges > MOST_REDIRECTS:
                message = (
                    f"The receiver redirected more than {MOST_REDIRECTS} times; write the final address as the url."
                )
                return FailedKnown(reason=HttpReason.TOO_MANY_REDIRECTS, message=message, retryable=False)
            step = await self._exchange(step, trust, attempt)
            exchanges += 1
        return step

    async def _exchange(
        self, request: HttpRequest, trust: ssl.SSLContext | bool, attempt: _Attempt
    ) -> HttpRequest | Outcome:
        if not self._may_act():
            raise TransientError("The term was over before the request could be sent.", sent=attempt.sent)
        if self._opened is None:
            self._opened = open_session(self._resolver, self._rules, self._limits)
        try:
            response = await self._opened.request(
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
        location = response.headers.get("Location")
        if attempt.action.follow_redirects and response.status in REDIRECTS and location is not None:
            response.close()
            attempt.sent = response.status not in REPEATED
            return redirect(request, response.status, location)
        headers = {name.lower(): value for name, value in response.headers.items()}
        attempt.reply = _Reply(status=response.status, headers=headers, charset=response.charset)
        await _read(response, attempt.reply)
        return attempt.conclude(attempt.reply)

    async def _read_secrets(self, namespace: str, attempt: _Attempt) -> None:
        for header in attempt.action.headers:
            if header.ref is not None and header.ref not in attempt.secrets:
                sealed = await self._read_key(namespace, header.ref)
                attempt.secrets[header.ref] = without_line_break(sealed.reveal())

    async def _trusted(self, namespace: str, action: HttpAction) -> ssl.SSLContext | bool:
        if not action.verify or action.ca is None:
            return action.verify
        bundle = await self._read_key(namespace, action.ca)
        try:
            return self._trust.context(bundle.reveal())
        except ValueError as problem:
            message = f"{action.ca.kind} {action.ca.name}, key {action.ca.key}, {problem}."
            raise PermanentError(message) from problem


async def _read(response: aiohttp.ClientResponse, reply: _Reply) -> None:
    """The beginning of the body. What came before it broke off is enough: the status is known."""
    try:
        while len(reply.raw) < _MOST_READ:
            piece = await response.content.read(_MOST_READ - len(reply.raw))
            if not piece:
                reply.complete = True
                return
            reply.raw += piece
    except (aiohttp.ClientError, OSError):
        return
    finally:
        if reply.complete:
            response.release()
        else:
            response.close()
