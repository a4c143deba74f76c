"""From an application's own poller to a WorkQueue on the same table, in the order that docs/queues.md gives, and in a wrong one."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.cluster.children import until
from tests.queue.kinds import ALLOW, Application
from tests.queue.prisma_app import prisma_app
from tests.queue.workers import Crew

ROWS = 300
ONE = (
    'SELECT d."id", d."payload", w."url" FROM app."WebhookDelivery" d JOIN app."Webhook" w ON w."id" = d."webhookId"'
    ' WHERE d."status" = \'PENDING\' ORDER BY d."nextAttemptAt" LIMIT 1'
)
SENT = 'UPDATE app."WebhookDelivery" SET "status" = \'DELIVERED\', "deliveredAt" = now() WHERE "id" = %s'

# As applications with Prisma write it, whose replicas take a row from each other by moving its due time.
PRISMA_POLLER = """(() => {
  globalThis.going = true;
  globalThis.poller = (async () => {
    while (globalThis.going) {
      const due = await prisma.webhookDelivery.findFirst({
        where: {status: "PENDING", nextAttemptAt: {lte: new Date()}},
        orderBy: {nextAttemptAt: "asc"},
        include: {webhook: true},
      });
      if (due === null) {
        await new Promise((go) => setTimeout(go, 20));
        continue;
      }
      const taken = await prisma.webhookDelivery.updateMany({
        where: {id: due.id, status: "PENDING", nextAttemptAt: due.nextAttemptAt},
        data: {nextAttemptAt: new Date(Date.now() + 60000), attempts: {increment: 1}},
      });
      if (taken.count === 0) continue;
      await fetch(due.webhook.url, {method: "POST", body: JSON.stringify(due.payload)});
      const now = new Date();
      await prisma.webhookDelivery.update({
        where: {id: due.id},
        data: {status: "DELIVERED", deliveredAt: now, lastAttemptAt: now, nextAttemptAt: null},
      });
    }
  })();
  return true;
})()"""
ENDED = "(globalThis.going = false, globalThis.poller.then(() => true))"
OldPod = Callable[[Application], AbstractContextManager[Callable[[], object]]]
"""It polls from the call of what it gives."""


@contextmanager
def old_pod(app: Application) -> Iterator[Callable[[], object]]:
    """The application's own poller, which ends in its own time: with the row that it is at."""
    ending, failures = threading.Event(), []

    def poll() -> None:
        try:
            with app.crew.connect() as connection:
                while not ending.is_set():
                    row = connection.execute(ONE).fetchone()
                    if row is None:
                        ending.wait(0.02)
                        continue
                    told = urllib.request.Request(row[2], json.dumps(row[1]).encode(), method="POST")
                    urllib.request.urlopen(told, timeout=120).close()
                    connection.execute(SENT, (row[0],))
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=poll)
    try:
        yield thread.start
    finally:
        ending.set()
        thread.join(90)
        assert not thread.is_alive()
        assert failures == []


@contextmanager
def prisma_pod(app: Application) -> Iterator[Callable[[], object]]:
    """The same, where the application is one of Prisma's."""
    with prisma_app(app.crew.database.dsn()) as node:
        assert node.run("prisma.webhook.count()") == 1
        yield lambda: node.run(PRISMA_POLLER)
        assert node.run(ENDED) is True


POLLERS = pytest.mark.parametrize("old", [old_pod, pytest.param(prisma_pod, marks=pytest.mark.slow)])


def sent(crew: Crew) -> Counter[int]:
    return Counter(json.loads(each.body)["n"] for each in crew.backend.received("/wh1"))


@POLLERS
def test_a_queue_that_was_applied_suspended_and_resumed_after_the_last_old_pod_sends_each_row_once(
    crew: Crew, old: OldPod
) -> None:
    app = Application(crew, "Sidecar", suspend=True)
    crew.backend.rule(delay=0.02)
    app.add(ROWS)
    worker = crew.start("w", **ALLOW)
    until(lambda: worker.ask("/readyz")[0] == 200, what="the worker knows its queues", timeout=90)
    with old(app) as begin:
        begin()
        until(lambda: sum(sent(crew).values()) >= 10, what="the old pod has sent some", timeout=90)
    by_the_old = sum(sent(crew).values())
    assert 10 <= by_the_old < ROWS, "there are rows left to take over"
    assert worker.said("queue is worked") == []
    crew.documents["q"]["spec"]["suspend"] = False
    crew.write()
    app.until_delivered(ROWS)
    worker.terminate()
    assert worker.gone() == 0
    assert sent(crew) == Counter(range(1, ROWS + 1))
    attempts = 'SELECT array_agg(DISTINCT "attempts") FROM app."WebhookDelivery" WHERE "nextAttemptAt" IS NULL'
    assert crew.ask(attempts) == ([1] if old is prisma_pod else None), "what the old pod wrote stands"


@POLLERS
def test_a_queue_that_runs_beside_an_old_pod_cannot_keep_it_from_sending_a_row_again(crew: Crew, old: OldPod) -> None:
    app = Application(crew, "Sidecar")
    crew.documents["q"]["spec"]["deliver"]["http"]["timeoutSeconds"] = 50
    crew.write()
    with old(app) as begin:
        crew.backend.rule(delay=12.0, times=1)
        app.add(1)
        worker = crew.ready("w", **ALLOW)
        crew.backend.wait(1, path="/wh1")
        begin()
        crew.backend.wait(2, path="/wh1")
    app.until_delivered(1)
    changed = "soloist_queue_changed_total"
    until(lambda: worker.metric(changed) == 1, what="it says that somebody else was at the row", timeout=120)
    worker.terminate()
    assert worker.gone() == 0
    assert sent(crew) == Counter({1: 2}), "which is why the old poller goes first"
