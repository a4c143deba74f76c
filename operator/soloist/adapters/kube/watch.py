"""An endless bare watch of some collections: JSON lines in, (type, object) out.

Why it is right: bookmarks keep the position fresh; a stream on which nothing comes, not even a bookmark, is given up; a
position that the server no longer has (410), or that will not be served three times in a row, is a gap, and a gap is closed
by the caller's own list; and between two tries lies a wait that grows, so a server that closes at once makes no hot loop.
What a relist cannot tell (what was deleted in the gap) is the caller's: it has the old list and the new one.
"""

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, NoReturn

from soloist.adapters.kube.answers import Expired, NotFound, from_watch_error
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.store import slim
from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.ports import Raw

OnEvent = Callable[[str, Raw], None]
Relist = Callable[[], Awaitable[str]]
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
_GAP_AFTER = 3
_log = logging.getLogger(__name__)


class Watch:
    """Follows ``paths`` for ever, from what ``relist`` returns: the resourceVersion of the list that it has just taken.

    ``window`` is how long one stream may last (the server ends it), ``quiet`` how long it may say nothing: a server sends a
    bookmark each minute and one at the end of the window, so the lesser of the two plus some is the least useful value.
    ``refused`` is told, once, what the server will not have.
    """

    def __init__(
        self,
        api: KubeApi,
        paths: Sequence[str],
        *,
        on_event: OnEvent,
        relist: Relist,
        boottime: Callable[[], float],
        selector: str = "",
        window: float = 240.0,
        quiet: float = 70.0,
        first_wait: float = 0.2,
        longest_wait: float = 30.0,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._on_event = on_event
        self._relist = relist
        self._boottime = boottime
        self._selector = selector
        self._window = window
        self._quiet = quiet
        self._waits = (first_wait, longest_wait)
        self._heard: dict[str, float] = dict.fromkeys(paths, float("-inf"))
        self._watched = dict(self._heard)
        self._refused = refused
        self._unlisted: SoloistError | None = None
        self._unwatched: dict[str, SoloistError] = {}
        self._position: dict[str, str] = {}
        self._listing = asyncio.Lock()
        self._listed = (float("-inf"), "")

    @property
    def heard(self) -> float:
        """CLOCK_BOOTTIME of the last line, or list, of the path that has been silent the longest; -inf before the first."""
        return min(self._heard.values(), default=float("-inf"))

    @property
    def watched(self) -> float:
        """The same of lines alone: -inf until a stream stands for each path."""
        return min(self._watched.values(), default=float("-inf"))

    @property
    def trouble(self) -> SoloistError | None:
        """Why there is no list, or no stream, at this moment."""
        return self._unlisted or next(iter(self._unwatched.values()), None)

    async def run(self) -> NoReturn:
        """Follow until cancelled. Whatever goes wrong with the server is logged once and tried again."""
        async with asyncio.TaskGroup() as group:
            for path in self._heard:
                group.create_task(self._follow(path))
        raise AssertionError("a watch ends by being cancelled only")

    async def _follow(self, path: str) -> NoReturn:
        failures = 0
        lost = self._boottime()
        while True:
            if failures:
                await asyncio.sleep(self._wait(failures))
            try:
                if path not in self._position:
                    self._position[path] = await self._close_gap(path, lost)
                useful = await self._stream(path)
                failures = 0 if useful else failures + 1
            except Expired:
                _log.info("the watch fell behind; listing again", extra={"path": path})
                self._position.pop(path, None)
                failures += 1
            except SoloistError as error:
                failures += 1
                # Of a kind that is there no more the list says so.
                gone = isinstance(error, NotFound) and self._position.pop(path, None) is not None
                if not gone and (self._is_news(path, error) or failures == 1):
                    _log.warning("the watch broke; trying again", extra={"path": path, "error": str(error)})
                asked = min(error.retry_after or 0.0, self._waits[1]) if isinstance(error, TransientError) else None
                await asyncio.sleep(asked or 0.0)
            if failures and failures % _GAP_AFTER == 0:
                self._position.pop(path, None)
            if path not in self._position:
                lost = self._boottime()

    def _is_news(self, path: str, error: SoloistError) -> bool:
        """Keeps it for ``trouble``. A refusal that is another than before is somebody's to lift, and ``refused`` is told."""
        if path in self._position:
            before, self._unwatched[path] = self._unwatched.get(path), error
        else:
            before, self._unlisted = self._unlisted, error
        news = isinstance(error, PermanentError) and str(error) != str(before)
        if news:
            self._refused(str(error))
        return news

    async def _close_gap(self, path: str, lost: float) -> str:
        """The position to go on from: of the last relist, if that began after the gap did, else of a new one."""
        async with self._listing:
            began, position = self._listed
            if began < lost or not position:
                began = self._boottime()
                position = await self._relist()
                self._unlisted = None
                self._listed = (began, position)
        self._heard[path] = max(began, self._heard[path])
        return position

    async def _stream(self, path: str) -> bool:
        """Read one stream to its end. Was it any use: did the server let it last, or send a change?"""
        window = self._window * random.uniform(0.9, 1.0)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._position[path],
            "timeoutSeconds": str(max(1, int(window))),
        } | ({"labelSelector": self._selector} if self._selector else {})
        began = self._boottime()
        useful = False
        async with aclosing(self._api.lines(path, query, quiet=self._quiet, total=window + self._quiet)) as lines:
            async for line in lines:
                self._heard[path] = self._watched[path] = self._boottime()
                self._unwatched.pop(path, None)
                if not line:
                    continue
                kind, obj = _parse(path, line)
                if kind in _CHANGES:
                    useful = True
                    self._on_event(kind, slim(obj))
                version = obj.get("metadata", {}).get("resourceVersion")
                self._position[path] = str(version or self._position[path])
        return useful or self._boottime() - began > min(5.0, window / 2)

    def _wait(self, failures: int) -> float:
        first, longest = self._waits
        return min(longest, first * 2.0 ** min(failures - 1, 20)) * random.uniform(0.7, 1.3)


def _parse(path: str, line: bytes) -> tuple[str, dict[str, Any]]:
    """One line as (type, object); an ERROR line as the exception it stands for."""
    try:
        event = json.loads(line)
        kind, obj = event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise TransientError(f"WATCH {path}: a line is not a watch event: {line[:80]!r}") from error
    if not isinstance(obj, dict):
        raise TransientError(f"WATCH {path}: an event without an object: {line[:80]!r}")
    if kind == "ERROR":
        raise from_watch_error(f"WATCH {path}", obj)
    return kind, obj
