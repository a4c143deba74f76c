"""Launches outrank bookkeeping: what is not urgent waits while launches are under way, but not for ever."""

import asyncio
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
        """Urgent until it is done, for ``SETTING_OUT`` at the most."""
        self._enter()
        left = False

        def leave(_: object = None) -> None:
            nonlocal left
            if not left:
                left = True
                self._leave()
                timer.cancel()

        timer = asyncio.get_running_loop().call_later(SETTING_OUT, leave)
        effect.add_done_callback(leave)

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
