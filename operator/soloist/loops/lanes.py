"""Launches outrank bookkeeping: what is not urgent waits while launches are under way, but not for ever."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

PATIENCE = 2.0
"""Seconds that bookkeeping waits for launches at the most, so that a stream of them does not starve it."""

SETTING_OUT = 1.0
"""Seconds for which an action that has not ended counts as being launched: its request may not be out yet."""


class Lanes:
    """``urgent`` for what leads to a launch, ``patient`` for the rest, at most ``width`` of the latter at a time."""

    def __init__(self, width: int) -> None:
        self._width = asyncio.Semaphore(width)
        self._urgent = 0
        self._out: set[asyncio.Future[Any]] = set()
        self._set_out: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextmanager
    def urgent(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def launching(self, effect: "asyncio.Future[Any]") -> None:
        """Urgent until it is done, for ``SETTING_OUT`` at the most. One timer for all: there may be thousands."""
        loop = asyncio.get_running_loop()
        self._enter()
        self._out.add(effect)
        if not self._set_out:
            loop.call_later(SETTING_OUT, self._look_after)
        self._set_out.append((loop.time() + SETTING_OUT, effect))
        effect.add_done_callback(self._is_out)

    def _is_out(self, effect: "asyncio.Future[Any]") -> None:
        if effect in self._out:
            self._out.remove(effect)
            self._leave()

    def _look_after(self) -> None:
        """Those that have been on their way for long enough."""
        loop = asyncio.get_running_loop()
        while self._set_out and self._set_out[0][0] <= loop.time():
            self._is_out(self._set_out.popleft()[1])
        if self._set_out:
            loop.call_at(self._set_out[0][0], self._look_after)

    @asynccontextmanager
    async def patient(self, *, hurry: bool = False) -> AsyncIterator[None]:
        """Waits side by side with others of its kind: each is held up for ``PATIENCE`` at the most, not all in turn.

        ``hurry``: whoever asks is itself about to launch, and would be late for that if it stood here.
        """
        if hurry:
            with self.urgent():
                yield
            return
        loop = asyncio.get_running_loop()
        limit = loop.time() + PATIENCE
        while True:
            await self.until_quiet(limit - loop.time())
            async with self._width:
                if self._quiet.is_set() or loop.time() >= limit:
                    yield
                    return

    async def until_quiet(self, seconds: float) -> None:
        """Until nothing is urgent, for that time at the most."""
        if self._quiet.is_set() or seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._quiet.wait()
        except TimeoutError:
            return

    def _enter(self) -> None:
        self._urgent += 1
        self._quiet.clear()

    def _leave(self) -> None:
        self._urgent -= 1
        if not self._urgent:
            self._quiet.set()
