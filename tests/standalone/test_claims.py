"""Three replicas work the rows of a queue: one is frozen beyond its claims, all are cut off from the database, one is killed."""

from __future__ import annotations

import os
import signal

import pytest

from tests.api.crew import Controller
from tests.cluster.children import until
from tests.demo.rows import rows_of
from tests.postgres.pooler import PgBouncer
from tests.queue.workers import ACCEPTED
from tests.standalone.crew import Crew

pytestmark = pytest.mark.slow
ROWS = 300
SOON = 240.0
FILL = """
SELECT count(*) FROM soloist.enqueue_many('default/hooks',
    (SELECT array_agg(jsonb_build_object('n', n)) FROM generate_series(0, %s::int) AS n))
"""
HELD = "SELECT count(*) FROM soloist.work_items WHERE fence IS NOT NULL AND starts_with(claimed_by, %s)"
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
SPEC = {
    "database": {"secretName": "own", "key": "uri"},
    "leaseSeconds": 8,
    "concurrency": {"perWorker": 10},
    "retry": {"schedule": ["2s"], "maxAttempts": 20},
}


def held(crew: Crew, member: Controller) -> int:
    return int(crew.ask(HELD, member.name)[0][0])


def send(member: Controller, number: signal.Signals) -> None:
    for pid in (member.parent, member.child()):
        os.kill(pid, number)


def frozen(crew: Crew) -> Controller | None:
    """One that stands still with claims in its hands."""
    for member in crew.members.values():
        if held(crew, member):
            send(member, signal.SIGSTOP)
            if held(crew, member):
                return member
            send(member, signal.SIGCONT)
    return None


@pytest.mark.parametrize("pooled", [False, True], ids=["to the server", "through a pooler"])
def test_each_row_is_accepted_once_whoever_is_frozen_cut_off_or_killed(
    crew: Crew, pooled: bool, request: pytest.FixtureRequest
) -> None:
    if pooled:
        pgbouncer: PgBouncer = request.getfixturevalue("pgbouncer")
        crew.env["SOLOIST_DATABASE"] = f"{pgbouncer.dsn(crew.url.rpartition('/')[2])}?pgbouncer=true"
    crew.backend.rule("/hooks", delay=0.5)
    deliver = {"http": {"url": crew.backend.url("/hooks"), "timeoutSeconds": 7}}
    crew.write(
        "queues.yaml",
        {
            "apiVersion": "soloist.dev/v1alpha1",
            "kind": "WorkQueue",
            "metadata": {"name": "hooks"},
            "spec": {**SPEC, "deliver": deliver},
        },
    )
    for name in ("a", "b", "c"):
        crew.start(name)
    for name in ("a", "b", "c"):
        crew.hear(name, "queue is worked", timeout=SOON)
    with crew.connect() as connection:
        connection.execute(ACCEPTED)
        connection.execute(FILL, (ROWS - 1,))
    crew.backend.wait(ROWS // 10, path="/hooks", timeout=SOON)
    first = until(lambda: frozen(crew), what="one is frozen in the middle of its sends", timeout=SOON)
    crew.ask(CUT)
    others = [member for member in crew.members.values() if member is not first]
    second = until(lambda: next((each for each in others if held(crew, each)), None), what="another is at work", timeout=SOON)  # fmt: skip
    second.kill_both()
    until(lambda: not held(crew, first), what="what the frozen one held is in other hands", timeout=SOON)
    send(first, signal.SIGCONT)
    crew.ready(second.name)
    until(lambda: not crew.ask("SELECT 1 FROM soloist.work_items LIMIT 1"), what="no row is left", timeout=SOON)
    accepted = [row for (row,) in crew.ask("SELECT id FROM public.accepted")]
    books = rows_of("hooks", ROWS, crew.backend.received("/hooks"), accepted=accepted, left=0)
    assert books.breaches() == []
    assert books.again > 0, "some were in hand"
    assert crew.ask("SELECT count(*) FROM soloist.dead_items") == [(0,)]
