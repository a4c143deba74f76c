"""Schedules of a payroll, and three records of each held against each other: what came due and was moved (the table), what was
paid (the provider, which heeds no keys), and what is held (dead letters). A pair is a schedule and one of its due times.

``schedules.add(90)`` makes some due, ``schedules.until_settled(ids)`` waits until each pair is recorded or held.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from soloist.domain.instants import parse_time
from tests.adoption.backend_process import EXAMPLES
from tests.cluster.backend import Backend, Received
from tests.cluster.children import until
from tests.postgres.server import Database

Pair = tuple[int, datetime]
NEW = """
WITH made AS (INSERT INTO schedules (organisation_id, account, amount_cents, next_run_timestamp)
SELECT 1 + mod(n, 7), 'account ' || n, 1000 + n, now() AT TIME ZONE 'UTC' - %s::interval + n * interval '1 ms'
FROM generate_series(1, %s::int) AS n RETURNING id, next_run_timestamp)
INSERT INTO first_due SELECT * FROM made RETURNING id
"""
PAIRS = """
SELECT s.id, p.due, p.due <= now() AT TIME ZONE 'UTC', p.due < s.next_run_timestamp
FROM schedules AS s JOIN first_due AS f USING (id)
CROSS JOIN LATERAL unnest(ARRAY[f.due, f.due + s.every, f.due + s.every + s.every]) AS p (due) WHERE s.id = ANY (%s)
"""
LEFT = f"""
SELECT count(*) FROM ({PAIRS}) AS p (id, due, come, moved) WHERE p.come AND NOT p.moved
AND NOT EXISTS (SELECT FROM soloist.dead_rows AS d WHERE d.pk = ARRAY[p.id::text])
"""
ASTRAY = """
SELECT s.id FROM schedules AS s JOIN first_due AS f USING (id) WHERE s.id = ANY (%s) AND (s.status <> 'active'
OR s.next_run_timestamp NOT IN (f.due, f.due + s.every, f.due + s.every + s.every))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Of some schedules. ``recorded`` are the pairs that the backend moved past; ``paid`` counts what the provider was asked;
    ``held`` has the reason of each letter."""

    due: set[Pair]
    recorded: set[Pair]
    paid: Counter[Pair]
    held: dict[Pair, str]
    astray: list[int]

    def audit(self) -> None:
        """What is true whenever nothing is under way."""
        assert set(self.paid.values()) <= {1}, "nothing is paid twice"
        assert self.recorded <= self.due, "no schedule moved further than it had come due"
        assert self.recorded <= set(self.paid), "nothing was recorded that was not paid"
        assert set(self.paid) - self.recorded <= set(self.held), "what was paid without a record is held for a person"
        assert not self.recorded & set(self.held), "nothing that was recorded is held"
        assert self.recorded | set(self.held) == self.due, "whatever came due is one or the other"
        assert set(self.held.values()) <= {"Interrupted"}, self.held
        assert self.astray == [], "every schedule stays active, and moves by whole periods"


class Schedules:
    """Of one database, whose tables are those of the example."""

    def __init__(self, place: Database, provider: Backend) -> None:
        self.place, self.provider = place, provider
        place.psql((EXAMPLES / "payroll" / "backend" / "tables.sql").read_text(encoding="utf-8"))
        place.psql("CREATE TABLE first_due (id integer PRIMARY KEY, due timestamp NOT NULL)")

    def add(self, count: int, *, overdue: str = "1 minute", stuck: dict[str, Any] | None = None) -> list[int]:
        """Their ids, in the order in which they are due. The payment of the middle one is taken by the provider, which answers
        as ``stuck`` says, once if it says no more: ``{"hang": True}`` for never."""
        with self.place.connect(autocommit=False) as connection:
            made = connection.execute(NEW, (overdue, count)).fetchall()
            ids = sorted(row[0] for row in made)
            if stuck:
                self.provider.rule(path="/payments", holding=f'"schedule":{middle(ids)},', **{"times": 1, **stuck})
        return ids

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.place.connect() as connection:
            return connection.execute(query, values).fetchall()

    def ask(self, query: str, *values: Any) -> Any:
        ((value,),) = self.rows(query, *values)
        return value

    def worker_of(self, schedule: int) -> str:
        return str(self.ask("SELECT worker FROM soloist.claims WHERE key LIKE '%%:' || %s::text", schedule))

    def backend_of(self, schedule: int) -> str:
        """The one that has the row locked, by the name that its connections have."""
        locks = "SELECT a.application_name FROM schedules AS s JOIN pg_stat_activity AS a ON a.backend_xid = s.xmax WHERE s.id = %s"
        return str(self.ask(locks, schedule))

    def at_work(self) -> set[str]:
        return set(self.ask("SELECT array_agg(DISTINCT worker) FROM soloist.claims WHERE held_until > now()") or ())

    def payments(self) -> list[Received]:
        return self.provider.received("/payments")

    def until_paid(self, schedule: int) -> None:
        self.provider.wait(path="/payments", when=lambda each: pair_of(each)[0] == schedule, timeout=120)

    def is_recorded(self, schedule: int) -> bool:
        """Its first period."""
        moved = "SELECT s.next_run_timestamp > f.due FROM schedules AS s JOIN first_due AS f USING (id) WHERE id = %s"
        return bool(self.ask(moved, schedule))

    def until_settled(self, ids: Sequence[int], timeout: float = 180.0) -> Books:
        """Each pair that has come due is recorded or held, and the books are right."""
        until(lambda: self.ask(LEFT, list(ids)) == 0, what="every due schedule is recorded or held", timeout=timeout)
        books = self.books(ids)
        books.audit()
        return books

    def books(self, ids: Sequence[int]) -> Books:
        pairs = [(id_, due.replace(tzinfo=UTC), come, moved) for id_, due, come, moved in self.rows(PAIRS, list(ids))]
        letters = self.rows("SELECT pk[1]::int, due_at, reason FROM soloist.dead_rows")
        paid = [pair_of(each) for each in self.payments()]
        return Books(
            due={(id_, due) for id_, due, come, _ in pairs if come},
            recorded={(id_, due) for id_, due, _, moved in pairs if moved},
            paid=Counter(pair for pair in paid if pair[0] in ids),
            held={(id_, due): reason for id_, due, reason in letters if id_ in ids},
            astray=[row[0] for row in self.rows(ASTRAY, list(ids))],
        )


def middle(ids: Sequence[int]) -> int:
    return ids[len(ids) // 2]


def pair_of(payment: Received) -> Pair:
    body = json.loads(payment.body)
    due = parse_time(body["due"])
    assert due is not None
    return body["schedule"], due
