"""Pods of an application with its sidecar: real processes, the application being a Node program around the client of docs/elect.md.

A Pod is a `soloist elect` (parent and child) and a Node process that asks it at an interval and appends a line for each
answer: when, which slot it worked, or why not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.api.crew import FAST, children_of
from tests.cluster.children import Child, until
from tests.cluster.free_ports import free_ports
from tests.docs.pages import DOCS
from tests.queue.examples import BLOCK, node_home
from tests.queue.nodejs import find_node

HERE = Path(__file__).parent
EXAMPLES: dict[str, str] = dict(BLOCK.findall((DOCS / "elect.md").read_text(encoding="utf-8")))
ENTRY = [sys.executable, "-c", "from soloist.shells.main import main; main()", "elect"]
TIMER = r"""
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
const LOG: string = process.env.LOG;
const say = (line: object) => appendFileSync(LOG, JSON.stringify({ at: Date.now() / 1000, ...line }) + "\n");
async function sweep(slot: Slot) { say({ slot: slot.slot, fence: slot.fence, key: slot.key }); }
const console = { log: (why: string) => why === "Ran" || say({ why }) };
createServer((_: any, reply: any) => reply.end("well")).listen(Number(process.env.PORT), "127.0.0.1");
"""


def compiled(folder: Path) -> Path:
    """The client and the timer of the page as one program, every second in place of every five minutes; strictly typed."""
    timer = EXAMPLES["ts-timer"].replace('"300s"', '"1s"').replace("60_000", "150")
    assert '"1s"' in timer
    assert "150" in timer
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node.d.ts").write_text(
        'declare module "node:fs" { export const appendFileSync: (path: string, text: string) => void }\n'
        'declare module "node:http" { export const createServer: any }\n'
        "declare const process: { env: Record<string, any> };\n"
    )
    (folder / "app.ts").write_text(EXAMPLES["ts-client"] + TIMER + timer)
    tsc = node_home(HERE / "typescript") / "node_modules" / "typescript" / "bin" / "tsc"
    options = ["--strict", "--target", "es2022", "--module", "nodenext"]
    argv = [find_node().program, tsc, *options, "app.ts", "node.d.ts"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "app.js"


@dataclass
class Pod:
    """``app`` and ``sidecar`` share nothing but a port, as in a Pod."""

    name: str
    folder: Path
    program: Path
    env: dict[str, str]
    arguments: tuple[str, ...] = ()
    port: int = field(default_factory=lambda: free_ports(1)[0])
    health: int = field(default_factory=lambda: free_ports(1)[0])
    app_port: int = field(default_factory=lambda: free_ports(1)[0])
    sidecar: Child = field(init=False)
    app: Child = field(init=False)

    def __post_init__(self) -> None:
        well = f"http://127.0.0.1:{self.app_port}/healthz"
        env = {
            "POD_NAME": self.name,
            "SOLOIST_HEALTH_PORT": str(self.health),
            "SOLOIST_API_PORT": str(self.port),
            "SOLOIST_HEALTH": well,
            "SOLOIST_HEALTH_PERIOD": "0.4",
            **FAST,
            **self.env,
        }
        self.sidecar = Child(self.name, [*ENTRY, *self.arguments], log=self.folder / f"{self.name}.log", env=env)
        asked = {
            "SOLOIST_SIDECAR": self.url,
            "LOG": str(self.lines_file),
            "PORT": str(self.app_port),
        }
        argv, log = [find_node().program, self.program], self.folder / f"{self.name}-app.log"
        self.app = Child(f"{self.name}-app", argv, log=log, env=asked)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def lines_file(self) -> Path:
        return self.folder / f"{self.name}.lines"

    def start(self) -> None:
        for child in (self.sidecar, self.app):
            if not child.alive():
                child.start()

    def lines(self) -> list[dict[str, Any]]:
        """What the application wrote; a line that its death cut short is left out."""
        if not self.lines_file.exists():
            return []
        return [json.loads(line) for line in self.lines_file.read_text().splitlines() if line.endswith("}")]

    def swept(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if "slot" in line]

    def reasons(self) -> set[str]:
        return {line["why"].split(":")[0] for line in self.lines() if "why" in line}

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, Any]]:
        return ask(self.port, path, method, **headers)

    def sidecar_pids(self) -> list[int]:
        return [self.sidecar.pid, *children_of(self.sidecar.pid)]

    def signal_all(self, number: signal.Signals) -> None:
        """The application and its sidecar, as when the whole Pod is frozen, thawed or lost."""
        for pid in [*self.sidecar_pids(), self.app.pid]:
            os.kill(pid, number)

    def shut_down(self) -> None:
        """As the kubelet does it: the application first, then its native sidecar."""
        self.app.stop(grace=10)
        os.kill(self.sidecar.pid, signal.SIGTERM)
        until(lambda: not self.sidecar.alive(), what=f"{self.name} has ended", timeout=90)

    def stop(self) -> None:
        for child in (self.app, self.sidecar):
            child.stop()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)
    except OSError:
        return 0, {}


def holder(pods: list[Pod], *, lease: str = "sweep", other_than: Pod | None = None) -> Pod:
    """Wait until one of them holds the Lease."""

    def found() -> Pod | None:
        return next((pod for pod in pods if pod is not other_than and pod.ask(f"/{lease}")[0] == 200), None)

    return until(found, what=f"somebody other than {other_than and other_than.name} holds {lease}", timeout=120)


def command_pids(marker: str) -> list[int]:
    """The shells whose command line has the marker, but for what they are about to start: it has theirs until it is itself.

    What starts and guards them has it too, and is no shell.
    """
    found: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if words.startswith(b"sh\0") and marker.encode() in words and state not in "ZX":
            found[int(entry.name)] = int(parent)
    return sorted(pid for pid, parent in found.items() if parent not in found)
