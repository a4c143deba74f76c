"""The ``http`` action: one request, sent at most once per attempt, and an honest answer to what became of it.

The exchange itself, and what is known and unknown about it, is ``exchange``'s. Here are the right to send (asked just before
each request), the Secrets, the redirects, and the time that all of it may take.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from soloist import __version__
from soloist.adapters.http.exchange import Attempt, Exchange, Reply, read
from soloist.adapters.http.lookups import Lookup
from soloist.adapters.http.session import HttpLimits
from soloist.adapters.http.trust import TrustStore
from soloist.adapters.sealed import ReadKey
from soloist.domain.actions import FailedKnown, HttpAction, KeyRef, Order, Outcome
from soloist.domain.addresses import AddressRules
from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.domain.http_reply import classify
from soloist.domain.http_request import HttpReason, HttpRequest, build_request, without_line_break
from soloist.domain.redirects import MOST_REDIRECTS, REDIRECTS, REPEATED, redirect


@dataclass(slots=True, kw_only=True)
class _Attempt(Attempt):
    """``sent`` stays True over a redirect after which the first receiver may have acted."""

    action: HttpAction
    secrets: dict[KeyRef, str] = field(default_factory=dict)

    def conclude(self, reply: Reply) -> Outcome:
        response = reply.response(self.secrets.values())
        return classify(response, status=reply.status, expected=self.action.expected, headers=reply.headers)


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
        self._may_act = trusted
        self._exchange = Exchange(rules, limits, lookup=lookup)
        self._trust = TrustStore()

    async def prepare(self, order: Order) -> str:
        """Nothing can be made ready that does nothing by itself."""
        return ""

    async def launch(self, order: Order) -> Outcome:
        if not isinstance(order.action, HttpAction):
            raise PermanentError(f"{order.run_name}: the http launcher was given another kind of action.")
        attempt = _Attempt(action=order.action)
        seconds = order.timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await self._run(order, attempt)
        except TimeoutError:
            return attempt.out_of_time(seconds) if attempt.reply is None else attempt.conclude(attempt.reply)

    async def found(self, order: Order) -> Outcome | None:
        raise PermanentError(f"{order.run_name}: nobody can know what became of a request that another process sent.")

    async def stop(self, order: Order) -> None:
        """What the receiver is at cannot be called back."""

    async def close(self) -> None:
        await self._exchange.close()

    async def _run(self, order: Order, attempt: _Attempt) -> Outcome:
        """Send the request, and those that it is redirected to."""
        try:
            await self._read_secrets(order.namespace, attempt)
            action = attempt.action
            trust = await self._trust.of(order.namespace, action.ca, verify=action.verify, read_key=self._read_key)
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
            step = await self._step(step, trust, attempt)
            exchanges += 1
        return step

    async def _step(
        self, request: HttpRequest, trust: ssl.SSLContext | bool, attempt: _Attempt
    ) -> HttpRequest | Outcome:
        """One request of possibly several: its outcome, or the request that it is redirected to."""
        if not self._may_act():
            raise TransientError("The term was over before the request could be sent.", sent=attempt.sent)
        response = await self._exchange.send(request, attempt, trust=trust)
        if isinstance(response, Outcome):
            return response
        location = response.headers.get("Location")
        if attempt.action.follow_redirects and response.status in REDIRECTS and location is not None:
            response.close()
            attempt.sent = response.status not in REPEATED
            return redirect(request, response.status, location)
        return attempt.conclude(await read(response, attempt))

    async def _read_secrets(self, namespace: str, attempt: _Attempt) -> None:
        for header in attempt.action.headers:
            if header.ref is not None and header.ref not in attempt.secrets:
                sealed = await self._read_key(namespace, header.ref)
                attempt.secrets[header.ref] = without_line_break(sealed.reveal())
