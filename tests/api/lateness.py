"""How late a bare timer of this process is while something is timed: what a busy machine costs, and nobody's fault."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from soloist.adapters.clock import SystemClock

PACE = 0.05
CLOCK = SystemClock()


class Lateness:
    """`with Lateness() as lateness: …`; then ``lateness.worst`` is the most that it was late, in seconds."""

    def __init__(self) -> None:
        self.worst = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lateness", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        due = CLOCK.boottime() + PACE
        while not self._ended.wait(PACE):
            now = CLOCK.boottime()
            self.worst = max(self.worst, now - due)
            due = now + PACE
