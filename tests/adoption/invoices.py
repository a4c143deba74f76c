"""The stage of the example `invoices`: its page followed to the end, its replicas with their sidecars, and what was recorded of it.

Triggers of the stage's own note each claim with its fence, each move of the cursor, and what becomes of each delivery; the receiver notes each request,
the backend each run that it was asked for. The test holds these against each other.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.adoption.backend_process import BackendProcess
from tests.adoption.bank import Bank
from tests.adoption.page import Reader
from tests.adoption.service import Service
from tests.api.crew import Crew
from tests.api.elect_pods import Pod
from tests.cluster.backend import Backend, Received
from tests.cluster.children import Child
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.postgres.server import Database
from tests.queue.workers import ENTRY, Worker

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
CREATE TABLE claim_notes (key text, fence bigint, worker text, at timestamptz, was bigint, was_held_until timestamptz);
CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO claim_notes VALUES (NEW.key, NEW.fence, NEW.worker, clock_timestamp(), NULL, NULL);
    ELSIF NEW.fence IS NOT NULL AND NEW.fence IS DISTINCT FROM OLD.fence THEN
        INSERT INTO claim_notes VALUES (NEW.key, NEW.fence, NEW.worker, clock_timestamp(), OLD.fence, OLD.held_until);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER note_claim AFTER INSERT OR UPDATE ON soloist.claims FOR EACH ROW EXECUTE FUNCTION note_claim();
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
class Stage:
    """Two replicas of the backend behind ``service``, each with its sidecar in ``pods``; nothing is started."""

    folder: Path
    database: Database
    receiver: Backend
    bank: Bank
    service: Service
    reader: Reader
    backends: dict[str, BackendProcess]
    pods: dict[str, Pod]

    def start(self) -> None:
        """What is recorded from now on, and the replicas."""
        with self.connect() as connection:
            connection.execute(NOTES)
        for pod in self.pods.values():
            pod.start()
        for backend in self.backends.values():
            backend.ready()

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
        """Lines of all replicas that have that field; a line that a death cut short is left out."""
        lines = [line for each in self.backends.values() for line in each.said(f'"{word}"')]
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def asked(self, job: str) -> list[dict[str, Any]]:
        """For each call of Soloist's that a replica was asked for."""
        return [line for line in self.said("asked") if line["job"] == job and "attempt" in line]


@contextmanager
def invoices(
    database: Database,
    folder: Path,
    *,
    namespace: Namespace | None = None,
    put: dict[str, str] | None = None,
    **elect: str,
) -> Iterator[Stage]:
    """The page is copied, with addresses and times of the test put in; nothing of it is done yet. ``elect``: how sidecars elect."""
    with ExitStack() as stack:
        receiver, bank = stack.enter_context(Backend(folder)), stack.enter_context(Bank())
        env = {"DATABASE_URL": database.dsn(), "AUTHORIZATION": AUTHORIZATION}
        backends, pods = {}, {}
        for name in ("b1", "b2"):
            (port,) = free_ports(1)
            asks = {"SOLOIST_SIDECAR": f"http://127.0.0.1:{port}", "PAYMENTS_URL": bank.url, "WATCH_MS": "50"}
            backends[name] = BackendProcess("invoices", name, folder, **env, **asks)
            sidecar = {**elect, "SOLOIST_LEASE": "payments"}
            pods[name] = Pod(f"{name}-sidecar", folder, folder, sidecar, port=port, app_port=backends[name].port)
            pods[name].app = backends[name].child
            stack.callback(pods[name].stop)
        service = stack.enter_context(Service([each.port for each in backends.values()]))
        places = {**QUICKER, "http://backend.default.svc/internal": f"{service.url}/internal", **(put or {})}
        reader = Reader("invoices", folder, namespace, put=places, **env)
        yield Stage(folder, database, receiver, bank, service, reader, backends, pods)


@dataclass
class Cluster:
    """Controllers and workers of the stage, as processes against an API server."""

    namespace: Namespace
    folder: Path
    crew: Crew
    workers: dict[str, Worker] = field(default_factory=dict)

    def worker(self, name: str) -> Worker:
        config = self.namespace.cluster.kubeconfig(self.folder / f"{name}.kubeconfig", namespace=self.namespace.name)
        env = {
            "KUBECONFIG": str(config),
            "SOLOIST_NAMESPACE": self.namespace.name,
            "SOLOIST_HEALTH_PORT": "0",
            "SOLOIST_HEALTH_ADDRESS": "127.0.0.1",
            "SOLOIST_DATA_ALLOW": "127.0.0.0/8",
            "POD_NAME": name,
        }
        process = Child(name, ENTRY, log=self.folder / f"{name}.log", env=env)
        process.start()
        self.workers[name] = Worker(name, process)
        return self.workers[name]

    def stop(self) -> None:
        self.crew.stop()
        for worker in self.workers.values():
            worker.process.stop()


@contextmanager
def cluster(control_plane: ControlPlane, folder: Path) -> Iterator[Cluster]:
    """A namespace, and nobody in it yet."""
    namespace = Namespace(name=f"t-{uuid.uuid4().hex[:10]}", cluster=control_plane)
    control_plane.api().create("/api/v1/namespaces", {"metadata": {"name": namespace.name}})
    made = Cluster(namespace, folder, Crew(control_plane, namespace, folder))
    try:
        yield made
    finally:
        made.stop()
        namespace.api.delete(f"/api/v1/namespaces/{namespace.name}")
