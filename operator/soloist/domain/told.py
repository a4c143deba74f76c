"""What the status of an object says already, and what becomes of its conditions with a write.

The time of a transition moves only with what it is the time of, so that it can be relied on; conditions of other writers
are left as they are.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from soloist.domain.instants import stamp

Patch = dict[str, Any]


def told(status: Any, kind: str) -> Mapping[str, Any]:
    """The condition of that type as it stands; empty where there is none."""
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    return next((each for each in conditions or () if each.get("type") == kind), {})


def part(status: Mapping[str, Any], key: str) -> dict[str, Any]:
    """What stands under ``key``, if it is a mapping."""
    value = status.get(key)
    return dict(value) if isinstance(value, Mapping) else {}


def merge_conditions(
    status: Mapping[str, Any], wanted: Iterable[tuple[str, str, str, str]], generation: int, now: datetime
) -> list[Patch]:
    """lastTransitionTime moves only where the status does, for Scheduled with the reason too, since a pause begins with it.

    Conditions of other writers stay. ``wanted``: type, status, reason and message of each.
    """
    known = {str(condition.get("type")): condition for condition in status.get("conditions") or ()}
    result = []
    for kind, value, reason, message in wanted:
        old = known.pop(kind, {})
        same = old.get("status") == value and (kind != "Scheduled" or old.get("reason") == reason)
        since = old.get("lastTransitionTime") if same else None
        result.append(
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": since or stamp(now.replace(microsecond=0)),
            }
        )
    return [*result, *(dict(condition) for condition in known.values())]
