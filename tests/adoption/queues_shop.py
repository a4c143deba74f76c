"""The backend of manifests/examples/queues with its provider, its rows, and what became of each, as seen from outside.

``backend`` is for people's requests and ``jobs`` for Soloist's: two processes of one program. Rows that are put in are numbered in
each queue, so what the provider was sent is told apart from the rows of orders.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from tests.adoption.backend_process import EXAMPLES, BackendProcess
from tests.adoption.claim_notes import CLAIM_NOTES
from tests.cluster.backend import Backend, Received

HERE = EXAMPLES / "queues"
QUEUES = ("email", "notification", "webhook", "funding", "export")
TOKEN = "made-up"

INSERT = """
INSERT INTO "{table}" ("id", "payload", "nextAttemptAt", "updatedAt"{column})
SELECT '{queue}-' || n, jsonb_build_object('n', n), timezone('UTC', now()) + make_interval(secs => %(due_in)s), timezone('UTC', now()){value}
FROM generate_series(%(first)s::int, %(last)s::int) AS n"""
_DONE = """SELECT count(*) AS n FROM "{}" WHERE "status" = 'done' AND "payload" ? 'n'"""
DONE = f"SELECT sum(n)::int FROM ({' UNION ALL '.join(_DONE.format(queue.capitalize()) for queue in QUEUES)}) AS each"
"""Numbered rows of all queues that were worked."""


@dataclass(frozen=True, slots=True)
class People:
    """The status and the seconds of each answer, to those who looked at an order and to those who ordered."""

    looks: list[tuple[int, float]] = field(default_factory=list)
    orders: list[tuple[int, float]] = field(default_factory=list)


class Shop:
    """Nobody is started yet; ``stop`` ends what was."""

    def __init__(self, folder: Path, dsn: str, provider: Backend) -> None:
        self.folder, self.dsn, self.provider = folder, dsn, provider
        self.made: list[BackendProcess] = []
        self.backend = self.container("backend", OWN_DRAINS="off")
        self.jobs = self.container("backend-jobs", OWN_DRAINS="off")

    def container(self, name: str, **env: str) -> BackendProcess:
        provider = self.provider.url("").rstrip("/")
        known = {"DATABASE_URL": self.dsn, "BACKEND_TOKEN": TOKEN, "PROVIDER_URL": provider}
        self.made.append(BackendProcess("queues", name, self.folder, **known, **env))
        return self.made[-1]

    def stop(self) -> None:
        for each in self.made:
            each.kill()

    # Rows

    def ask(self, query: str, values: Any = ()) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True, connect_timeout=10) as connection:
            return connection.execute(query, values).fetchall()

    def make_tables(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute((HERE / "backend" / "tables.sql").read_text(encoding="utf-8"))

    def note_claims(self) -> None:
        """From now on."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(CLAIM_NOTES)

    def fill(self, count: int, *, first: int = 0, due_in: float = 0.0) -> None:
        """So many rows of each queue, from that number on."""
        with psycopg.connect(self.dsn) as connection:
            for queue in QUEUES:
                url = (', "url"', f", '{self.provider.url('/webhook')}'") if queue == "webhook" else ("", "")
                statement = INSERT.format(table=queue.capitalize(), queue=queue, column=url[0], value=url[1])
                connection.execute(statement, {"due_in": due_in, "first": first, "last": first + count - 1})

    def outcomes(self) -> dict[str, Counter[tuple[str, int]]]:
        """Of each queue: how many of its numbered rows have that status after so many attempts."""
        query = 'SELECT "status", "attempts", count(*) FROM "{}" WHERE "payload" ? \'n\' GROUP BY 1, 2'
        return {
            queue: Counter({(status, tries): count for status, tries, count in self.ask(query.format(queue.capitalize()))})
            for queue in QUEUES
        }  # fmt: skip

    def done(self) -> int:
        ((count,),) = self.ask(DONE)
        return int(count)

    def sent(self) -> dict[str, dict[int, list[Received]]]:
        """Of each queue: the requests that the provider had for each numbered row."""
        found: dict[str, dict[int, list[Received]]] = {queue: defaultdict(list) for queue in QUEUES}
        for each in self.provider.received():
            number = json.loads(each.body).get("n")
            if number is not None:
                found[each.path.strip("/")][number].append(each)
        return found

    def live_claims(self) -> int:
        ((count,),) = self.ask("SELECT count(*) FROM soloist.claims WHERE fence IS NOT NULL")
        return int(count)

    # Orders

    def order(self, **body: Any) -> str:
        status, said = self.backend.ask("/orders", "POST", {"customer": "c-17", **body})
        assert status == 201, said
        return str(json.loads(said)["id"])

    def email_of(self, order: str) -> tuple[str, int, datetime]:
        """Status, attempts, and when it is due."""
        query = """SELECT "status", "attempts", "nextAttemptAt" FROM "Email" WHERE "payload" ->> 'order' = %s"""
        ((status, attempts, due),) = self.ask(query, (order,))
        return status, attempts, due.replace(tzinfo=UTC)

    def emails_sent(self, order: str) -> list[Received]:
        return [each for each in self.provider.received("/email") if json.loads(each.body).get("order") == order]

    def worked(self, queue: str) -> int:
        """Rows of that queue that are done, those of orders too."""
        ((count,),) = self.ask(f"""SELECT count(*) FROM "{queue.capitalize()}" WHERE "status" = 'done'""")
        return int(count)

    @contextmanager
    def people(self, order: str, *, every: float = 0.02) -> Iterator[People]:
        """Meanwhile somebody looks at that order, again and again, and orders now and then."""
        seen = People()
        leave = threading.Event()

        def ask() -> None:
            for number in itertools.count(1):
                if leave.wait(every):
                    return
                began = time.monotonic()
                if number % 10:
                    status, _ = self.backend.ask(f"/orders/{order}")
                    seen.looks.append((status, time.monotonic() - began))
                else:
                    status, _ = self.backend.ask("/orders", "POST", {"customer": "c-18"})
                    seen.orders.append((status, time.monotonic() - began))

        asking = threading.Thread(target=ask, name="people")
        asking.start()
        try:
            yield seen
        finally:
            leave.set()
            asking.join()
