"""What an application asks its sidecar: who holds a Lease, a slot, and to give it up. JSON over HTTP, on this host only.

200 means yes. Whatever else comes, and that nothing comes, means: do not run. Web pages are kept out, since a browser on
this host could reach the port too: their requests carry an Origin, or another Host.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from aiohttp import web

from soloist.domain.cron_fields import InvalidSchedule
from soloist.domain.every import Every, parse_every
from soloist.domain.instants import stamp
from soloist.domain.slot_memory import document, remembered
from soloist.domain.slots import Refused, SlotReason, Timer, until_next
from soloist.loops.election_ports import Clocks
from soloist.shells.elect_telemetry import ElectMetrics
from soloist.shells.listening import listening
from soloist.shells.seat import Seat, View

LOCAL = "127.0.0.1"
_HOSTS = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
_TIMER = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,62}")
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ElectApi:
    """The routes over the seats of this process."""

    def __init__(self, seats: Mapping[str, Seat], clock: Clocks, metrics: ElectMetrics) -> None:
        self._seats, self._clock, self._metrics = seats, clock, metrics

    def serve(self, port: int) -> AbstractAsyncContextManager[int]:
        """As ``listening`` gives it."""
        application = web.Application(middlewares=[_only_from_here])
        application.add_routes(
            [
                web.get("/{name}", self._holder),
                web.get("/{name}/ticks", self._slots),
                web.post("/{name}/ticks", self._tick),
                web.post("/release", self._release),
                web.post("/{name}/release", self._release),
            ]
        )
        return listening(application, setting="api-port", address=LOCAL, port=port)

    async def _holder(self, request: web.Request) -> web.Response:
        seat = self._seat(request)
        view = seat.view()
        said = {"lease": f"{seat.ground.namespace}/{seat.ground.name}", "holder": view.term is not None} | _who(view)
        return web.json_response(said, status=200 if view.term is not None else 409)

    async def _tick(self, request: web.Request) -> web.Response:
        seat, timer = self._seat(request), _timer(request)
        found = await seat.grant(timer)
        now = self._clock.now()
        said: dict[str, Any] = {
            "granted": not isinstance(found, Refused),
            "timer": timer.name,
            "slot": stamp(found.slot),
            "nextSeconds": round(until_next(timer, now).total_seconds(), 3),
        }
        if isinstance(found, Refused):
            self._metrics.asked(seat.ground.name, found.reason)
            said |= {"reason": found.reason, "message": f"{found.message} Do not run."}
            return web.json_response(said, status=503 if found.reason is SlotReason.NOT_RECORDED else 409)
        self._metrics.asked(seat.ground.name, "Granted")
        key = f"{found.term.lease_uid}/{timer.name}/{stamp(found.slot)}"
        said |= {"key": key, "fence": found.term.epoch, "trustSeconds": round(found.trust, 3)}
        return web.json_response(said)

    async def _slots(self, request: web.Request) -> web.Response:
        seat = self._seat(request)
        record, age = seat.view().record, seat.view().age
        if record is None:
            raise _refusal(web.HTTPServiceUnavailable, "The Lease was not read yet, or is not there.")
        timers = {name: document(memory) for name, memory in remembered(record.raw).items()}
        return web.json_response({"timers": timers, "ageSeconds": round(age, 3)})

    async def _release(self, request: web.Request) -> web.Response:
        named = [self._seat(request)] if "name" in request.match_info else list(self._seats.values())
        asked = request.query.get("for")
        for seat in named:
            aside = _every(asked, "for").period.total_seconds() if asked else seat.ground.timing.lease
            seat.release(aside, "the application asked for it")
        return web.json_response({"released": [seat.ground.name for seat in named]}, status=202)

    def _seat(self, request: web.Request) -> Seat:
        name = request.match_info["name"]
        if name not in self._seats:
            known = ", ".join(self._seats)
            raise _refusal(
                web.HTTPNotFound, f"This sidecar does not stand for {name}: it stands for {known} (--lease)."
            )
        return self._seats[name]


def _who(view: View) -> dict[str, Any]:
    if view.term is not None:
        return {"fence": view.term.epoch, "trustSeconds": round(view.left, 3), "heldBy": view.term.identity}
    record = view.record
    holder = record.holder if record is not None else ""
    if view.away:
        reason, message = "GivenUp", f"This replica takes no part now: {view.away}."
    elif holder:
        reason, message = "NotHolder", f"{holder} holds the Lease."
    else:
        why = f" {view.notice.removesuffix('.')}." if view.notice else ""
        reason, message = "NotHolder", f"Nobody is known to hold the Lease.{why}"
    said = {"fence": record.epoch if record is not None else None, "trustSeconds": 0.0, "heldBy": holder}
    return said | {"reason": reason, "message": f"{message} Do not run."}


def _timer(request: web.Request) -> Timer:
    every = _every(request.query.get("every", ""), "every")
    name = request.query.get("timer") or f"{every.period.total_seconds():.0f}s"
    if not _TIMER.fullmatch(name):
        raise _refusal(web.HTTPBadRequest, f"timer is {name!r}: write up to 63 letters, digits, '-', '_' and '.'.")
    return Timer(name=name, every=every)


def _every(text: str, named: str) -> Every:
    try:
        return parse_every(f"@every {text}")
    except InvalidSchedule as error:
        remedy = f"write whole seconds, minutes, hours or days, such as {named}=300s or {named}=1h30m, up to 366d."
        raise _refusal(web.HTTPBadRequest, f"{named} is {text!r}: {remedy}") from error


def _refusal(kind: type[web.HTTPError], message: str) -> web.HTTPError:
    body = web.json_response({"granted": False, "message": message})
    return kind(text=body.text, content_type="application/json")


@web.middleware
async def _only_from_here(request: web.Request, handler: Answer) -> web.StreamResponse:
    if "Origin" in request.headers or not _HOSTS.fullmatch(request.host):
        raise _refusal(
            web.HTTPForbidden,
            f"This port is for the application beside it: ask http://{LOCAL}, and not from a web page.",
        )
    return await handler(request)
