"""How many jobs are due at one instant, and so how long before it they must begin to be recorded."""

from collections import Counter
from datetime import datetime

from soloist.loops.cache import Key

QUIET_LEAD, LEAD_EACH = 0.03, 0.0025
"""Seconds: how long before its time a lone run is recorded, and how much sooner for each other one due at that instant."""

MANY = 1000


class Crowd:
    """Each job stands at the instant of its next launch. ``most``: seconds that a record may lie ahead, for each ``MANY``."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._instants: dict[Key, datetime] = {}
        self._counted: Counter[datetime] = Counter()

    def stand_at(self, key: Key, instant: datetime | None) -> None:
        before = self._instants.pop(key, None)
        if before is not None:
            self._counted[before] -= 1
            if not self._counted[before]:
                del self._counted[before]
        if instant is not None:
            self._instants[key] = instant
            self._counted[instant] += 1

    def lead(self, key: Key) -> float:
        """As shortly before the time as the burst allows, in seconds."""
        many = self._counted[self._instants[key]] if key in self._instants else 1
        return min(self._most * max(1.0, many / MANY), QUIET_LEAD + LEAD_EACH * many)
