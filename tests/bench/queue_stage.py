"""Where the figures of queues are taken: one PostgreSQL server with every durability setting at its default."""

from __future__ import annotations

import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from soloist.adapters.postgres.migrate import migrate
from tests.cluster.backend import Backend
from tests.cluster.children import Child, until
from tests.postgres.server import Database, Postgres
from tests.queue.workers import Crew

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStage:
    """``quick``: fewer repetitions, to see that it works."""

    server: Postgres
    folder: Path
    quick: bool

    def empty(self, name: str) -> Database:
        return self.server.create_database(f"bench_{name}")

    def migrated(self, name: str) -> Database:
        """A database of that name with our schema in it."""
        made = self.empty(name)
        migrate(made.dsn())
        return made

    @contextmanager
    def crew(self, name: str, backend: Backend) -> Iterator[Crew]:
        """Real workers on a database of their own, which send to ``backend``."""
        folder = self.folder / name
        folder.mkdir()
        made = Crew(folder, self.migrated(name), backend)
        try:
            yield made
        finally:
            made.stop()

    @contextmanager
    def sink(self) -> Iterator[str]:
        """The address of a receiver that only counts."""
        file = self.folder / "sink.port"
        argv: list[str | Path] = [sys.executable, "-P", Path(__file__).with_name("sink.py"), file]
        child = Child("sink", argv, log=self.folder / "sink.log")
        child.start()
        try:
            until(file.exists, what="the sink listens", timeout=20, needs=[child])
            yield f"http://127.0.0.1:{file.read_text()}/"
        finally:
            child.stop()
            file.unlink(missing_ok=True)


def served(address: str) -> int:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return int(answer.read())


@contextmanager
def stage(*, quick: bool) -> Iterator[QueueStage]:
    folder = Path(tempfile.mkdtemp(prefix="soloist-bench-"))
    try:
        with Postgres(settings=SETTINGS) as server:
            yield QueueStage(server=server, folder=folder, quick=quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
