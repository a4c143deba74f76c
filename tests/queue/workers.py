"""Real workers over a real PostgreSQL and a receiver that counts: started, killed, frozen, and asked how they are.

``crew`` is a fixture. ``crew.queue("q", leaseSeconds=10)`` writes a WorkQueue into the manifest that all workers follow,
``crew.start("a")`` starts a parent and its child, ``crew.fill(100)`` enqueues payloads ``{"n": 0}`` … and ``crew.audit(100)``
says that each row was accepted once and no request came under an old fence. After every test the workers are told to go,
and then no claim is alive, nothing is in running, and no row of the sidecar has lost its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from tests.cluster.backend import Backend, Received
from tests.cluster.children import Child, until
from tests.cluster.metrics_page import series
from tests.postgres.server import Database, Postgres
from tests.queue.books import ACCEPTED, LATE, RECLAIMED, left_behind, told_as_repeats

ENTRY = [sys.executable, "-c", "from soloist.shells.main import main; main()", "worker"]


@dataclass
class Worker:
    """One parent and its child."""

    name: str
    process: Child

    def child(self) -> int:
        return until(lambda: next(iter(children_of(self.process.pid)), 0), what=f"{self.name} has a child", timeout=60)

    def kill(self) -> None:
        """SIGKILL to the child, as an OOM killer sends it; the parent then ends with its code."""
        os.kill(self.child(), signal.SIGKILL)
        self.gone()

    def freeze(self) -> None:
        os.kill(self.child(), signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.child(), signal.SIGCONT)

    def terminate(self) -> None:
        os.kill(self.process.pid, signal.SIGTERM)

    def gone(self, timeout: float = 120.0) -> int:
        """Its exit code, once it has ended."""
        until(lambda: not self.process.alive(), what=f"{self.name} has ended", timeout=timeout)
        assert self.process._running is not None
        return int(self.process._running.returncode)

    def said(self, message: str = "") -> list[dict[str, Any]]:
        """Its log lines, or those of one message."""
        lines = self.process.log.read_text(errors="replace").splitlines() if self.process.log.exists() else []
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [line for line in found if not message or line["message"] == message]

    def wait_until_it_says(self, message: str, timeout: float = 120.0) -> dict[str, Any]:
        return until(
            lambda: self.said(message)[:1], what=f"{self.name} says {message!r}", timeout=timeout, needs=[self.process]
        )[0]

    def ask(self, page: str) -> tuple[int, str]:
        port = self.wait_until_it_says("started")["health_port"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The sum over all series of that name and those labels."""
        return sum(series(self.ask("/metrics")[1], name, **labels))

    def resident_mb(self) -> float:
        rows = dict(row.split(":", 1) for row in Path(f"/proc/{self.child()}/status").read_text().splitlines())
        return int(rows["VmRSS"].split()[0]) / 1000


@dataclass
class Crew:
    """Workers of one manifest."""

    folder: Path
    database: Database
    backend: Backend
    members: dict[str, Worker] = field(default_factory=dict)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def manifest(self) -> Path:
        return self.folder / "queues.yaml"

    def queue(self, name: str = "q", *, dsn: str = "", http: dict[str, Any] | None = None, **spec: Any) -> None:
        """Write it, or write it anew. It delivers to the receiver, under its own name, which may take its time: as long as
        a claim lasts, but for a little."""
        patience = max(5, min(50, spec.get("leaseSeconds", 60) - 2))
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"db-{name}"}}
        self.documents[f"db-{name}"] = secret | {"stringData": {"uri": dsn or self.database.dsn()}}
        body = {
            "database": {"secretName": f"db-{name}", "key": "uri"},
            "deliver": {"http": {"url": self.backend.url(f"/{name}"), "timeoutSeconds": patience, **(http or {})}},
            **spec,
        }
        head = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": name}}
        self.documents[name] = head | {"spec": body}
        self.write()

    def write(self) -> None:
        half = self.folder / "half-written"
        half.write_text(yaml.safe_dump_all(self.documents.values()))
        half.rename(self.manifest)

    def start(self, name: str, **env: str) -> Worker:
        variables = {
            "SOLOIST_FILE": str(self.manifest),
            "SOLOIST_HEALTH_PORT": "0",
            "SOLOIST_HEALTH_ADDRESS": "127.0.0.1",
            "POD_NAME": name,
            **env,
        }
        process = Child(name, ENTRY, log=self.folder / f"{name}.log", env=variables)
        process.start()
        self.members[name] = Worker(name, process)
        return self.members[name]

    def ready(self, name: str, queues: int = 1, **env: str) -> Worker:
        """Started, and at work on as many queues."""
        worker = self.start(name, **env)
        until(
            lambda: len(worker.said("queue is worked")) >= queues,
            what=f"{name} works {queues} queues",
            timeout=120,
            needs=[worker.process],
        )
        return worker

    def rest(self) -> None:
        """All go away as they should, and leave nothing behind."""
        living = [worker for worker in self.members.values() if worker.process.alive()]
        for worker in living:
            worker.terminate()
        for worker in living:
            worker.gone()
        with self.connect() as connection:
            assert left_behind(connection) == {}

    def stop(self) -> None:
        for worker in self.members.values():
            worker.process.stop()

    # Rows

    def connect(self) -> psycopg.Connection[Any]:
        return self.database.connect()

    def fill(self, count: int, queue: str = "q", *, due_in: float = 0.0, first: int = 0) -> None:
        with self.connect() as connection:
            connection.execute(
                "SELECT count(*) FROM soloist.enqueue_many(%s, (SELECT array_agg(jsonb_build_object('n', g))"
                " FROM generate_series(%s::int, %s::int) AS g), clock_timestamp() + %s * interval '1 s')",
                (f"default/{queue}", first, first + count - 1, due_in),
            )

    def keep_books(self) -> None:
        """From now on the database notes what is done, and what is taken over."""
        with self.connect() as connection:
            connection.execute(ACCEPTED + RECLAIMED)

    def late(self) -> list[float]:
        """Seconds from the end of each lease to the claim that took its row over, by the database's clock alone; sorted."""
        with self.connect() as connection:
            return [row[0] for row in connection.execute(LATE)]

    def left(self, queue: str = "q") -> int:
        return self.ask("SELECT count(*) FROM soloist.work_items WHERE queue = %s", f"default/{queue}")

    def dead(self, queue: str = "q") -> int:
        return self.ask("SELECT count(*) FROM soloist.dead_items WHERE queue = %s", f"default/{queue}")

    def claimed(self) -> int:
        return self.ask("SELECT count(*) FROM soloist.work_items WHERE fence IS NOT NULL")

    def ask(self, query: str, *values: Any) -> Any:
        with self.connect() as connection:
            row = connection.execute(query, values).fetchone()
            assert row is not None
            return row[0]

    def until_empty(self, queue: str = "q", timeout: float = 240.0) -> None:
        until(lambda: self.left(queue) == 0, what=f"{queue} is empty", timeout=timeout)

    # Books

    def served(self, queue: str = "q") -> int:
        """Requests that have no answer yet."""
        return sum(each.ended_boot is None for each in self.backend.received(f"/{queue}"))

    def received(self, queue: str = "q") -> dict[int, list[Received]]:
        """The requests for each row, by its number, in the order of their arrival."""
        found: dict[int, list[Received]] = defaultdict(list)
        for each in self.backend.received(f"/{queue}"):
            found[json.loads(each.body)["n"]].append(each)
        return dict(found)

    def audit(self, count: int, queue: str = "q") -> dict[int, list[Received]]:
        """Each row accepted once and none dead; what came again came under the same key and a higher fence."""
        assert self.left(queue) == 0
        assert self.dead(queue) == 0
        assert self.claimed() == 0
        with self.connect() as connection:
            accepted = connection.execute("SELECT count(*), count(DISTINCT id) FROM public.accepted").fetchone()
        assert accepted == (count, count)
        found = self.received(queue)
        assert sorted(found) == list(range(count)), "every row was received"
        told_as_repeats(found)
        return found


@pytest.fixture
def receiver() -> Iterator[Backend]:
    with Backend() as backend:
        yield backend


@pytest.fixture
def crew(
    tmp_path: Path, own_queue_database: Database, receiver: Backend, fresh_postgres: Callable[..., Postgres]
) -> Iterator[Crew]:
    """A server that the test makes itself outlives the workers, so that it can be asked what they left."""
    made = Crew(tmp_path, own_queue_database, receiver)
    made.keep_books()
    try:
        yield made
        made.rest()
    finally:
        made.stop()


def children_of(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
