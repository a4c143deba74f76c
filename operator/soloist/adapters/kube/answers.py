"""What the API server said, as an exception of ours, decided in one place.

A refusal is a ``Refusal`` (a ``PermanentError``) that keeps the server's status, reason and sentence; ``store`` and ``jobs``
turn the expected ones into values, and one that nobody expects still reads as a sentence. 429 and 5xx are transient with
``sent=True``: a 5xx may come from a proxy or a time-out behind which the write went through.
"""

import json
from collections.abc import Mapping
from typing import Any

from soloist.domain.errors import PermanentError, TransientError

_TRANSIENT_BELOW_500 = frozenset({408, 425, 429})


class Refusal(PermanentError):
    """The server answered, and the answer is no. ``causes`` are the (reason, field) pairs of its Status object."""

    def __init__(
        self, message: str, *, status: int, reason: str = "", causes: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = causes

    @property
    def namespace_is_going(self) -> bool:
        """The object's namespace is being deleted: nothing can be created there any more."""
        return any(reason == "NamespaceTerminating" for reason, _ in self.causes)


class NotFound(Refusal):
    """404: no such object, or no such kind."""


class Clash(Refusal):
    """409: the name is taken (reason ``AlreadyExists``), or a precondition does not hold (``Conflict``)."""


class Expired(Refusal):
    """410: the resourceVersion or the continue token is too old; list again."""


_BY_STATUS: dict[int, type[Refusal]] = {404: NotFound, 409: Clash, 410: Expired}


def refusal_or_transient(doing: str, status: int, body: bytes, headers: Mapping[str, str]) -> Refusal | TransientError:
    """The exception for an answer that is not 2xx. ``doing`` is the verb and path; ``body`` may be anything at all."""
    said = _status_object(body)
    sentence = str(said.get("message") or body[:200].decode("utf-8", "replace").strip() or "no reason given")
    message = f"{doing}: the API server answered {status}: {sentence}"
    if status >= 500 or status in _TRANSIENT_BELOW_500:
        return TransientError(message, sent=True, retry_after=_retry_after(said, headers))
    kind = _BY_STATUS.get(status, Refusal)
    return kind(message, status=status, reason=str(said.get("reason", "")), causes=_causes(said))


def from_watch_error(doing: str, said: Mapping[str, Any]) -> Refusal | TransientError:
    """The exception for an ERROR line inside a watch, which carries a Status object."""
    code = said.get("code")
    status = code if isinstance(code, int) else 500
    return refusal_or_transient(doing, status, json.dumps(dict(said)).encode(), {})


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _details(said: Mapping[str, Any]) -> Mapping[str, Any]:
    details = said.get("details")
    return details if isinstance(details, dict) else {}


def _causes(said: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    causes = _details(said).get("causes")
    if not isinstance(causes, list):
        return ()
    return tuple((str(c.get("reason", "")), str(c.get("field", ""))) for c in causes if isinstance(c, dict))


def _retry_after(said: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    for value in (headers.get("Retry-After"), _details(said).get("retryAfterSeconds")):
        try:
            seconds = float(value) if value is not None else 0.0
        except (TypeError, ValueError):
            continue
        if seconds > 0:
            return seconds
    return None
