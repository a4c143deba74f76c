"""The leader looks after WorkQueues, on a real API server and a real PostgreSQL: what it says of them, and when it says nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.queue_status import KubeQueueStatuses
from soloist.adapters.kube.queue_watch import QueueWatch
from soloist.adapters.kube.secrets import KubeSecrets
from soloist.adapters.postgres.migrate import migrate
from soloist.adapters.postgres.queue_databases import SurveyedDatabases
from soloist.domain.instants import parse_time
from soloist.domain.term import Term
from soloist.loops.queue_watching import QueueWatching
from soloist.shells.delivery_keys import DeliveryKeys
from soloist.shells.queue_standing import StandingMetrics, StandingReporter
from soloist.shells.reporting import Reporter
from soloist.shells.telemetry import Metrics
from tests.api.crew import Crew, Raw
from tests.api.tending import CALM, ready
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.cluster.faults import Answer
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.metrics_page import series
from tests.cluster.proxy import TcpProxy
from tests.postgres.server import Database, Postgres
from tests.queue.user_tables import TABLES

pytestmark = pytest.mark.cluster

PRISMA = TABLES["prisma"]
EVERY = 1.0
"""Seconds between two looks into a database."""
SEEN_SOON = 90.0


class Desk:
    """WorkQueues, their Secrets, and what is said of them."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace, self.api = namespace, namespace.api

    def secret(self, dsn: str, name: str = "db") -> None:
        data = {"uri": base64.b64encode(dsn.encode()).decode()}
        self.api.create(self.namespace.path("secrets"), {"metadata": {"name": name}, "data": data})

    def queue(self, name: str, *, secret: str = "db", **spec: Any) -> None:
        # Workers of one's own would need functions registered for a table of one's own.
        deliver = {"http": {"url": "http://backend/"}} if "table" in spec else {"external": {}}
        given = {"deliver": deliver, **spec, "database": {"secretName": secret, "key": "uri"}}
        body = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": name}, "spec": given}
        self.api.create(self.namespace.ours("workqueues"), body)

    def found(self, name: str) -> Raw:
        found: Raw = self.api.get(self.namespace.ours("workqueues", name))
        return found

    def status(self, name: str) -> Raw:
        status: Raw = self.found(name).get("status", {})
        return status

    def valid(self, name: str) -> Raw:
        conditions = self.status(name).get("conditions", [])
        return next((each for each in conditions if each["type"] == "Valid"), {})

    def until(self, name: str, reason: str) -> Raw:
        """Wait for that reason of the condition."""
        what = f"{name} is {reason}"
        found: Raw = until(
            lambda: self.valid(name) if self.valid(name).get("reason") == reason else None, what=what, timeout=SEEN_SOON
        )
        return found

    def next_second_after(self, name: str) -> None:
        """What is created from now on is younger: the API server dates to the second."""
        created = parse_time(self.found(name)["metadata"]["creationTimestamp"])
        assert created is not None
        until(lambda: datetime.now(UTC) >= created + timedelta(seconds=1), what="a second has passed", timeout=60)

    def events(self, name: str) -> list[Raw]:
        items = self.api.items(self.namespace.path("events", group="events.k8s.io"))
        return [event for event in items if event["regarding"]["name"] == name]


class Pages:
    """What the controllers of a crew serve over HTTP."""

    def __init__(self, crew: Crew) -> None:
        self.crew, self.ports = crew, dict[str, int]()

    def start(self, name: str, **more: Any) -> None:
        self.ports[name] = free_ports(1)[0]
        env = {**CALM, "SOLOIST_HEALTH_PORT": str(self.ports[name]), "SOLOIST_MEASURE_QUEUES": str(EVERY)}
        self.crew.start(name, **env, **more)
        self.crew.wait(partial(ready, self.ports[name]), what=f"{name} is ready")
        self.crew.leader()

    def metric(self, name: str, metric: str, **labels: str) -> float | None:
        """None: there is no such series."""
        return next(iter(series(self.crew.members[name].metrics(), metric, **labels)), None)

    def until(self, name: str, metric: str, value: float | None, **labels: str) -> None:
        what = f"{metric} of {name} is {value}"
        until(lambda: self.metric(name, metric, **labels) == value, what=what, timeout=SEEN_SOON)


@pytest.fixture
def desk(namespace: Namespace) -> Desk:
    return Desk(namespace)


@pytest.fixture
def pages(crew: Crew) -> Pages:
    return Pages(crew)


@pytest.fixture
def bare(postgres: Postgres) -> Iterator[Database]:
    """Without the schema."""
    made = postgres.create_database(f"w_{uuid.uuid4().hex[:12]}")
    yield made
    postgres.drop_database(made.name)


@pytest.fixture
def place(bare: Database) -> Database:
    migrate(bare.dsn())
    return bare


def enqueue(place: Database, namespace: Namespace, queue: str, count: int, due: str = "now()") -> None:
    with place.connect() as connection:
        text = f"SELECT soloist.enqueue(%s, '{{}}', due_at => {due}) FROM generate_series(1, %s)"
        connection.execute(text, (f"{namespace.name}/{queue}", count))


def test_a_queue_in_order_is_valid_and_its_rows_are_counted_with_few_writes(
    desk: Desk, pages: Pages, place: Database
) -> None:
    enqueue(place, desk.namespace, "q", 3)
    enqueue(place, desk.namespace, "q", 2, "now() + interval '1 hour'")
    desk.secret(place.dsn())
    desk.queue("q")
    pages.start("a")
    condition = desk.until("q", "Accepted")
    assert (condition["status"], condition["observedGeneration"]) == ("True", 1)
    status = desk.status("q")
    assert status["observedGeneration"] == 1
    assert [status[key] for key in ("ready", "scheduled", "inFlight", "dead")] == [3, 2, 0, 0]
    assert 0 <= status["oldestDueSeconds"] < 3600, "of those that are due"
    assert "measuredTime" in status
    pages.until("a", "soloist_queue_valid", 1, queue="q")
    pages.until("a", "soloist_queue_ready_rows", 3, queue="q")
    pages.until("a", "soloist_queue_scheduled_rows", 2, queue="q")

    written = desk.found("q")["metadata"]["resourceVersion"]
    with place.connect() as connection:
        claimed = connection.execute("SELECT count(*) FROM soloist.claim(%s, 2)", (f"{desk.namespace.name}/q",))
        assert claimed.fetchone() == (2,)
    pages.until("a", "soloist_queue_claimed_rows", 2, queue="q")
    assert pages.metric("a", "soloist_queue_ready_rows", queue="q") == 1
    assert desk.found("q")["metadata"]["resourceVersion"] == written, (
        "numbers alone are no reason to write again so soon"
    )

    desk.api.patch(desk.namespace.ours("workqueues", "q"), {"spec": {"suspend": True}})
    until(lambda: desk.valid("q")["observedGeneration"] == 2, what="the edit was looked at", timeout=SEEN_SOON)
    assert desk.status("q")["inFlight"] == 2
    assert pages.metric("a", "soloist_api_writes_total", kind="queue status") == 2
    desk.api.delete(desk.namespace.ours("workqueues", "q"))
    pages.until("a", "soloist_queue_valid", None, queue="q")
    assert pages.metric("a", "soloist_queue_ready_rows", queue="q") is None


def test_a_second_queue_on_a_table_is_refused_and_the_next_leader_knows_that_it_was_told(
    desk: Desk, pages: Pages, place: Database
) -> None:
    with place.connect() as connection:
        connection.execute(f"CREATE SCHEMA app; {PRISMA.ddl}")
        connection.execute(PRISMA.new.format(due="(now() + interval '1 hour')", count="2"))
    desk.secret(place.dsn())
    desk.secret(f"{place.dsn()}?application_name=another", "other")
    pages.start("a")
    desk.queue("first", table=dict(PRISMA.table))
    desk.until("first", "Accepted")
    desk.next_second_after("first")
    desk.queue("second", secret="other", table=dict(PRISMA.table))
    refused = desk.until("second", "AlreadyServed")
    assert refused["status"] == "False"
    assert f"already served by {desk.namespace.name}/first" in refused["message"]
    assert desk.valid("first")["status"] == "True"
    (told,) = until(lambda: desk.events("second"), what="an Event says so", timeout=SEEN_SOON)
    assert (told["reason"], told["type"], told["note"]) == ("Invalid", "Warning", refused["message"])

    assert [desk.status("first")[key] for key in ("ready", "scheduled", "inFlight", "dead")] == [0, 2, 0, 0]
    assert "ready" not in desk.status("second"), "the rows are counted once"

    pages.start("b")
    assert pages.metric("b", "soloist_queue_valid") is None, "a follower asks no database"
    stood = {name: desk.found(name)["metadata"]["resourceVersion"] for name in ("first", "second")}
    pages.crew.leader().kill_both()
    assert pages.crew.leader(other_than="a").name == "b"
    pages.until("b", "soloist_queue_valid", 1, queue="first")
    pages.until("b", "soloist_queue_valid", 0, queue="second")
    desk.queue("third")
    desk.until("third", "Accepted")
    assert pages.metric("b", "soloist_api_writes_total", kind="queue status") == 1, "of the third alone"
    assert {name: desk.found(name)["metadata"]["resourceVersion"] for name in stood} == stood
    assert len(desk.events("second")) == 1

    desk.api.delete(desk.namespace.ours("workqueues", "first"))
    desk.until("second", "Accepted")


def test_what_is_missing_is_named_and_once_it_is_there_the_queue_is_valid(
    desk: Desk, pages: Pages, bare: Database
) -> None:
    desk.secret(bare.dsn())
    desk.queue("q")
    desk.queue("wrong", table=dict(PRISMA.table))
    desk.queue("late", secret="late")
    pages.start("a")
    missing = desk.until("q", "SchemaMissing")
    assert missing["status"] == "False"
    assert "Secret db, key uri, has no schema soloist: run soloist migrate" in missing["message"]
    assert "does not exist" in desk.until("late", "SecretUnreadable")["message"]
    migrate(bare.dsn())
    desk.secret(bare.dsn(), "late")
    desk.until("q", "Accepted")
    unfit = desk.until("wrong", "TableUnfit")
    assert unfit["message"].startswith('spec.table.name: there is no table app."WebhookDelivery" in the database')
    desk.until("late", "Accepted")
    with bare.connect() as connection:
        connection.execute(f"CREATE SCHEMA app; {PRISMA.ddl}")
    desk.until("wrong", "Accepted")


def test_a_database_that_is_down_stops_its_own_queues_alone_and_no_job(
    desk: Desk, pages: Pages, backend: Backend, place: Database
) -> None:
    with TcpProxy(place.server.port) as between:
        desk.secret(place.dsn(port=between.port), "down")
        desk.secret(place.dsn())
        desk.queue("struck", secret="down")
        desk.queue("spared")
        enqueue(place, desk.namespace, "struck", 4)
        pages.start("a")
        desk.until("struck", "Accepted")
        desk.until("spared", "Accepted")
        between.refuse()
        between.cut()
        away = desk.until("struck", "DatabaseUnreachable")
        assert away["status"] == "Unknown"
        assert "cannot be reached" in away["message"]
        assert desk.status("struck")["ready"] == 4, "as it was measured last"
        pages.until("a", "soloist_queue_ready_rows", None, queue="struck")
        pages.crew.job("sweep", schedule="@every 1s", http={"url": backend.url("/sweep")})
        enqueue(place, desk.namespace, "spared", 5)
        pages.until("a", "soloist_queue_ready_rows", 5, queue="spared")
        assert desk.valid("spared")["status"] == "True"
        backend.wait(3, path="/sweep", timeout=90)
        between.forward()
        desk.until("struck", "Accepted")
    assert desk.events("struck") == [], "nothing that a person could change in the queue"


def test_an_api_server_without_the_kind_is_told_of_once_and_jobs_run(
    desk: Desk, pages: Pages, backend: Backend, https_proxy: HttpsProxy
) -> None:
    none = json.dumps({"kind": "Status", "code": 404, "message": "the server could not find the requested resource"})
    absent = https_proxy.on("GET", "/workqueues", Answer(status=404, body=none.encode()))
    pages.start("a", server=https_proxy.server)
    pages.crew.job("sweep", schedule="@every 1s", http={"url": backend.url("/sweep")})
    until(lambda: len([seen for seen in https_proxy.seen if "/workqueues" in seen.path]) >= 3, what="it is asked for again", timeout=90)  # fmt: skip
    backend.wait(3, path="/sweep", timeout=90)
    assert pages.crew.members["a"].log().count("The API server knows no WorkQueues") == 1
    absent.remove()


def test_a_term_that_may_not_be_believed_writes_nothing(desk: Desk, place: Database, tmp_path: Path) -> None:
    desk.secret(place.dsn())
    desk.queue("q")
    clock = SystemClock()

    def term(until: float) -> Term:
        now = datetime.now(UTC)
        boot = clock.boottime()
        lease = {"lease_namespace": desk.namespace.name, "lease_name": "soloist", "lease_uid": "u"}
        return Term(
            identity="a",
            epoch=1,
            started_boot=boot,
            trusted_until=boot + until,
            renew_time=now,
            renew_sent_boot=boot,
            **lease,
        )

    held: list[Term | None] = [term(until=-0.1)]
    registry = CollectorRegistry()
    report = StandingReporter(
        StandingMetrics(registry), Reporter(Metrics(registry), None, boottime=clock.boottime), None
    )
    config = desk.namespace.cluster.kubeconfig(tmp_path / "config", user="admin")

    async def body() -> None:
        api = KubeApi(Access.found(str(config), None))
        watch = QueueWatch(api, boottime=clock.boottime, namespaces=[desk.namespace.name])
        read = KubeSecrets(api, boottime=clock.boottime).read
        watching = QueueWatching(
            objects=watch,
            databases=SurveyedDatabases(read, boottime=clock.boottime),
            keys=DeliveryKeys(read),
            statuses=KubeQueueStatuses(api),
            report=report,
            clock=clock,
            term=lambda: held[0],
            every=EVERY,
        )
        running = asyncio.create_task(watching.run())
        labels = {"namespace": desk.namespace.name, "queue": "q"}
        async with asyncio.timeout(90):
            while registry.get_sample_value("soloist_queue_valid", labels) != 1:
                await asyncio.sleep(0.02)
            for none in (held[0], None):
                held[0] = none
                await watching.step()
            assert "status" not in desk.found("q")
            held[0] = term(until=60)
            await watching.step()
        assert desk.valid("q")["reason"] == "Accepted"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await api.close()

    asyncio.run(body())
