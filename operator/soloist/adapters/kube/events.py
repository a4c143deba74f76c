"""Events on objects (events.k8s.io/v1), told in the background: the ``Recorder`` port.

Why it is right: nobody waits for an Event and none is worth a failed run, so ``event`` only notes down and never raises. Like
ones (object, reason, message) within ten minutes are one Event whose series counts them, told once a minute, so a job that
fails each second makes one object and not a flood; what the token bucket does not let through yet is folded while it waits;
and what is more than may wait is dropped and counted.
"""

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from soloist.adapters.kube.answers import NotFound
from soloist.adapters.kube.api import MERGE_PATCH, KubeApi
from soloist.adapters.kube.store import collection
from soloist.domain.errors import SoloistError
from soloist.ports import Raw

CONTROLLER = "soloist.dev/controller"
SERIES_SECONDS = 600.0
COUNT_SECONDS = 60.0
MOST_WAITING = 1000
MOST_KNOWN = 4096
NOTE_BYTES = 1024
_log = logging.getLogger(__name__)

_Key = tuple[str, str, str]


@dataclass(slots=True, kw_only=True)
class _Series:
    """Like Events, told or still to tell. ``name`` is empty until the first of them has been created."""

    regarding: Raw
    type: str
    first: datetime
    last: datetime
    count: int = 1
    name: str = ""
    told: datetime | None = None

    def may_wait(self, now: datetime) -> bool:
        """A count that was told a short while ago can be told with the next one."""
        return self.count > 2 and self.told is not None and (now - self.told).total_seconds() < COUNT_SECONDS


class KubeRecorder:
    """Notes Events down; ``run`` tells them, at most ``burst`` at once and then ``rate`` a second."""

    def __init__(
        self,
        api: KubeApi,
        *,
        instance: str,
        now: Callable[[], datetime],
        dropped: Callable[[], None] = lambda: None,
        rate: float = 5.0,
        burst: int = 50,
    ) -> None:
        self._api = api
        self._instance = instance[:128] or "soloist"
        self._now = now
        self._dropped = dropped
        self._rate = rate
        self._burst = burst
        self._waiting: OrderedDict[_Key, None] = OrderedDict()
        self._known: OrderedDict[_Key, _Series] = OrderedDict()
        self._some = asyncio.Event()

    def event(self, regarding: Raw, *, reason: str, message: str, warning: bool = False) -> None:
        """Note it down. Call it in the loop that ``run`` runs in."""
        about = _regarding(regarding)
        key = (about.get("uid", ""), reason, message)
        now = self._now()
        known = self._known.get(key)
        if known is not None and (now - known.last).total_seconds() <= SERIES_SECONDS:
            known.count += 1
            known.last = now
            if known.may_wait(now):
                return
        else:
            kind = "Warning" if warning else "Normal"
            self._known[key] = _Series(regarding=about, type=kind, first=now, last=now)
        self._known.move_to_end(key)
        if key not in self._waiting and len(self._waiting) >= MOST_WAITING:
            self._dropped()
            return
        self._waiting[key] = None
        self._some.set()

    async def run(self) -> None:
        """Tell what is noted down, until cancelled."""
        loop = asyncio.get_running_loop()
        tokens, at = float(self._burst), loop.time()
        while True:
            await self._some.wait()
            tokens, at = min(self._burst, tokens + (loop.time() - at) * self._rate), loop.time()
            if tokens < 1:
                await asyncio.sleep((1 - tokens) / self._rate)
                continue
            tokens -= 1
            key, _ = self._waiting.popitem(last=False)
            if not self._waiting:
                self._some.clear()
            await self._tell(key)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)

    async def _tell(self, key: _Key) -> None:
        series = self._known.get(key)
        if series is None:
            self._dropped()
            return
        try:
            if series.name:
                with suppress(NotFound):  # it has expired on the server: make another
                    await self._count(series)
                    return
            await self._create(series, reason=key[1], note=key[2])
        except SoloistError as error:
            self._dropped()
            _log.debug("an Event was not recorded", extra={"reason": key[1], "error": str(error)})

    async def _create(self, series: _Series, *, reason: str, note: str) -> None:
        name = f"{series.regarding['name'][:200]}.{secrets.token_hex(8)}"
        namespace = series.regarding["namespace"]
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": _micro(series.first),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": reason[:128],
            "reason": reason[:128],
            "regarding": series.regarding,
            "note": _cut(note),
            "type": series.type,
        } | ({"series": _counted(series)} if series.count > 1 else {})
        await self._api.request("POST", collection("/apis/events.k8s.io/v1", "events", namespace), body)
        series.name, series.told = name, self._now()

    async def _count(self, series: _Series) -> None:
        path = collection("/apis/events.k8s.io/v1", "events", series.regarding["namespace"], series.name)
        await self._api.request("PATCH", path, {"series": _counted(series)}, content_type=MERGE_PATCH)
        series.told = self._now()


def _counted(series: _Series) -> dict[str, Any]:
    return {"count": series.count, "lastObservedTime": _micro(series.last)}


def _regarding(raw: Raw) -> Raw:
    metadata = raw.get("metadata", {})
    return {
        "apiVersion": raw.get("apiVersion", ""),
        "kind": raw.get("kind", ""),
        "namespace": metadata.get("namespace") or "default",
        "name": metadata.get("name", ""),
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }


def _cut(note: str) -> str:
    """The greatest note that the API takes is 1 KiB, and it is bytes that are counted."""
    encoded = note.encode("utf-8", "replace")
    return note if len(encoded) <= NOTE_BYTES else encoded[: NOTE_BYTES - 3].decode("utf-8", "ignore") + "…"


def _micro(moment: datetime) -> str:
    """A MicroTime: six digits, always (a whole second without a fraction is refused by its parser)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
