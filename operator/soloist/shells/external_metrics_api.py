"""The depth of WorkQueues as the API server hands it on to autoscalers: external.metrics.k8s.io, beside it.

Each request is looked at in one order: it must come by the API server, which says who asks; the cluster must say that he
may; then it must make sense; then it is measured. What is refused is a Status, whose sentence ``kubectl`` and the
autoscaler's conditions show.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, NoReturn

from aiohttp import web

from soloist.adapters.http.tls_server import common_names
from soloist.domain.depth import Depth
from soloist.domain.errors import SoloistError, TransientError
from soloist.domain.external_metrics import (
    GROUP,
    METRICS,
    VERSION,
    BadSelector,
    discovery,
    queues_of,
    refusal,
    values,
)
from soloist.domain.front_proxy import Caller, FrontProxy, Stranger, caller, review
from soloist.domain.queue_name import QueueName
from soloist.shells.settings import is_name

ROOT = f"/apis/{GROUP}/{VERSION}"
ANSWER_SECONDS = 10.0
Measure = Callable[[QueueName], Awaitable[tuple[datetime, Depth]]]
May = Callable[[Mapping[str, Any]], Awaitable[bool]]
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class _Refused(Exception):
    """Caught where the answer is made."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def application(front: FrontProxy, *, may: May, measure: Measure) -> web.Application:
    """Of what the cluster says of its front proxy now."""
    made = web.Application()
    answer = _Answers(front, may, measure)
    made.router.add_get("/{path:.*}", answer.respond, allow_head=False)
    return made


class _Answers:
    def __init__(self, front: FrontProxy, may: May, measure: Measure) -> None:
        self._front, self._may, self._measure = front, may, measure

    async def respond(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return web.json_response(await self._answer(request))
        except _Refused as refused:
            return _status(refused.code, str(refused))
        except TimeoutError:
            return _status(504, f"No answer within {ANSWER_SECONDS:g} s: the database or the API server is slow.")

    async def _answer(self, request: web.Request) -> dict[str, Any]:
        who = self._caller(request)
        match request.path.strip("/").split("/"):
            case ["apis", group, version, "namespaces", namespace, metric] if (group, version) == (GROUP, VERSION):
                await self._authorise(who, request.path, namespace, metric)
                if not is_name(namespace):
                    raise _Refused(404, f"There is no namespace {namespace!r}.")
                return await self._values(namespace, metric, request.query.get("labelSelector", ""))
            case _ if request.path.rstrip("/") == ROOT:
                await self._authorise(who, request.path)
                return discovery()
            case _:
                # The API server looks for more than there is, such as OpenAPI, and takes this for an answer.
                raise _Refused(404, f"There is nothing at {request.path}.")

    def _caller(self, request: web.Request) -> Caller:
        certificate = request.transport.get_extra_info("peercert") if request.transport else None
        try:
            return caller(self._front, common_names(certificate), request.headers.items())
        except Stranger as error:
            raise _Refused(401, str(error)) from error

    async def _authorise(self, who: Caller, path: str, namespace: str = "", metric: str = "") -> None:
        try:
            allowed = await self._may(review(who, path=path, namespace=namespace, metric=metric))
        except SoloistError as error:
            raise _Refused(503, f"Nobody could say whether {who.user!r} may: {error}") from error
        if not allowed:
            what = f"{metric}.{GROUP} in the namespace {namespace!r}" if metric else f"the path {path!r}"
            raise _Refused(403, f"{who.user!r} may not read {what}: grant {'list' if metric else 'get'} on it.")

    async def _values(self, namespace: str, metric: str, selector: str) -> dict[str, Any]:
        if metric not in METRICS:
            raise _Refused(404, f"There is no metric {metric!r}: ask for one of {', '.join(METRICS)}.")
        try:
            queues = queues_of(selector)
        except BadSelector as error:
            raise _Refused(400, str(error)) from error
        found = await asyncio.gather(
            *(self._measure(QueueName(namespace, queue)) for queue in queues), return_exceptions=True
        )
        measured = {}
        for queue, outcome in zip(queues, found, strict=True):
            if isinstance(outcome, BaseException):
                _raise(outcome)
            measured[queue] = outcome
        return values(metric, measured)


def _raise(error: BaseException) -> NoReturn:
    """An autoscaler that were given a part of the sum would scale by it: nothing is better."""
    if isinstance(error, SoloistError):
        raise _Refused(503 if isinstance(error, TransientError) else 404, str(error)) from error
    raise error


def _status(code: int, message: str) -> web.Response:
    return web.json_response(refusal(code, _REASONS[code], message), status=code)
