"""When to look at which job again: one alarm a job, the earliest first."""

import heapq
from typing import Generic, TypeVar

K = TypeVar("K")


class Alarms(Generic[K]):
    """Moments on CLOCK_BOOTTIME. Setting one again replaces it; the old entry is passed over when it comes up."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._set: dict[K, tuple[float, int]] = {}
        self._serial = 0

    def set(self, key: K, moment: float) -> None:
        self._serial += 1
        self._set[key] = (moment, self._serial)
        heapq.heappush(self._heap, (moment, self._serial, key))

    def clear(self, key: K) -> None:
        self._set.pop(key, None)

    def due(self, moment: float) -> list[K]:
        """Those whose time has come, cleared."""
        keys = []
        while self._heap and self._heap[0][0] <= moment:
            at, serial, key = heapq.heappop(self._heap)
            if self._set.get(key) == (at, serial):
                del self._set[key]
                keys.append(key)
        return keys

    def next(self) -> float | None:
        """The earliest moment that still stands."""
        while self._heap and self._set.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
