"""Some standalone processes over one database, and the books that are held against what they did.

``crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))`` writes a manifest, ``crew.start("a")`` starts a parent and
its child, ``crew.leader()`` waits for the one that the lease names, ``crew.audit("sweep")`` says what must hold after every
test: no tick twice, none early, none lost without a reason.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import yaml

from soloist.adapters.postgres.row_objects import raw_of
from soloist.domain.instants import parse_time
from tests.api.crew import FAST, Controller
from tests.cluster.backend import Backend
from tests.cluster.children import Child, until
from tests.demo.books import Page, page, settled

ENTRY = [sys.executable, "-c", "from soloist.shells.main import main; main()"]
STEADY = {"SOLOIST_LEASE_DURATION": "60", "SOLOIST_LEASE_RETRY_PERIOD": "1", "SOLOIST_LEASE_MARGIN": "6"}
"""A lease that no busy machine takes from its leader: for whatever needs no other one, or one to whom it is given."""
COLUMNS = "kind, namespace, name, uid::text, version, generation, created_at, edited_at, metadata, spec, status"
Raw = dict[str, Any]


def job(name: str, url: str = "", **spec: Any) -> Raw:
    """A ScheduledJob; ``url`` makes it an http one that keeps its runs."""
    kept = {"successfulRunsHistoryLimit": 100, "failedRunsHistoryLimit": 100, "missedRunPolicy": "RunAll"}
    http = {"http": {"url": url}, "timeoutSeconds": 5, "maxMissedRuns": 100} if url else {}
    head = {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "metadata": {"name": name}}
    return {**head, "spec": {**kept, **http, **spec}}


@dataclass
class Crew:
    """``url`` is the database; empty with ``SOLOIST_EMBEDDED`` in ``env``. ``command`` starts a member."""

    folder: Path
    url: str
    backend: Backend
    env: dict[str, str] = field(default_factory=lambda: dict(FAST))
    command: Sequence[str] = (*ENTRY, "standalone")
    members: dict[str, Controller] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    """Where in its log the present life of a member begins."""

    @property
    def files(self) -> Path:
        return self.folder / "manifests"

    def job(self, name: str, **spec: Any) -> Raw:
        """One that calls the receiver under its own name."""
        return job(name, self.backend.url(f"/{name}"), **spec)

    def write(self, file: str, *documents: Raw, folder: str = "manifests") -> None:
        """As an editor that knows its trade does: whole, or not at all."""
        place = self.folder / folder
        place.mkdir(exist_ok=True)
        half = place / f".{file}"
        half.write_text(yaml.safe_dump_all(documents))
        half.rename(place / file)

    def start(self, name: str, *flags: str, folder: str = "manifests", **env: str) -> Controller:
        base = {name: value for name, value in os.environ.items() if not name.startswith("SOLOIST_")}
        named = {"SOLOIST_FILE": str(self.folder / folder), "SOLOIST_DATABASE": self.url, "POD_NAME": name}
        variables = {**base, **named, **self.env, **env}
        log = self.folder / f"{name}.log"
        self.marks[name] = log.stat().st_size if log.exists() else 0
        process = Child(name, [*self.command, *flags], log=log, env=variables)
        process.start()
        self.members[name] = Controller(name, process)
        return self.members[name]

    def said(self, name: str, message: str) -> list[Raw]:
        """Lines of its log, since it was started last."""
        lines = self.members[name].process.log.read_bytes()[self.marks[name] :].decode(errors="replace").splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [line for line in found if line["message"] == message]

    def hear(self, name: str, message: str, *, count: int = 1, timeout: float = 120.0) -> Raw:
        """The line, once it has been said so often."""
        return until(
            lambda: self.said(name, message)[count - 1 :],
            what=f"{name} says {message!r} {count} times",
            timeout=timeout,
        )[0]

    def ready(self, name: str, *flags: str, **options: Any) -> Controller:
        """Started, and taking part."""
        member = self.start(name, *flags, **options)
        until(
            lambda: self.said(name, "standing by") or self.said(name, "leading"),
            what=f"{name} takes part",
            timeout=120,
            needs=[member.process],
        )
        return member

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, connect_timeout=60)

    def ask(self, query: str, *values: Any) -> list[Any]:
        with self.connect() as connection:
            return connection.execute(query, values).fetchall()

    def holder(self) -> str:
        rows = self.ask("SELECT coalesce(lease #>> '{spec,holderIdentity}', '') FROM soloist.leases")
        return str(rows[0][0]).split("_", 1)[0] if rows else ""

    def leader(self, *, other_than: str = "", timeout: float = 120.0) -> Controller:
        def found() -> Controller | None:
            holder = self.holder()
            return self.members.get(holder) if holder != other_than else None

        return until(found, what=f"somebody other than {other_than!r} leads", timeout=timeout)

    def objects(self, kind: str, of: str = "") -> list[Raw]:
        rows = self.ask(f"SELECT {COLUMNS} FROM soloist.objects WHERE kind = %s ORDER BY name", kind)
        found = [raw_of(row) for row in rows]
        return [raw for raw in found if of in ("", raw["metadata"]["name"], raw["spec"].get("scheduledJobName"))]

    def stored(self, name: str) -> Raw | None:
        return next(iter(self.objects("ScheduledJob", name)), None)

    def page(self, name: str, last: datetime) -> Page:
        """Once all that was due up to ``last`` is settled."""
        until(lambda: self._settled(name, last), what=f"all ticks of {name} up to {last} are settled", timeout=150)
        found = self.stored(name)
        assert found is not None
        return page(found, self.objects("JobRun", name), self.backend.received(f"/{name}"), last)

    def _settled(self, name: str, last: datetime) -> bool:
        found = self.stored(name)
        return found is not None and settled(found, self.objects("JobRun", name), last)

    def audit(self, name: str) -> Page:
        """Of all ticks due a second ago, and of each that a request has come for, however little time has passed since."""
        came = [parse_time(seen.header("Soloist-Scheduled-Time")) for seen in self.backend.received(f"/{name}")]
        made = self.page(
            name, max([datetime.now(UTC) - timedelta(seconds=1), *(tick for tick in came if tick is not None)])
        )
        assert made.breaches() == []
        assert made.expected > 0, "a test that saw no tick says nothing"
        return made

    def stop(self) -> None:
        for member in self.members.values():
            member.process.stop()
