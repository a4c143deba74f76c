"""A job's delay after its tick, the same on every replica and at every look.

A 32-bit hash of job and tick is scaled to the window, as Temporal does for its schedules, so a thousand jobs due at midnight
spread evenly and stay where they are. The window ends before the next tick, so that ticks never overtake one another.
"""

import hashlib
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def jitter(uid: str, tick: datetime, window: timedelta, next_tick: datetime | None) -> timedelta:
    """Whole milliseconds in [0, window), and ``tick`` plus it lies before ``next_tick``; zero where there is no room."""
    room = window if next_tick is None else min(window, next_tick - tick)
    span = max(0, room // _MILLISECOND)
    key = f"{uid}/{(tick - _EPOCH) // timedelta(seconds=1)}".encode()
    drawn = int.from_bytes(hashlib.sha256(key).digest()[:4], "big")
    return (span * drawn >> 32) * _MILLISECOND
