"""Changes of ScheduledJobs as kopf sees them: the only place that imports kopf, and it only watches.

Why it is right: ``kopf.on.event`` writes nothing (no finalizer, no annotation, no peering, no Event); kopf has a thread and a
loop of its own, since it cancels every task that was created after it started; it ends on what it takes for fatal, so it is
started again, with a growing wait; and since it gets its session from us, each of its requests is seen: a watch is renewed
every ``window`` seconds, so one that is silent for three times that is dead, whatever kopf believes (nolar/kopf#1276), and each list
is a gap, which the caller closes by its own: of what is in it nothing is told, as nothing is of changes of a status alone.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp
import kopf

from soloist.adapters.kube.api import open_session
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.served import check_served
from soloist.adapters.kube.status_echoes import WithoutEchoes, WithoutItems
from soloist.adapters.kube.store import GROUP, JOBS, VERSION, path_of, slim
from soloist.domain.errors import TransientError
from soloist.ports import Raw

DEAD_AFTER_WINDOWS = 3
LONGEST_WAIT = 30.0
STOP_SECONDS = 5.0
_log = logging.getLogger(__name__)


class KopfWatch:
    """Tells the loop that ``start`` was called in of every change: ``on_event(type, object)``, ``on_gap()`` where it is to list.

    ``heard`` is the CLOCK_BOOTTIME of the last answer to a list or watch of the namespace that has been silent the longest.
    """

    def __init__(
        self,
        access: Access,
        *,
        on_event: Callable[[str, Raw], None],
        on_gap: Callable[[], None],
        boottime: Callable[[], float],
        namespaces: Sequence[str] = (),
        window: int = 25,
    ) -> None:
        self._access, self._on_event, self._on_gap = access, on_event, on_gap
        self._boottime, self._namespaces, self._window = boottime, tuple(namespaces), window
        paths = [path_of(JOBS, namespace) for namespace in self._namespaces or (None,)]
        self._heard: dict[str, float] = dict.fromkeys(paths, float("-inf"))
        self._watched = dict(self._heard)
        self._known: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._caller: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._started = threading.Event()

    @property
    def heard(self) -> float:
        return min(self._heard.values())

    @property
    def watched(self) -> float:
        """The same of watches alone: -inf until each namespace has one."""
        return min(self._watched.values())

    def start(self) -> None:
        """Begin, from within the loop that is to be told."""
        # What it has to say about its own retries is noise to us: its end and its silence are what we report.
        logging.getLogger("kopf").setLevel(logging.CRITICAL)
        self._caller = asyncio.get_running_loop()
        self._thread.start()
        self._started.wait(STOP_SECONDS)

    async def stop(self) -> bool:
        """End it within some seconds. False: it still hangs, in a thread that does not keep the process alive."""
        if self._thread.is_alive() and self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.run(self._supervise())

    async def _supervise(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        # Made before kopf starts, which waits for, and then cancels, whatever task is younger than itself.
        stopped = asyncio.create_task(self._stopping.wait())
        failures = 0
        while not stopped.done():
            began = self._boottime()
            try:
                await check_served(self._access, JOBS)
                await self._watch_once(stopped, began)
                error: BaseException | None = None
            except Exception as problem:  # noqa: BLE001 - whatever ended kopf, it must not end the watching
                error = problem
            if stopped.done():
                return
            failures = 0 if self._boottime() - began > 2 * LONGEST_WAIT else failures + 1
            wait = min(LONGEST_WAIT, 0.5 * 2.0 ** min(failures, 10))
            _log.warning(
                "the watch of ScheduledJobs ended; starting it again", extra={"error": repr(error), "in": wait}
            )
            await asyncio.wait({stopped}, timeout=wait)

    async def _watch_once(self, stopped: asyncio.Task[Any], began: float) -> None:
        """Run kopf until it ends, is to stop, or is silent for too long."""
        enough = asyncio.Event()
        silent = False
        operator = asyncio.create_task(
            kopf.operator(
                registry=self._registry(),
                settings=_settings(self._window),
                identity="soloist",  # type: ignore[arg-type]  # else it asks for the user's name: a container's has none
                standalone=True,
                clusterwide=not self._namespaces,
                namespaces=self._namespaces,
                stop_flag=enough,
            )
        )
        try:
            while not operator.done():
                await asyncio.wait({operator, stopped}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                silent = self._boottime() - max(began, self.heard) > DEAD_AFTER_WINDOWS * self._window
                if stopped.done() or silent:
                    enough.set()
                    await asyncio.wait({operator}, timeout=STOP_SECONDS / 2)
                    break
        finally:
            operator.cancel()
            await asyncio.wait({operator}, timeout=STOP_SECONDS / 4)
        if operator.done() and not operator.cancelled():
            operator.result()
        if silent:
            raise TransientError("the watch went silent")

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        logins = 0

        async def login(**_: Any) -> kopf.AiohttpSession:
            # Asked for again after a 401, at once and for ever: hence the wait.
            nonlocal logins
            await asyncio.sleep(min(LONGEST_WAIT, 2.0**logins - 1.0))
            logins += 1
            session = open_session(self._access, limit=0, on_answer=self._answered)
            return kopf.AiohttpSession(server=self._access.host, aiohttp_session=session)

        async def changed(event: Any, **_: Any) -> None:
            obj = event["object"]
            # A copy: the object is kopf's own.
            self._tell(self._on_event, event["type"] or "ADDED", slim({**obj, "metadata": dict(obj["metadata"])}))

        kopf.on.login(registry=registry, id="login")(login)
        kopf.on.event(group=GROUP, version=VERSION, plural=JOBS, registry=registry, id="changed")(changed)
        return registry

    def _answered(self, request: aiohttp.ClientRequest, response: aiohttp.ClientResponse) -> None:
        path = request.url.path
        if path in self._heard and response.status in (403, 404):
            self._tell(self._on_gap)  # the caller's own list is told why, and tells people
        if response.status != 200 or path not in self._heard:
            return
        self._heard[path] = self._boottime()
        if "watch" in request.url.query:
            self._watched[path] = self._boottime()
            response.content = WithoutEchoes(response.content, self._known)  # type: ignore[assignment]
            return
        response.content = WithoutItems(response.content, self._known)  # type: ignore[assignment]
        self._tell(self._on_gap)

    def _tell(self, callback: Callable[..., None], *args: Any) -> None:
        if self._caller is not None and not self._caller.is_closed():
            self._caller.call_soon_threadsafe(callback, *args)


def _settings(window: int) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.process.ultimate_exiting_timeout = None
    settings.watching.server_timeout = window
    settings.watching.client_timeout = window + 10
    settings.watching.connect_timeout = 5
    settings.watching.inactivity_timeout = window + 5
    settings.watching.reconnect_backoff = 1
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = (1, 2, 4)
    return settings
