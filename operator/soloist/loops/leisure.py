"""Jobs of which nothing is wanted but bookkeeping: they are looked at once the launches of others are through.

Of thousands that are due at one instant the first have ended while the last still wait for their turn; to think about what
was done, or to find that there is nothing to do, would make those late. Nobody waits for longer than the bookkeeping itself
would, and whatever else happens to a job is looked at as soon as ever.
"""

import asyncio
from itertools import islice

from soloist.domain.launching import idle_after
from soloist.domain.runs import Run
from soloist.domain.view import View
from soloist.loops.cache import Key
from soloist.loops.lanes import PATIENCE, Lanes
from soloist.loops.turns import AT_ONCE, Turns


class Leisure:
    """``turns`` looks at jobs; ``closed``: from then on each is looked at when its action ends."""

    def __init__(self, lanes: Lanes, turns: Turns) -> None:
        self._lanes, self._turns = lanes, turns
        self._resting: set[Key] = set()
        self._waiting: dict[Key, float] = {}
        self._waking: asyncio.Task[None] | None = None
        self._closed = False

    def close(self) -> None:
        """Whatever ends is to be written at once."""
        self._closed = True

    def rests(self, key: Key, view: View, launched: Run) -> bool:
        """Whether nothing more is wanted of that job for now; then it is looked at a while later, or when its action ends."""
        seconds = idle_after(view, launched).total_seconds()
        if seconds > 0:
            self._resting.add(key)
            self._turns.come_back(key, seconds)
        return seconds > 0

    def looked_at(self, key: Key) -> None:
        self._resting.discard(key)

    def ended(self, key: Key) -> None:
        """An action of that job is over."""
        if key not in self._resting or self._closed:
            self._turns.wake(key)
            return
        self._waiting.setdefault(key, asyncio.get_running_loop().time())
        if self._waking is None:
            self._waking = asyncio.create_task(self._wake_all(), name="leisure")

    async def _wake_all(self) -> None:
        """A few at a time, when it is quiet, or when the first of them has waited for long enough."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                await self._lanes.until_quiet(next(iter(self._waiting.values())) + PATIENCE - loop.time())
                for key in list(islice(self._waiting, AT_ONCE)):
                    del self._waiting[key]
                    self._turns.wake(key)
                await asyncio.sleep(0)
        finally:
            self._waking = None
