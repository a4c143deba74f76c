"""Real workers on an application's own table, made by Prisma: endpoints looked up, signed, and held to a limit per endpoint."""

from __future__ import annotations

import json
import os

import pytest
from standardwebhooks import Webhook

from tests.cluster.backend import Received
from tests.cluster.children import until
from tests.queue.kinds import ALLOW, SECRET, Application
from tests.queue.workers import Crew, Worker

ROWS = int(os.environ.get("SOLOIST_TEST_ROWS", "1000"))
"""Rows for one worker; four get ten thousand anyway."""
pytestmark = pytest.mark.slow


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
    app.until_delivered(rows, timeout=600)
    stopped(members)
    requests = crew.backend.received("/wh1")
    assert len(requests) == len(by_message(requests)) == rows
    assert sorted(json.loads(each.body)["n"] for each in requests) == list(range(1, rows + 1))
    Webhook(SECRET).verify(requests[0].body, requests[0].headers)
    attempted = 'SELECT count(*) FROM app."WebhookDelivery" WHERE "attempts" = 1 AND "deliveredAt" IS NOT NULL'
    assert crew.ask(attempted) == rows


def test_one_endpoint_that_hangs_has_its_limit_and_hides_no_other(crew: Crew) -> None:
    app = Application(crew, "Sidecar", concurrency={"perWorker": 16, "perKey": {"column": "webhookId", "limit": 2}})
    crew.backend.rule("/stuck", hang=True)
    app.endpoint("stuck")
    app.add(300, "stuck")
    worker = crew.ready("w", **ALLOW, SOLOIST_GRACE="8")
    crew.backend.wait(2, path="/stuck")
    app.add(50)
    until(lambda: app.statuses().get("DELIVERED") == 50, what="the others are delivered", timeout=90)
    assert crew.backend.most_at_once("/stuck") == 2
    assert crew.ask('SELECT max("attempts") FROM app."WebhookDelivery" WHERE "webhookId" = \'stuck\'') <= 1
    stopped([worker])


def test_an_endpoint_inside_the_firewall_is_not_called_unless_its_network_is_allowed(crew: Crew) -> None:
    app = Application(crew, "Sidecar")
    app.add(1)
    worker = crew.ready("w")
    until(lambda: app.statuses() == {"FAILED": 1}, what="it is refused", timeout=90)
    assert crew.backend.received() == []
    assert "127.0.0.1" in crew.ask('SELECT "lastError" FROM app."WebhookDelivery"')
    stopped([worker])
