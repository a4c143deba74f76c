"""The real Prisma client reads and writes the table that real workers deliver from, as an application does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.cluster.children import until
from tests.queue.kinds import ALLOW, Application
from tests.queue.prisma_app import PrismaApp, prisma_app
from tests.queue.test_worker_mapped import by_message, stopped
from tests.queue.workers import Crew

pytestmark = pytest.mark.slow
CREATE = """prisma.webhookDelivery.create({data: {
    webhookId: "wh1", eventId: name, payload: {of: name, version: 1}, nextAttemptAt: new Date(Date.now() + inMs)}})"""
STATUS = "prisma.webhookDelivery.findUnique({where: {id}}).then((row) => row && row.status)"
ROW = "prisma.webhookDelivery.findUnique({where: {id}})"
CHANGE = "prisma.webhookDelivery.update({where: {id}, data})"


@pytest.fixture
def app(crew: Crew) -> Iterator[PrismaApp]:
    """Where sessions are far from UTC: whoever takes their zone for that of the columns is hours off."""
    with crew.connect() as connection:
        connection.execute(f"ALTER DATABASE {crew.database.name} SET timezone = 'Asia/Kolkata'")
    with prisma_app(crew.database.dsn()) as made:
        yield made


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("claim", ["Sidecar", "Inline"])
def test_prisma_creates_rows_while_they_are_delivered_and_reads_what_became_of_them(
    crew: Crew, app: PrismaApp, claim: str
) -> None:
    Application(crew, claim)
    workers = [crew.ready(f"w{number}", **ALLOW) for number in range(2)]
    began = instant(app.run("new Date()"))
    many = "prisma.webhookDelivery.createMany({data: Array.from({length: 100}, (_, n) => ({"
    many += 'webhookId: "wh1", eventId: `${part} ${n}`, payload: {n}, nextAttemptAt: new Date(Date.now() + inMs)}))})'
    for part in range(3):
        assert app.run(many, part=part, inMs=0) == {"count": 100}
    app.run(many, part="later", inMs=2500)
    app.run("prisma.webhook.create({data: {id: 'off', url: 'http://192.0.2.1/', secret: 'none', isActive: false}})")
    app.run(CREATE.replace("wh1", "off"), name="to an endpoint that is off", inMs=0)
    delivered = "prisma.webhookDelivery.count({where: {status: 'DELIVERED'}})"
    until(lambda: app.run(delivered) == 400, what="Prisma sees all of them delivered", timeout=240)
    refused = "prisma.webhookDelivery.findFirstOrThrow({where: {webhookId: 'off'}})"
    until(lambda: app.run(refused)["status"] == "FAILED", what="Prisma sees the other given up", timeout=90)
    ended = instant(app.run("new Date()"))
    stopped(workers)
    requests = by_message(crew.backend.received("/wh1"))
    assert (len(requests), {len(each) for each in requests.values()}) == (400, {1})
    for row in app.run("prisma.webhookDelivery.findMany({where: {status: 'DELIVERED'}})"):
        assert (row["attempts"], row["lastError"]) == (1, None)
        # Prisma keeps milliseconds, and PostgreSQL rounds to them.
        due, done = instant(row["nextAttemptAt"]), instant(row["deliveredAt"]) + timedelta(milliseconds=1)
        assert began - timedelta(milliseconds=1) <= due <= done <= ended + timedelta(milliseconds=1)
        assert row["lastAttemptAt"] == row["deliveredAt"] == row["updatedAt"] > row["createdAt"]
    assert "switched off" in app.run(refused)["lastError"]


def test_what_prisma_does_to_a_row_during_its_delivery_stands_and_what_it_queues_again_is_sent(
    crew: Crew, app: PrismaApp
) -> None:
    Application(crew, "Sidecar")
    crew.documents["q"]["spec"]["deliver"]["http"]["timeoutSeconds"] = 50
    crew.write()
    crew.backend.rule("/wh1", delay=12, times=5)
    ids = {name: app.run(CREATE, name=name, inMs=0)["id"] for name in ("again", "later", "ended", "gone", "touched")}
    worker = crew.ready("w", **ALLOW)
    crew.backend.wait(5)

    def change(name: str, data: str) -> Any:
        return app.run(CHANGE.replace("data", f"data: {data}"), id=ids[name])

    change("again", "{payload: {of: 'again', version: 2}, nextAttemptAt: new Date()}")
    late = instant(
        change("later", "{payload: {version: 2}, nextAttemptAt: new Date(Date.now() + 16000)}")["nextAttemptAt"]
    )
    change("ended", "{status: 'FAILED', lastError: 'withdrawn by hand', nextAttemptAt: null}")
    app.run("prisma.webhookDelivery.delete({where: {id}})", id=ids["gone"])
    touched = change("touched", "{eventId: 'another'}")
    assert len(crew.backend.received()) == 5, "all of it was done while they were being delivered"

    for name in ("again", "later", "touched"):
        until(lambda name=name: app.run(STATUS, id=ids[name]) == "DELIVERED", what=f"{name} is delivered", timeout=120)
    rows = {name: app.run(ROW, id=key) for name, key in ids.items()}
    changed = worker.metric("soloist_queue_changed_total")
    stopped([worker])
    assert crew.ask("SELECT count(*) FROM soloist.claims") == 0
    assert crew.ask("SELECT count(*) FROM soloist.dead_rows") == 0

    assert changed == 4, "all but the one of which another column was written"
    assert rows["gone"] is None
    assert (rows["ended"]["status"], rows["ended"]["lastError"]) == ("FAILED", "withdrawn by hand")
    assert (rows["ended"]["attempts"], rows["ended"]["deliveredAt"]) == (0, None)
    assert (rows["touched"]["eventId"], rows["touched"]["attempts"]) == ("another", 1)
    assert rows["touched"]["updatedAt"] > touched["updatedAt"]
    sent = sorted(map(len, by_message(crew.backend.received()).values()))
    assert sent == [1, 1, 1, 2, 2]
    again = [each for each in crew.backend.received() if json.loads(each.body).get("version") == 2]
    assert len(again) == 2
    assert max(again, key=lambda each: each.wall).at >= late
    for requests in by_message(crew.backend.received()).values():
        fences = [int(each.header("Soloist-Fence") or 0) for each in requests]
        assert fences == sorted(set(fences))
        assert {each.header("Soloist-Attempt") for each in requests} == {"1"}
