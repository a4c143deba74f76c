"""Five queues in one worker: one hangs, one always fails, one has a million rows; the other two do not notice. On each kind of table."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

import pytest

from tests.cluster.children import until
from tests.queue.workers import Crew

pytestmark = pytest.mark.slow
SOME, FAILING = 8, 500
HANGS = 5
"""Seconds that a call which hangs lasts here."""
TRIES = 2
DDL = """
CREATE TABLE app.{0} (
    id bigserial PRIMARY KEY, status text NOT NULL DEFAULT 'pending', due timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0, payload jsonb NOT NULL,
    fence bigint, held_until timestamptz, lost integer NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX ON app.{0} (due) WHERE status = 'pending';"""
COLUMNS = {"id": "id", "dueAt": "due", "attempts": "attempts", "maxAttempts": TRIES}
STATUS = {"column": "status", "pending": ["pending"], "done": "done", "failed": "failed"}
INLINE = {"claim": "Inline", "inline": {"fence": "fence", "leaseUntil": "held_until", "reclaims": "lost"}}


class Queues:
    """All in soloist.work_items."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew

    def make(self, name: str, **spec: Any) -> None:
        retry = {"schedule": ["1s"], "jitter": 0, "maxAttempts": TRIES}
        self.crew.queue(name, retry=retry, http={"timeoutSeconds": HANGS}, **spec)

    def fill(self, name: str, count: int, *, due_in: float = 0.0, first: int = 0) -> Any:
        """Gives the time at which the last one is due."""
        query = (
            "INSERT INTO soloist.work_items (queue, due_at, payload) SELECT %s, now() + %s * interval '1 s',"
            " jsonb_build_object('n', n) FROM generate_series(%s::int, %s::int) AS n RETURNING due_at"
        )
        return self.last(query, (f"default/{name}", due_in, first, first + count - 1))

    def last(self, query: Any, values: tuple[Any, ...]) -> Any:
        with self.crew.connect() as connection:
            row = connection.execute(query, values).fetchone()
        assert row is not None
        return row[0]

    def left(self, name: str) -> int:
        return self.crew.left(name)

    def dead(self, name: str) -> int:
        return self.crew.dead(name)


class OfTheUser(Queues):
    """A table of its own for each."""

    def __init__(self, crew: Crew, claim: str) -> None:
        super().__init__(crew)
        self.claim = claim
        with crew.connect() as connection:
            connection.execute("CREATE SCHEMA app")

    def make(self, name: str, **spec: Any) -> None:
        with self.crew.connect() as connection:
            connection.execute(DDL.format(name))
        table = {"name": f"app.{name}", "status": STATUS, **COLUMNS, **(INLINE if self.claim == "inline" else {})}
        http = {"timeoutSeconds": HANGS, "bodyColumn": "payload"}
        self.crew.queue(name, table=table, retry={"schedule": ["1s"], "jitter": 0}, http=http, **spec)

    def fill(self, name: str, count: int, *, due_in: float = 0.0, first: int = 0) -> Any:
        query = (
            f"INSERT INTO app.{name} (due, payload) SELECT now() + %s * interval '1 s', jsonb_build_object('n', n)"
            " FROM generate_series(%s::int, %s::int) AS n RETURNING due"
        )
        return self.last(query, (due_in, first, first + count - 1))

    def left(self, name: str) -> int:
        return int(self.crew.ask(f"SELECT count(*) FROM app.{name} WHERE status = 'pending'"))

    def dead(self, name: str) -> int:
        return int(self.crew.ask(f"SELECT count(*) FROM app.{name} WHERE status = 'failed' AND attempts = {TRIES}"))


@pytest.mark.parametrize(
    "kind", ["managed", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("sidecar", "inline"))]
)
def test_of_five_queues_one_hangs_one_fails_and_one_is_endless_and_the_other_two_do_not_notice(
    crew: Crew, kind: str
) -> None:
    queues = Queues(crew) if kind == "managed" else OfTheUser(crew, kind)
    crew.backend.rule("/funding", hang=True)
    crew.backend.rule("/webhook", status=500)
    for name in ("email", "notification", "webhook", "funding"):
        queues.make(name)
    queues.make("export", concurrency={"perWorker": 8})
    worker = crew.ready("w", queues=5)
    idle = [*picked_up(queues, "email"), *picked_up(queues, "notification")]
    for name in ("funding", "webhook"):
        queues.fill(name, FAILING)
    queues.fill("export", 1_000_000)
    until(lambda: len(crew.backend.received("/funding")) >= 64, what="all slots of one hang", timeout=90)
    crew.backend.wait(100, path="/export")
    loaded = [*picked_up(queues, "email", first=SOME), *picked_up(queues, "notification", first=SOME)]
    print(
        f"{kind}: picked up {median(idle):.3f} s after their time while all are idle, {median(loaded):.3f} s beside the three"
    )
    assert min(idle + loaded) >= 0
    assert median(loaded) <= median(idle) + HANGS / 2, "none of them waited for a call that hangs"
    assert queues.left("export") > 900_000, "it was at work all the time"
    until(lambda: queues.dead("webhook") == FAILING, what="the failing ones are given up", timeout=240)
    assert queues.left("email") == queues.left("notification") == 0
    assert worker.ask("/healthz")[0] == worker.ask("/readyz")[0] == 200
    worker.terminate()
    assert worker.gone() == 0
    assert crew.claimed() == 0
    assert queues.left("webhook") == 0


def picked_up(queues: Queues, name: str, *, first: int = 0) -> list[float]:
    """Seconds from each row's time to its arrival, of some that are due one after the other."""
    late = []
    for number in range(first, first + SOME):
        due = queues.fill(name, 1, due_in=0.5, first=number)
        (request,) = queues.crew.backend.wait(
            1, path=f"/{name}", when=lambda each, number=number: json.loads(each.body)["n"] == number
        )
        late.append((request.at - due).total_seconds())
    return late
