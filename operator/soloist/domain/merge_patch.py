"""How a status is written: as what changes in it."""

from collections.abc import Mapping
from typing import Any


def merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch applied (RFC 7386): objects are merged, null removes, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
