"""A counting HTTP backend in a process of its own: what an application behind a scheduled run would see.

Its file is the truth: a test reads records from it, so they are there even when the backend itself is dead.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from types import TracebackType
from typing import Any, Self

from tests.cluster.children import Child, until


@dataclass(slots=True, kw_only=True)
class Received:
    """One request. `boot` is CLOCK_BOOTTIME when its head had been read; `ended_boot` is None while it is being served."""

    number: int
    wall: float
    boot: float
    method: str
    path: str
    headers: dict[str, str]
    body: str
    ended_boot: float | None = None

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.wall, UTC)

    def header(self, name: str) -> str | None:
        wanted = name.lower()
        return next((value for key, value in self.headers.items() if key.lower() == wanted), None)


class Backend:
    """`with Backend() as backend: … backend.url("/hook") … backend.wait(3)`."""

    def __init__(self, directory: Path | None = None, *, address: str = "127.0.0.1") -> None:
        self._owned = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="soloist-backend-"))
        self.file = self.directory / "received.jsonl"
        server = Path(__file__).with_name("backend_server.py")
        argv = [sys.executable, "-P", server, self.file, address]
        self.child = Child("backend", argv, log=self.directory / "backend.log")
        self.address = address
        self._received: dict[int, Received] = {}
        self._offset = 0
        self._reading = threading.Lock()
        self.port = self._control = 0

    def __enter__(self) -> Self:
        self.child.start()
        ports = self.file.with_suffix(".ports")
        until(ports.exists, what="the backend listens", timeout=60, needs=[self.child])
        found = json.loads(ports.read_text())
        self.port, self._control = found["port"], found["control"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.stop()
        if self._owned:
            rmtree(self.directory, ignore_errors=True)

    def url(self, path: str = "/") -> str:
        return f"http://{self.address}:{self.port}{path}"

    # What it shall do

    def rule(self, path: str = "", **rule: Any) -> None:
        """From now on, for paths in which the regular expression is found, the newest rule decides. Keywords: holding (only
        for requests with that text in their body), status, body, headers, delay (seconds before the reply), hang, reset (RST
        once the request is read), writes (the URL of a database with the schema: a row each in its tables history and notifications, of key and
        fence, unless soloist.once says that the key was there), times (how often), kill_caller (SIGKILL on receipt to the process that sent it), kill_after_reply (likewise)."""
        unknown = rule.keys() - RULES
        if unknown:
            raise ValueError(
                f"{', '.join(sorted(unknown))} is no part of a backend's rule; these are: {', '.join(RULES)}."
            )
        self._tell("POST", {"path": path, **rule})

    def clear(self) -> None:
        """No rules: everything is answered with 200 and `ok`, at once."""
        self._tell("DELETE", None)

    def _tell(self, method: str, body: Any) -> None:
        content = json.dumps(body).encode()
        told = urllib.request.Request(f"http://127.0.0.1:{self._control}/", content, method=method)
        with urllib.request.urlopen(told, timeout=60) as answer:
            answer.read()

    # What it saw

    def received(self, path: str | None = None) -> list[Received]:
        """All requests so far, in the order of their arrival; only those whose path begins with `path`, if given."""
        with self._reading, self.file.open("rb") as records:
            records.seek(self._offset)
            for line in records:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self._take(json.loads(line))
            return [each for each in self._received.values() if path is None or each.path.startswith(path)]

    def _take(self, record: dict[str, Any]) -> None:
        event, number = record.pop("event"), record["number"]
        if event == "received":
            self._received[number] = Received(**record)
        else:
            self._received[number].ended_boot = record["boot"]

    def wait(
        self,
        count: int = 1,
        *,
        timeout: float = 60.0,
        path: str | None = None,
        when: Callable[[Received], bool] | None = None,
    ) -> list[Received]:
        """Returns when `count` requests (that `when` accepts) are there, with all of them."""

        def enough() -> list[Received] | None:
            found = [each for each in self.received(path) if when is None or when(each)]
            return found if len(found) >= count else None

        return until(enough, what=f"{count} requests received", timeout=timeout, needs=[self.child])

    def most_at_once(self, path: str | None = None) -> int:
        """The largest number of requests that were being served at one moment."""
        edges: list[tuple[float, int]] = []
        for each in self.received(path):
            edges.append((each.boot, 1))
            if each.ended_boot is not None:
                edges.append((each.ended_boot, -1))
        now = most = 0
        for _, step in sorted(edges):
            now += step
            most = max(most, now)
        return most


RULES = (
    "holding",
    "status",
    "body",
    "headers",
    "delay",
    "hang",
    "reset",
    "writes",
    "times",
    "kill_caller",
    "kill_after_reply",
)
