"""Says on this worker's Pod what it costs to delete it, for as long as the worker runs.

It is a hint and never more: a cost that cannot be written is told once and tried again, and no row waits for it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from soloist.domain.deletion_cost import cost_of, is_to_be_written
from soloist.domain.errors import SoloistError
from soloist.ports import Clock

_log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0


class DeletionCosts:
    """Of one Pod. ``write`` puts a cost on it; ``SoloistError`` where it cannot."""

    def __init__(self, in_hand: Callable[[], int], write: Callable[[int], Awaitable[None]], *, clock: Clock) -> None:
        self._in_hand, self._write, self._clock = in_hand, write, clock
        # What an earlier container of the Pod wrote may still be there.
        self._written: int | None = None
        self._tried = float("-inf")
        self._trouble = ""

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Once."""
        cost, now = cost_of(self._in_hand()), self._clock.boottime()
        if not is_to_be_written(cost, written=self._written, since=now - self._tried):
            return
        self._tried = now
        try:
            await self._write(cost)
        except SoloistError as error:
            self._written = None
            if str(error) != self._trouble:
                _log.warning("deletion cost not written", extra={"cost": cost, "sentence": str(error)})
            self._trouble = str(error)
        else:
            self._written, self._trouble = cost, ""
