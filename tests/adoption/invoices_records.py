"""What the example `invoices` is asked to do, and what was recorded of it, wherever its processes run: as such, or as Pods.

Triggers of the records' own note each claim with its fence, each move of the cursor, and what becomes of each delivery; the receiver notes
each request, the backend each run that it was asked for. The books hold these against each other.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.adoption.bank import Bank
from tests.adoption.claim_notes import CLAIM_NOTES
from tests.adoption.page import Reader
from tests.cluster.backend import Backend, Received
from tests.postgres.server import Database

LEASE_SECONDS = 6
TIMEOUT_SECONDS = 8
AUTHORIZATION = "Bearer of-the-test"
SECRET = "the endpoint's secret"
QUICKER = {
    '"* * * * *"': '"@every 5s"',
    '"*/5 * * * *"': '"@every 7s"',
    '"0 2 * * *"': '"@every 10s"',
    "timeoutSeconds: 300": f"timeoutSeconds: {TIMEOUT_SECONDS}",
    "timeoutSeconds: 15": "timeoutSeconds: 5",
    "leaseSeconds: 60": f"leaseSeconds: {LEASE_SECONDS}",
    "schedule: [1m, 2m, 4m, 8m]": "schedule: [1s, 1s, 1s, 1s]",
}
"""What a test puts in place of the times of the manifest."""
NOTES = """
CREATE TABLE cursor_notes (fence bigint, value integer, at timestamptz);
CREATE FUNCTION note_cursor() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    INSERT INTO cursor_notes VALUES (NEW.fence, (NEW.value #>> '{}')::integer, clock_timestamp());
    RETURN NULL;
END $$;
CREATE TRIGGER note_cursor AFTER INSERT OR UPDATE ON soloist.checkpoints FOR EACH ROW EXECUTE FUNCTION note_cursor();
CREATE TABLE accepted (id text, status text, at timestamptz);
CREATE FUNCTION note_accepted() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    INSERT INTO accepted VALUES (NEW.id, NEW.status, clock_timestamp());
    RETURN NULL;
END $$;
CREATE TRIGGER note_accepted AFTER UPDATE ON webhook_deliveries FOR EACH ROW WHEN (NEW.status <> 'pending')
    EXECUTE FUNCTION note_accepted();
CREATE TABLE due_notes (id text, attempts integer, due timestamptz);
CREATE FUNCTION note_due() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    INSERT INTO due_notes VALUES (NEW.id, NEW.attempts, NEW.next_attempt_at AT TIME ZONE 'UTC');
    RETURN NULL;
END $$;
CREATE TRIGGER note_due AFTER UPDATE ON webhook_deliveries FOR EACH ROW WHEN (NEW.status = 'pending')
    EXECUTE FUNCTION note_due();
"""


@dataclass
class Records(ABC):
    """Of one database, to whose tables the reader's first step leads; what is written in them is noted after ``note()``."""

    database: Database
    receiver: Backend
    bank: Bank
    reader: Reader

    @abstractmethod
    def log(self) -> list[str]:
        """The lines of all replicas of the backend."""

    def note(self) -> None:
        with self.connect() as connection:
            connection.execute(CLAIM_NOTES)
            connection.execute(NOTES)

    # The database

    def connect(self) -> psycopg.Connection[Any]:
        return self.database.connect()

    def rows(self, query: str, *values: Any) -> list[Any]:
        with self.connect() as connection:
            return connection.execute(query, values).fetchall()

    def count(self, query: str, *values: Any) -> int:
        return int(self.rows(query, *values)[0][0])

    def endpoint(self, name: str) -> None:
        url = self.receiver.url(f"/{name}")
        self.rows("INSERT INTO webhook_endpoints VALUES (%s, %s, %s) RETURNING id", name, url, SECRET)

    def deliveries(self, count: int, endpoint: str) -> None:
        """So many of them, due now; their ids are ``endpoint:0`` and so on."""
        self.rows(
            "INSERT INTO webhook_deliveries (id, endpoint_id, url, event, payload, next_attempt_at, updated_at)"
            " SELECT e.id || ':' || g, e.id, e.url, 'invoice.sent', jsonb_build_object('n', g, 'text', 'Zoë  & co'),"
            " now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC' FROM webhook_endpoints AS e, generate_series(0, %s::int) AS g"
            " WHERE e.id = %s RETURNING id",
            count - 1,
            endpoint,
        )

    def invoices(self, first: int, count: int, endpoint: str, *, due: str) -> None:
        self.rows(
            "INSERT INTO invoices (id, endpoint_id, cents, status, due_at, updated_at) SELECT g, %s, 100 * g, 'sent',"
            " now() AT TIME ZONE 'UTC' + %s::interval, now() AT TIME ZONE 'UTC'"
            " FROM generate_series(%s::int, %s::int) AS g RETURNING id",
            endpoint,
            due,
            first,
            first + count - 1,
        )

    # What was recorded

    def by_row(self, endpoint: str = "") -> dict[str, list[Received]]:
        """The requests for each delivery, by its id, in the order of their arrival."""
        found: dict[str, list[Received]] = defaultdict(list)
        for each in self.receiver.received(f"/{endpoint}"):
            row, _, _ = str(each.header("x-idempotency-key")).rpartition("-")
            found[row].append(each)
        return dict(found)

    def said(self, word: str) -> list[dict[str, Any]]:
        """The backend's lines that have that field; a line that a death cut short is left out."""
        lines = [line for line in self.log() if f'"{word}"' in line]
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def asked(self, job: str) -> list[dict[str, Any]]:
        """For each call of Soloist's that a replica was asked for."""
        return [line for line in self.said("asked") if line["job"] == job and "attempt" in line]
