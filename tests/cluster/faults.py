"""What an HTTPS proxy does to a request that a rule matches: a small set of values."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answers in the API server's place; the request never reaches it."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hold:
    """Keeps the request from the API server until `rule.release()`, whether or not its sender still waits."""


@dataclass(frozen=True, slots=True)
class HoldReply:
    """The request takes effect; its reply waits for `rule.release()`."""


@dataclass(frozen=True, slots=True)
class DropReply:
    """The request takes effect; then its connection is reset."""


@dataclass(frozen=True, slots=True)
class DelayReply:
    seconds: float


@dataclass(frozen=True, slots=True)
class Truncate:
    """The reply's head with its full length, then half of its body, then the connection ends."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """A stream (a watch) stays open and brings nothing more until `rule.release()`; also one that already runs."""


Effect = Answer | Hold | HoldReply | DropReply | DelayReply | Truncate | Freeze


def refused(status: int, reason: str, message: str = "a fault of the test", retry_after: int | None = None) -> Answer:
    """The Status object that an API server sends: 409 Conflict or AlreadyExists, 410 Expired, 429 TooManyRequests, …"""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": status,
    }
    headers = {"Content-Type": "application/json"}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return Answer(status=status, body=json.dumps(body).encode(), headers=headers)


UNAVAILABLE = refused(503, "ServiceUnavailable")
TOO_MANY = refused(429, "TooManyRequests", retry_after=1)
INTERNAL = refused(500, "InternalError")
CONFLICT = refused(409, "Conflict")
UNAUTHORIZED = refused(401, "Unauthorized")
FORBIDDEN = refused(403, "Forbidden")
EXPIRED = refused(410, "Expired")
BAD_GATEWAY = Answer(status=502, body=b"<html><h1>502 Bad Gateway</h1></html>", headers={"Content-Type": "text/html"})
GONE_IN_WATCH = Answer(
    status=200,
    body=json.dumps({"type": "ERROR", "object": json.loads(EXPIRED.body)}).encode() + b"\n",
    headers=EXPIRED.headers,
)
EMPTY = Answer(status=200, headers={"Content-Type": "application/json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as it came to the proxy. `path` has its query."""

    method: str
    path: str
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Rule:
    """Matches requests and says what befalls them, at most `times` of them. The test may wait for what it caught."""

    def __init__(
        self, method: str, path: str, effect: Effect, when: Callable[[Seen], bool] | None, times: int | None
    ) -> None:
        self.effect = effect
        self.caught: list[Seen] = []
        self.statuses: list[int] = []
        self._method, self._path, self._when, self._left = method, re.compile(path), when, times
        self._news = threading.Condition()
        self._waiting: list[Callable[[], object]] = []
        self.released = False
        self.removed = False

    def takes(self, seen: Seen) -> bool:
        """Whether this request is the rule's; counts it."""
        if self.removed or self._left == 0 or not self.concerns(seen):
            return False
        with self._news:
            self._left = None if self._left is None else self._left - 1
            self.caught.append(seen)
            self._news.notify_all()
        return True

    def concerns(self, seen: Seen) -> bool:
        if self._method not in ("*", seen.method) or not self._path.search(seen.path):
            return False
        return self._when is None or self._when(seen)

    def wait(self, count: int = 1, timeout: float = 60.0) -> Seen:
        """Returns the `count`th request caught, when it is."""
        with self._news:
            if not self._news.wait_for(lambda: len(self.caught) >= count, timeout):
                raise TimeoutError(f"Not within {timeout} s: request {count} of {self._method} {self._path.pattern}.")
            return self.caught[count - 1]

    def answered(self, status: int) -> None:
        """The API server's answer to one that went on to it, whether or not its sender still waits."""
        with self._news:
            self.statuses.append(status)
            self._news.notify_all()

    def wait_for_answer(self, timeout: float = 60.0) -> int:
        """The HTTP status of the first answer, when it is there."""
        with self._news:
            if not self._news.wait_for(lambda: bool(self.statuses), timeout):
                raise TimeoutError(f"Not within {timeout} s: an answer to {self._method} {self._path.pattern}.")
            return self.statuses[0]

    def release(self) -> None:
        """Lets go what is held, and everything that matches later."""
        with self._news:
            self.released, waiting, self._waiting = True, self._waiting, []
        for tell in waiting:
            tell()

    def when_released(self, tell: Callable[[], object]) -> None:
        with self._news:
            if not self.released:
                self._waiting.append(tell)
                return
        tell()

    def remove(self) -> None:
        """The rule catches nothing more; what it holds goes on."""
        self.removed = True
        self.release()
