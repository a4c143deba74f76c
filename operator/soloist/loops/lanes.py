"""Launches outrank bookkeeping: what is not urgent waits while launches are under way, but not for ever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PATIENCE = 2.0
"""Seconds that bookkeeping waits for launches at the most, so that a stream of them does not starve it."""


class Lanes:
    """``urgent`` for what leads to a launch, ``patient`` for the rest, at most ``width`` of the latter at a time."""

    def __init__(self, width: int) -> None:
        self._width = asyncio.Semaphore(width)
        self._urgent = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @asynccontextmanager
    async def urgent(self) -> AsyncIterator[None]:
        self._urgent += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._urgent -= 1
            if not self._urgent:
                self._quiet.set()

    @asynccontextmanager
    async def patient(self) -> AsyncIterator[None]:
        async with self._width:
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._quiet.wait()
            except TimeoutError:
                await asyncio.sleep(0)
            yield
