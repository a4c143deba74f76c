"""One key of a Secret or ConfigMap, read when it is needed.

Why it is right: a value is kept for some seconds only, so that a burst of runs reads once and a rotated token is soon the
new one; it is wrapped in something that shows itself to nobody who does not ask; and a sentence names the object and the
key, never what is in them.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from soloist.adapters.kube.answers import NotFound
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.store import collection
from soloist.adapters.sealed import Sealed
from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError

_PLURALS = {"Secret": "secrets", "ConfigMap": "configmaps"}
_MOST_KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    until: float
    values: dict[str, Sealed | None]


class KubeSecrets:
    """Reads keys in the namespace of whoever asks. ``keep`` is how long an object is not asked for again, in seconds."""

    def __init__(self, api: KubeApi, *, boottime: Callable[[], float], keep: float = 2.0) -> None:
        self._api = api
        self._boottime = boottime
        self._keep = keep
        self._kept: dict[tuple[str, str, str], _Kept] = {}

    async def read(self, namespace: str, ref: KeyRef) -> Sealed:
        """The value, as text; ``PermanentError`` with a sentence where the object or its key is not there."""
        place = f"{ref.kind} {namespace}/{ref.name}"
        if ref.kind not in _PLURALS:
            raise PermanentError(f"{place} cannot be read: write a reference to a Secret or a ConfigMap.")
        values = await self._values(namespace, ref, place)
        if ref.key not in values:
            raise PermanentError(f"{place} has no key {ref.key!r}: add it, or name another key.")
        value = values[ref.key]
        if value is None:
            raise PermanentError(f"{place}: the value of key {ref.key!r} is not UTF-8 text: store it as text.")
        return value

    async def _values(self, namespace: str, ref: KeyRef, place: str) -> dict[str, Sealed | None]:
        key = (ref.kind, namespace, ref.name)
        now = self._boottime()
        kept = self._kept.get(key)
        if kept is not None and now < kept.until:
            return kept.values
        try:
            found = await self._api.request("GET", collection("/api/v1", _PLURALS[ref.kind], namespace, ref.name))
        except NotFound as error:
            raise PermanentError(f"{place} does not exist: create it, or name another one.") from error
        values = _sealed(ref.kind, found.get("data") or {})
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[key] = _Kept(until=now + self._keep, values=values)
        return values


def _sealed(kind: str, content: dict[str, Any]) -> dict[str, Sealed | None]:
    if kind == "ConfigMap":
        return {key: Sealed(str(value)) for key, value in content.items()}
    return {key: _decoded(value) for key, value in content.items()}


def _decoded(value: Any) -> Sealed | None:
    try:
        return Sealed(base64.b64decode(value).decode("utf-8"))
    except (binascii.Error, UnicodeDecodeError, TypeError):
        return None
