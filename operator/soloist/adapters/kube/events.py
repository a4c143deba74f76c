"""Events on objects (events.k8s.io/v1), told in the background: the ``Recorder`` port.

Why it is right: nobody waits for an Event and none is worth a failed run, so ``event`` only notes down and never raises. Like
ones (object, reason, message) within ten minutes are one Event whose series counts them, told once a minute, so a job that
fails each second makes one object and not a flood; what waits is folded, however long; and what is more than may wait is
dropped and counted. What the server does not answer waits until it does, behind the others, so an outage leaves the Events
that say so, with the times when it happened; under one name, so an answer that was lost makes no second one. A refusal is
tried once more, since a server that has just started refuses what it does not know yet, and is dropped then.
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

from soloist.adapters.kube.answers import Clash, NotFound
from soloist.adapters.kube.api import MERGE_PATCH, KubeApi
from soloist.adapters.kube.store import collection
from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.ports import Raw

CONTROLLER = "soloist.dev/controller"
SERIES_SECONDS = 600.0
COUNT_SECONDS = 60.0
AGAIN_SECONDS = 2.0
MOST_WAITING = 1000
MOST_KNOWN = 4096
NOTE_BYTES = 1024
_log = logging.getLogger(__name__)

_Key = tuple[str, str, str]


@dataclass(slots=True, kw_only=True)
class _Series:
    """Like Events, told or still to tell."""

    regarding: Raw
    type: str
    first: datetime
    last: datetime
    name: str
    count: int = 1
    told: datetime | None = None
    refused: bool = False

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
        full = key not in self._waiting and len(self._waiting) >= MOST_WAITING
        if known is not None and (key in self._waiting or (now - known.last).total_seconds() <= SERIES_SECONDS):
            known.count += 1
            known.last = now
            if known.may_wait(now):
                return
        elif not full:
            kind, name = "Warning" if warning else "Normal", f"{about['name'][:200]}.{secrets.token_hex(8)}"
            self._known[key] = _Series(regarding=about, type=kind, first=now, last=now, name=name)
        if full:
            self._dropped()
            return
        self._known.move_to_end(key)
        self._waiting[key] = None
        self._some.set()
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

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
            series = self._known.get(key)
            if series is None or not await self._told(series, reason=key[1], note=key[2]):
                self._dropped()

    async def _told(self, series: _Series, *, reason: str, note: str) -> bool:
        """Whether it is, or is to be tried again; False: it is given up."""
        try:
            if series.told is None or not await self._count(series):
                await self._create(series, reason=reason, note=note)
        except SoloistError as error:
            again = isinstance(error, TransientError) or not series.refused
            series.refused = isinstance(error, PermanentError)
            _log.debug("an Event is not recorded", extra={"reason": reason, "error": str(error), "again": again})
            if again:
                self._waiting[series.regarding["uid"], reason, note] = None
                self._some.set()
                await asyncio.sleep(AGAIN_SECONDS)
            return again
        series.told, series.refused = self._now(), False
        return True

    async def _create(self, series: _Series, *, reason: str, note: str) -> None:
        namespace = series.regarding["namespace"]
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": namespace},
            "eventTime": _micro(series.first),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": reason[:128],
            "reason": reason[:128],
            "regarding": series.regarding,
            "note": _cut(note),
            "type": series.type,
        } | ({"series": _counted(series)} if series.count > 1 else {})
        with suppress(Clash):  # it is there: the answer to an earlier try was lost
            await self._api.request("POST", collection("/apis/events.k8s.io/v1", "events", namespace), body)

    async def _count(self, series: _Series) -> bool:
        """False: it has expired on the server."""
        path = collection("/apis/events.k8s.io/v1", "events", series.regarding["namespace"], series.name)
        with suppress(NotFound):
            await self._api.request("PATCH", path, {"series": _counted(series)}, content_type=MERGE_PATCH)
            return True
        return False


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
