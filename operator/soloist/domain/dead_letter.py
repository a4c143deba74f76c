"""A row that was given up or is held for a person, as people see it."""

from dataclasses import dataclass
from datetime import datetime


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
