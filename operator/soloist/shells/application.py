"""Looks at the application's health, so that a Lease does not stay with a replica that can do nothing with it.

Before its first good answer the application is not there, and no Lease is stood for. It is unwell after some failed looks
in a row, and well again after one good one.
"""

import asyncio
import logging
from collections.abc import Callable

import aiohttp

_log = logging.getLogger("soloist.elect")

STARTING = "the application has not said yet that it is well"


class Application:
    """``changed`` is given why it is unwell, or nothing where it is well: each time that this turns."""

    def __init__(self, url: str, *, period: float, failures: int, changed: Callable[[str], None]) -> None:
        self._url, self._period, self._most, self._changed = url, period, failures, changed
        self._failed = 0
        self.unwell = STARTING

    async def run(self) -> None:
        """Until cancelled."""
        bound = aiohttp.ClientTimeout(total=self._period)
        async with aiohttp.ClientSession(timeout=bound, trust_env=False) as session:
            while True:
                self._heard(await self._look(session))
                await asyncio.sleep(self._period)

    async def _look(self, session: aiohttp.ClientSession) -> str:
        try:
            async with session.get(self._url, allow_redirects=False) as reply:
                return "" if 200 <= reply.status < 400 else f"{self._url} answered {reply.status}"
        except TimeoutError:
            return f"{self._url} did not answer within {self._period:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return f"{self._url} does not answer: {error}"

    def _heard(self, trouble: str) -> None:
        self._failed = self._failed + 1 if trouble else 0
        if trouble and (self.unwell or self._failed < self._most):
            return
        now = f"the application is unwell: {trouble}" if trouble else ""
        if now != self.unwell:
            _log.warning("application unwell", extra={"sentence": now}) if now else _log.info("application well")
            self.unwell = now
            self._changed(now)
