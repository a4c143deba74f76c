"""Times as the API server writes and reads them: RFC 3339, UTC."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

FIRST_YEAR, LAST_YEAR = 1970, 9000
"""Room on both sides for arithmetic; a time outside is taken for none."""

CLOCKS_DIFFER = timedelta(minutes=1)
"""What lies further ahead than this was written by no clock that anybody should follow."""


def parse_time(text: Any) -> datetime | None:
    """An RFC 3339 time as the API server writes it, or None for whatever is not one."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        utc = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return utc if FIRST_YEAR <= utc.year <= LAST_YEAR else None


@lru_cache(maxsize=128)
def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC; whole seconds where the moment is one, else microseconds. Thousands may ask for one moment."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def rfc3339(moment: datetime) -> str:
    """The same in whole seconds."""
    return stamp(moment.replace(microsecond=0))
