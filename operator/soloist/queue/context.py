"""What a handler is given: its row, the claim that it works under, and how to hear that the claim is over.

The same object for handlers that are awaited and for those that run in a thread, so nothing in it waits: ``cancelled`` is
read, and ``extend`` moves a number that the loop looks at. A lease is renewed by the worker and needs no help; the time that
``extend`` moves is the handler's own, after which it is taken for hung.
"""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

from soloist.domain.claims import Claim
from soloist.queue.errors import ClaimLost


class Context:
    """One attempt of one row. ``boottime`` is a clock in seconds that nobody can set."""

    def __init__(self, queue: str, claim: Claim, key: str, *, seconds: float, boottime: Callable[[], float]) -> None:
        self.queue, self.key, self._claim = queue, key, claim
        self._seconds, self._boottime = seconds, boottime
        self._until = boottime() + seconds
        self._over = threading.Event()

    @property
    def payload(self) -> Any:
        return self._claim.payload

    @property
    def row(self) -> int:
        """The id that ``enqueue`` gave."""
        return int(self._claim.row[0])

    @property
    def fence(self) -> int:
        """Rises with every claim of any row: whoever keeps the highest one it saw can refuse what is older."""
        return self._claim.fence

    @property
    def attempt(self) -> int:
        """Rises with outcomes, not with crashes."""
        return self._claim.attempt

    @property
    def due(self) -> datetime | None:
        return self._claim.due

    @property
    def unique_key(self) -> str | None:
        return self._claim.unique_key

    @property
    def cancelled(self) -> bool:
        """Whether to stop: the claim is lost, the time is over, or the worker goes away. Nothing more is to be written."""
        return self._over.is_set()

    def wait_cancelled(self, seconds: float) -> bool:
        """Sleep for so long in a handler that runs in a thread, or until it is to stop; ``cancelled`` afterwards."""
        return self._over.wait(seconds)

    def extend(self, seconds: float | None = None) -> None:
        """Still at it: from now it may take ``seconds``, or as long as it was given at first. ``ClaimLost``: stop."""
        if self.cancelled:
            raise ClaimLost(f"the claim of row {self.row} under fence {self.fence} is over: stop, and write nothing.")
        self._until = self._boottime() + (self._seconds if seconds is None else seconds)

    def left(self) -> float:
        """Seconds until it is taken for hung."""
        return self._until - self._boottime()

    def cancel(self) -> None:
        """The worker's word to the handler."""
        self._over.set()
