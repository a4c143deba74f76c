"""An event loop whose time passes only while nothing is left to do, and then at once. Hours of waiting take no time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
MANY_TURNS = 10_000
"""At one time. Whoever then still asks for the next moment waits for less than the time can show, and would for ever."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time starts at zero. For code that waits for nothing but this loop: no sockets, no threads."""

    def __init__(self) -> None:
        super().__init__()
        self._now, self._turns = 0.0, 0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        self._turns += 1
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now, self._turns = max(self._now, self._scheduled[0].when()), 0  # type: ignore[attr-defined]
        elif self._turns > MANY_TURNS:
            self._now = math.nextafter(self._now, math.inf)
        super()._run_once()  # type: ignore[misc]


class LoopClock:
    """CLOCK_BOOTTIME as the running loop has it; ``slept`` is what the machine slept meanwhile."""

    def __init__(self) -> None:
        self.slept = 0.0

    def boottime(self) -> float:
        return asyncio.get_running_loop().time() + self.slept


def run(body: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(body)
