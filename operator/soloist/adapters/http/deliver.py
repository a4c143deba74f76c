"""Delivers a claimed row over HTTP: one request, and an outcome that is already decided.

In this order, so that nothing is sent that need not be and nothing is forgotten that was: the endpoint (asked for as late
as can be), its breaker, the Secrets, the request, the exchange within its time. The breaker hears of every request that it
let through, also of one that was abandoned.

What the worker could not even ask for (the database or the API server did not answer) is no failure of the row: it is put
back for some seconds. What they answered (a Secret that is missing) is one, and says so in the row.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from soloist import __version__
from soloist.adapters.http.endpoints import Endpoints
from soloist.adapters.http.exchange import Attempt, Exchange, read
from soloist.adapters.http.trust import TrustStore
from soloist.adapters.sealed import ReadKey
from soloist.domain.actions import FailedKnown, KeyRef, Outcome, Response, Succeeded
from soloist.domain.breaker import Gate
from soloist.domain.claims import Claim, PutBack, Settled
from soloist.domain.delivery_key import delivery_key
from soloist.domain.delivery_outcome import Bearing, accepted, bearing, endpoint_stopped, judge, settled
from soloist.domain.delivery_request import Endpoint, build_delivery, endpoint_in, unset
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.http_request import without_line_break
from soloist.domain.queue_spec import AfterCrash, FixedUrl, HttpDelivery, Lookup, ManagedTable, QueueSpec
from soloist.domain.signature import split_secrets

FindEndpoint = Callable[[Claim], Awaitable[Endpoint | FailedKnown]]
"""The endpoint of a row that another table holds, read now; raises ``SoloistError`` where that cannot be asked."""

UNASKED = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What all queues of a worker share. ``drawn`` gives a number in [0, 1)."""

    endpoints: Endpoints
    read_key: ReadKey
    trust: TrustStore
    now: Callable[[], datetime]
    drawn: Callable[[], float]


class HttpDeliverer:
    """A ``Deliverer`` for a queue whose ``deliver`` is ``http``.

    ``source`` says whose rows these are (``delivery_key``); ``exchange`` has the address rules that go with the target, and
    is closed by whoever made it; ``find`` is there where the target is a ``Lookup``.
    """

    def __init__(
        self,
        spec: QueueSpec,
        *,
        namespace: str,
        source: str,
        exchange: Exchange,
        world: World,
        find: FindEndpoint | None = None,
    ) -> None:
        if not isinstance(spec.deliver, HttpDelivery) or isinstance(spec.deliver.target, Lookup) != (find is not None):
            raise TypeError("an HttpDeliverer is for deliver.http, and has a find exactly where it has a lookup")
        self._spec, self._delivery = spec, spec.deliver
        self._namespace, self._source = namespace, source
        self._exchange, self._world, self._find = exchange, world, find
        self._fixed = isinstance(self._delivery.target, FixedUrl)
        self._hold = spec.after_crash is AfterCrash.HOLD

    async def deliver(self, claim: Claim) -> Settled:
        """See ``Deliverer``."""
        try:
            endpoint = await self._endpoint(claim)
            if isinstance(endpoint, FailedKnown):
                return self._settled(claim, endpoint)
            return await self._by_leave(claim, endpoint)
        except TransientError:
            return PutBack(claim=claim, retry_in=UNASKED * (1 + self._world.drawn()))
        except PermanentError as problem:
            return self._settled(claim, unset(str(problem)))

    async def _endpoint(self, claim: Claim) -> Endpoint | FailedKnown:
        target = self._delivery.target
        if isinstance(target, Lookup):
            assert self._find is not None
            return await self._find(claim)
        return endpoint_in(target, claim)

    async def _by_leave(self, claim: Claim, endpoint: Endpoint) -> Settled:
        """Send if the endpoint's breaker lets it, and tell the breaker what came of it."""
        endpoints, known_as = self._world.endpoints, (self._fixed, endpoint.url)
        answer = endpoints.ask(known_as)
        if answer.gate is Gate.LATER:
            wait = timedelta(seconds=answer.wait)
            later = wait * (1 + self._world.drawn())
            return PutBack(claim=claim, retry_in=later, shut_for=wait, for_all=self._fixed)
        if answer.gate is Gate.GONE:
            return self._settled(claim, endpoint_stopped())
        heard, asked = Bearing.UNASKED, None
        try:
            outcome = await self._attempt(claim, endpoint)
            heard = bearing(outcome, fixed=self._fixed)
            asked = outcome.retry_after if isinstance(outcome, FailedKnown) else None
        finally:
            endpoints.hear(known_as, heard, probe=answer.gate is Gate.PROBE, asked=asked)
        return self._settled(claim, outcome)

    async def _attempt(self, claim: Claim, endpoint: Endpoint) -> Outcome:
        """One request, and what came of it."""
        secrets = await self._header_secrets()
        if self._delivery.secrets:
            endpoint = replace(endpoint, secrets=await self._signing_secrets())
        trust = await self._trusted()
        request = build_delivery(
            self._delivery,
            claim,
            endpoint,
            key=delivery_key(self._spec.idempotency_key, self._source, claim),
            managed=isinstance(self._spec.table, ManagedTable),
            header_secrets=secrets,
            now=self._world.now(),
            version=__version__,
        )
        if isinstance(request, FailedKnown):
            return request
        attempt = Attempt()
        seconds = self._delivery.timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                response = await self._exchange.send(request, attempt, trust=trust)
                if isinstance(response, Outcome):
                    return response
                await read(response, attempt)
        except TimeoutError:
            pass
        reply, expected = attempt.reply, self._delivery.expected
        if reply is None:
            return attempt.out_of_time(seconds)
        if accepted(reply.status, expected):
            return Succeeded(response=Response(status_code=reply.status))
        return judge(reply.response(secrets.values()), reply.headers, expected)

    def _settled(self, claim: Claim, outcome: Outcome) -> Settled:
        return settled(claim, outcome, self._spec.retry, hold=self._hold, fixed=self._fixed, drawn=self._world.drawn())

    async def _header_secrets(self) -> dict[KeyRef, str]:
        return {
            header.ref: without_line_break((await self._world.read_key(self._namespace, header.ref)).reveal())
            for header in self._delivery.headers
            if header.ref is not None
        }

    async def _signing_secrets(self) -> tuple[str, ...]:
        """Of all Secrets, in their order: the present one first."""
        found: list[str] = []
        for ref in self._delivery.secrets:
            sealed = await self._world.read_key(self._namespace, ref)
            found += split_secrets(self._delivery.signature, without_line_break(sealed.reveal()))
        return tuple(found)

    async def _trusted(self) -> ssl.SSLContext | bool:
        delivery, world = self._delivery, self._world
        return await world.trust.of(self._namespace, delivery.ca, verify=delivery.verify, read_key=world.read_key)
