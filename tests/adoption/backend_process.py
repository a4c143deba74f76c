"""Replicas of an example's backend: Node processes of manifests/examples/NAME/backend, fetched as its lock file says.

How it comes to be out of ``backend/`` is what the example's page says, in the line ``(cd manifests/examples/NAME/backend && npm ci …)``, done once for
each state of the files. The program, server.js or another, listens on $PORT and answers GET /healthz with 200 once it is ready.

    replicas = [BackendProcess("invoices", f"b{number}", tmp_path, DATABASE_URL=dsn) for number in range(2)]
    for each in replicas:
        each.start()              # start() again after kill(): the same port
"""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.children import Child, until
from tests.cluster.free_ports import free_ports
from tests.cluster.versions import Unavailable
from tests.docs.pages import ROOT
from tests.queue.examples import node_home
from tests.queue.nodejs import find_node

EXAMPLES = ROOT / "manifests" / "examples"
MADE = r"^\(cd manifests/examples/{}/backend && (npm ci .+)\)$"


def backend_home(example: str) -> Path:
    """A copy of the example's backend, made as its page says."""
    made = re.findall(
        MADE.format(example), (EXAMPLES / example / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(made) == 1, f"the page of {example} says {len(made)} times how its backend is made"
    try:
        return node_home(EXAMPLES / example / "backend", made[0])
    except Unavailable as reason:
        pytest.fail(str(reason), pytrace=False)


class BackendProcess:
    """One replica. Its variables are those of `env`, with PORT and PGSSLMODE=disable; its log is FOLDER/NAME.log."""

    def __init__(self, example: str, name: str, folder: Path, *, program: str = "server.js", **env: str) -> None:
        self.name, self.port = name, free_ports(1)[0]
        home = backend_home(example)
        variables = {"PGSSLMODE": "disable", **env, "PORT": str(self.port)}
        self.child = Child(name, [find_node().program, home / program], log=folder / f"{name}.log", env=variables)

    def url(self, path: str = "") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def start(self, *, ready: bool = True) -> None:
        self.child.start()
        if ready:
            self.ready()

    def ready(self, timeout: float = 60.0) -> None:
        until(lambda: self.ask("/healthz")[0] == 200, what=f"{self.name} is ready", timeout=timeout, needs=[self.child])

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, str]:
        """Status and body; status 0 where there was no answer."""
        content = None if body is None else json.dumps(body).encode()
        head = {
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        request = urllib.request.Request(self.url(path), content, method=method, headers=head)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""

    def kill(self) -> None:
        """SIGKILL to it and what it started; gone when this returns."""
        self.child.stop()

    def terminate(self, timeout: float = 60.0) -> None:
        """SIGTERM, and wait for its end."""
        self.child.signal(signal.SIGTERM)
        until(lambda: not self.child.alive(), what=f"{self.name} has ended", timeout=timeout)

    def log(self) -> str:
        return self.child.log.read_text(errors="replace") if self.child.log.exists() else ""

    def said(self, text: str) -> list[str]:
        """The lines of its log in which that text stands."""
        return [line for line in self.log().splitlines() if text in line]
