"""``/healthz``, ``/readyz`` and ``/metrics`` on a small server in the process's own loop.

That it shares the loop is meant: a loop that no longer turns answers no probe, and the kubelet restarts the Pod.
A check is a function that answers at once with (well?, a sentence); a check that raises counts as unwell.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from soloist.shells.listening import listening

Check = Callable[[], tuple[bool, str]]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def health_server(
    *, address: str, port: int, alive: Mapping[str, Check], ready: Mapping[str, Check], registry: CollectorRegistry
) -> AbstractAsyncContextManager[int]:
    """As ``listening`` gives it. Checks may be added to ``alive`` and ``ready`` while it serves."""
    application = web.Application()
    application.add_routes(
        [
            web.get("/healthz", _answering(alive)),
            web.get("/readyz", _answering(ready)),
            web.get("/metrics", _exposing(registry)),
        ]
    )
    return listening(application, setting="health-port", address=address, port=port)


def _answering(checks: Mapping[str, Check]) -> Answer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        results = {name: _asked(check) for name, check in checks.items()}
        well = all(ok for ok, _ in results.values())
        lines = [f"{'ok  ' if ok else 'FAIL'} {name}: {sentence}" for name, (ok, sentence) in results.items()]
        return web.Response(status=200 if well else 503, text="\n".join([*lines, "ok" if well else "not ok", ""]))

    return answer


def _asked(check: Check) -> tuple[bool, str]:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - whatever it is, the answer is "unwell", and the reason is in it
        return False, f"the check itself failed: {type(error).__name__}: {error}"


def _exposing(registry: CollectorRegistry) -> Answer:
    async def expose(request: web.Request) -> web.StreamResponse:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    return expose
