"""The examples of manifests/examples as their readers run them: applied, with addresses and databases of one's own put in.

Each has a namespace, and a database where it names one, to itself; all are served by the same two controllers and one worker.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.api.crew import Crew, Raw
from tests.api.tending import CALM, ready
from tests.cluster.backend import Backend
from tests.cluster.children import Child
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.postgres.server import Database, Postgres
from tests.queue.workers import ENTRY as WORKER
from tests.queue.workers import Worker

FOLDER = Path(__file__).parents[2] / "manifests" / "examples"
SOLOIST = [sys.executable, "-c", "from soloist.shells.main import main; main()"]
ADDRESS = re.compile(r"http://[a-z-]+\.default\.svc(:\d+)?")
DATABASE = re.compile(r"postgresql://\w+:replace-me@[\w.-]+(:\d+)?/\w+")


@dataclass
class Example:
    """One that was applied."""

    namespace: Namespace
    database: Database
    config: Path
    crew: Crew

    def kubectl(self, *arguments: str) -> str:
        return self.namespace.kubectl(*arguments)

    def soloist(self, *arguments: str) -> tuple[int, str]:
        """The exit code, and what it said."""
        env = {**os.environ, "KUBECONFIG": str(self.config)}
        argv = [*SOLOIST, *arguments, "--lease-namespace", "soloist"]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def runs(self, trigger: str = "") -> list[Raw]:
        """Those that are over, oldest first, or of one trigger."""
        found = [run for run in self.crew.runs() if trigger in ("", run["spec"].get("trigger", "Manual"))]
        ended = [run for run in found if "completionTime" in run.get("status", {})]
        return sorted(ended, key=lambda run: str(run["metadata"]["creationTimestamp"]))

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.database.connect() as connection:
            return connection.execute(query, values).fetchall()


@dataclass
class Stand:
    """Where examples are applied before, or while, controllers and a worker are up."""

    cluster: ControlPlane
    backend: Backend
    postgres: Postgres
    template: str
    folder: Path
    crew: Crew = field(init=False)
    applied: list[Example] = field(default_factory=list)
    worker: Worker | None = None

    def __post_init__(self) -> None:
        home = Namespace(name="soloist", cluster=self.cluster)
        self.cluster.api().create("/api/v1/namespaces", {"metadata": {"name": home.name}})
        self.crew = Crew(self.cluster, home, self.folder, env=dict(CALM))

    def put(self, file: str, space: str, *, as_it_is: bool = False, **edits: str) -> Example:
        """Apply it in a new namespace. ``as_it_is``: with the addresses in it. ``edits``: by name, ``this => that``."""
        database = self.postgres.create_database(f"example_{space.replace('-', '_')}", template=self.template)
        text = (FOLDER / file).read_text(encoding="utf-8")
        for edit in edits.values():
            this, that = edit.split(" => ")
            assert this in text, f"{file} does not say {this!r}"
            text = text.replace(this, that)
        if not as_it_is:
            text = DATABASE.sub(database.dsn(), ADDRESS.sub(self.backend.url(""), text))
        namespace = Namespace(name=space, cluster=self.cluster)
        self.cluster.api().create("/api/v1/namespaces", {"metadata": {"name": space}})
        config = self.cluster.kubeconfig(self.folder / f"{space}.kubeconfig", namespace=space)
        made = Example(namespace, database, config, Crew(self.cluster, namespace, self.folder))
        self.applied.append(made)
        made.namespace.kubectl("apply", "-f", "-", stdin=text)
        return made

    def start(self, *names: str) -> None:
        ports = free_ports(len(names))
        for name, port in zip(names, ports, strict=True):
            every = {"SOLOIST_NAMESPACE": "", "SOLOIST_MEASURE_QUEUES": "1", "SOLOIST_HEALTH_PORT": str(port)}
            self.crew.start(name, **every)
        for name, port in zip(names, ports, strict=True):
            self.crew.wait(partial(ready, port), what=f"{name} is ready", timeout=120)

    def start_worker(self) -> None:
        config = self.cluster.kubeconfig(self.folder / "worker.kubeconfig")
        local = {"SOLOIST_HEALTH_PORT": "0", "SOLOIST_HEALTH_ADDRESS": "127.0.0.1", "SOLOIST_DATA_ALLOW": "127.0.0.0/8"}
        env = {"KUBECONFIG": str(config), "POD_NAME": "worker", **local}
        self.worker = Worker("worker", Child("worker", WORKER, log=self.folder / "worker.log", env=env))
        self.worker.process.start()

    def stop(self) -> None:
        self.crew.stop()
        if self.worker is not None:
            self.worker.process.stop()
            print(f"---- log of the worker\n{self.worker.process.tail(30)}")
        for member in self.crew.members.values():
            print(f"---- log of {member.name}\n{member.log()[-6000:]}")
        for example in self.applied:
            self.postgres.drop_database(example.database.name)
