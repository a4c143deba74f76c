"""Times as the API server writes and reads them: RFC 3339, UTC."""

from datetime import UTC, datetime
from typing import Any


def parse_time(text: Any) -> datetime | None:
    """An RFC 3339 time as the API server writes it, or None for whatever is not one."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC; whole seconds where the moment is one, else microseconds."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")
