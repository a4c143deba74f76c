"""A row that was given up or is held for a person, as people see it."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead row. ``attempt`` is the number that a retry would make; ``row`` its primary key as text."""

    id: int
    row: tuple[str, ...]
    reason: str
    error: str | None
    attempt: int
    reclaims: int
    due: datetime | None
    died_at: datetime

    @property
    def place(self) -> "PlaceInList":
        """Those that come after it are greater."""
        return self.died_at, self.id


PlaceInList = tuple[datetime, int]
FIRST: PlaceInList = (datetime(1, 1, 3, tzinfo=UTC), 0)
"""Before every letter: the least moment that a driver of ours can say in any zone."""

A_PERSON_WAITS = 300.0
"""Seconds for what goes through all letters of a queue, of which there may be millions; no worker asks for that."""
