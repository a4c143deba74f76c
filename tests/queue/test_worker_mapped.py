"""Real workers on an application's own table, made by Prisma: endpoints looked up, signed, and held to a limit per endpoint."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from standardwebhooks import Webhook

from tests.cluster.backend import Received
from tests.cluster.children import until
from tests.queue.user_tables import PRISMA, PRISMA_DDL, PRISMA_INLINE_DDL, PRISMA_NEW
from tests.queue.workers import Crew, Worker

ROWS = int(os.environ.get("SOLOIST_TEST_ROWS", "1000"))
"""Rows for one worker; four get ten thousand anyway."""
pytestmark = pytest.mark.slow
SECRET = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
ALLOW = {"SOLOIST_DATA_ALLOW": "127.0.0.0/8"}
INLINE = {
    "claim": "Inline",
    "inline": {"fence": "claimFence", "leaseUntil": "claimUntil", "reclaims": "claimLost", "claimedBy": "claimedBy"},
}
LOOKUP = {
    "table": 'app."Webhook"',
    "key": "webhookId",
    "by": "id",
    "url": "url",
    "secret": "secret",
    "active": "isActive",
}
HTTP = {"url": None, "lookup": LOOKUP, "bodyColumn": "payload", "signature": "StandardWebhooks"}


class Application:
    """The application's tables, its endpoints at the receiver, and a WorkQueue over them."""

    def __init__(self, crew: Crew, claim: str, **spec: Any) -> None:
        self.crew = crew
        with crew.connect() as connection:
            connection.execute("CREATE SCHEMA app")
            connection.execute(PRISMA_DDL)
            connection.execute(PRISMA_INLINE_DDL)
            connection.execute('UPDATE app."Webhook" SET "url" = %s', (crew.backend.url("/wh1"),))
        table = PRISMA | (INLINE if claim == "Inline" else {})
        crew.queue("q", table=table, http=HTTP, **spec)

    def endpoint(self, name: str) -> None:
        with self.crew.connect() as connection:
            connection.execute(
                'INSERT INTO app."Webhook" ("id", "url", "secret") VALUES (%s, %s, %s)',
                (name, self.crew.backend.url(f"/{name}"), SECRET),
            )

    def add(self, count: int, endpoint: str = "wh1") -> None:
        with self.crew.connect() as connection:
            rows = PRISMA_NEW.format(due="now()", count=count).replace("'wh1'", f"'{endpoint}'")
            connection.execute(rows)

    def statuses(self) -> dict[str, int]:
        with self.crew.connect() as connection:
            rows = connection.execute(
                'SELECT "status"::text, count(*) FROM app."WebhookDelivery" GROUP BY 1'
            ).fetchall()
        return dict(rows)

    def until_delivered(self, count: int, timeout: float = 120.0) -> None:
        until(lambda: self.statuses() == {"DELIVERED": count}, what=f"all {count} are delivered", timeout=timeout)

    def clean(self) -> None:
        claims = "SELECT count(*) FROM soloist.claims WHERE fence IS NOT NULL"
        until(lambda: self.crew.ask(claims) == 0, what="no claim is left", timeout=20)
        assert self.crew.ask('SELECT count(*) FROM app."WebhookDelivery" WHERE "claimFence" IS NOT NULL') == 0


def by_message(requests: list[Received]) -> dict[str, list[Received]]:
    found: dict[str, list[Received]] = {}
    for each in requests:
        found.setdefault(str(each.header("webhook-id")), []).append(each)
    return found


def stopped(workers: list[Worker]) -> None:
    for worker in workers:
        worker.terminate()
    for worker in workers:
        assert worker.gone() == 0


@pytest.mark.parametrize("claim", ["Sidecar", "Inline"])
@pytest.mark.parametrize(("workers", "rows"), [(1, ROWS), (4, max(ROWS, 10_000))])
def test_each_row_of_the_users_table_is_sent_once_signed_and_marked(
    crew: Crew, claim: str, workers: int, rows: int
) -> None:
    app = Application(crew, claim)
    app.add(rows)
    members = [crew.start(f"w{number}", **ALLOW) for number in range(workers)]
    app.until_delivered(rows, timeout=240)
    stopped(members)
    app.clean()
    requests = crew.backend.received("/wh1")
    assert len(requests) == len(by_message(requests)) == rows
    assert sorted(json.loads(each.body)["n"] for each in requests) == list(range(1, rows + 1))
    Webhook(SECRET).verify(requests[0].body, requests[0].headers)
    attempted = 'SELECT count(*) FROM app."WebhookDelivery" WHERE "attempts" = 1 AND "deliveredAt" IS NOT NULL'
    assert crew.ask(attempted) == rows


@pytest.mark.parametrize(("claim", "workers"), [("Sidecar", 2), ("Inline", 2), ("Sidecar", 1)])
def test_a_killed_worker_loses_no_row_of_the_users_table(crew: Crew, claim: str, workers: int) -> None:
    app = Application(crew, claim, leaseSeconds=6, maxReclaims=50, concurrency={"perWorker": 16})
    crew.backend.rule(delay=0.2)
    app.add(600)
    members = [crew.ready(f"w{number}", **ALLOW) for number in range(workers)]
    for number in range(3):
        before = len(crew.backend.received("/wh1"))
        until(lambda before=before: len(crew.backend.received("/wh1")) > before + 40, what="at it", timeout=60)
        members.pop(0).kill()
        members.append(crew.start(f"again{number}", **ALLOW))
    app.until_delivered(600)
    stopped(members)
    app.clean()
    found = by_message(crew.backend.received("/wh1"))
    assert len(found) == 600
    for requests in found.values():
        fences = [int(each.header("Soloist-Fence") or 0) for each in requests]
        assert fences == sorted(set(fences))
        assert {each.header("Soloist-Attempt") for each in requests} == {"1"}


def test_one_endpoint_that_hangs_has_its_limit_and_hides_no_other(crew: Crew) -> None:
    app = Application(crew, "Sidecar", concurrency={"perWorker": 16, "perKey": {"column": "webhookId", "limit": 2}})
    crew.backend.rule("/stuck", hang=True)
    app.endpoint("stuck")
    app.add(300, "stuck")
    worker = crew.ready("w", **ALLOW)
    crew.backend.wait(2, path="/stuck")
    app.add(50)
    until(lambda: app.statuses().get("DELIVERED") == 50, what="the others are delivered", timeout=20)
    assert crew.backend.most_at_once("/stuck") == 2
    assert crew.ask('SELECT max("attempts") FROM app."WebhookDelivery" WHERE "webhookId" = \'stuck\'') <= 1
    stopped([worker])
    app.clean()


def test_an_endpoint_inside_the_firewall_is_not_called_unless_its_network_is_allowed(crew: Crew) -> None:
    app = Application(crew, "Sidecar")
    app.add(1)
    worker = crew.ready("w")
    until(lambda: app.statuses() == {"FAILED": 1}, what="it is refused", timeout=20)
    assert crew.backend.received() == []
    assert "127.0.0.1" in crew.ask('SELECT "lastError" FROM app."WebhookDelivery"')
    stopped([worker])
    app.clean()
