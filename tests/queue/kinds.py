"""One queue on each kind of table, with the same words for all: our own, the user's with a sidecar, the user's with our columns.

``made(crew, "inline", leaseSeconds=10)`` makes the table and the WorkQueue over it; then ``add(100)`` puts rows with the
payloads ``{"n": 1}`` … in, ``until_over()`` waits until each is done or given up, and ``audit(100)`` says what must hold then.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, LiteralString

from tests.cluster.backend import Received
from tests.cluster.children import until
from tests.queue.books import OF_THE_USER, told_as_repeats
from tests.queue.user_tables import PRISMA, PRISMA_DDL, PRISMA_INLINE_DDL, PRISMA_NEW
from tests.queue.workers import Crew, Worker

KINDS = ("managed", "sidecar", "inline")
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


class Table:
    """What the tests ask of any kind. ``path``: of its requests; ``written``: the table that an outcome writes;
    ``outcome``: the regular expression of a statement that writes one."""

    path: str
    env: dict[str, str]
    written: LiteralString
    outcome: str
    LEFT: LiteralString
    LETTERS: LiteralString
    HELD: LiteralString
    USED: LiteralString
    LEASES: LiteralString

    def __init__(self, crew: Crew) -> None:
        self.crew = crew

    def add(self, count: int) -> None:
        raise NotImplementedError

    def left(self) -> int:
        """Rows that are neither done nor given up."""
        return int(self.crew.ask(self.LEFT))

    def until_over(self, timeout: float = 240.0) -> None:
        until(lambda: self.left() == 0, what="every row is done or given up", timeout=timeout)

    def letters(self) -> dict[int, tuple[str, int]]:
        """Reason and reclaims of each row that was given up."""
        with self.crew.connect() as connection:
            return {n: (reason, reclaims) for n, reason, reclaims in connection.execute(self.LETTERS)}

    def held(self, worker: Worker) -> int:
        """Rows whose claims are its, and good."""
        return int(self.crew.ask(self.HELD, worker.name))

    def used(self) -> int:
        """Rows that wait and have used up an attempt, or have a claim behind them that came to nothing."""
        return int(self.crew.ask(self.USED))

    def let_leases_end(self, first: float, apart: float) -> None:
        """In ``first`` seconds that of one row, and of each other one so many seconds after the last."""
        with self.crew.connect() as connection:
            connection.execute(self.LEASES, {"first": first, "apart": apart})

    def goes_on(self, by: int = 40) -> None:
        """Returns when so many more deliveries have begun."""
        before = len(self.crew.backend.received(self.path))
        self.crew.backend.wait(before + by, path=self.path, timeout=240)

    def served(self) -> int:
        """Requests that have no answer yet."""
        return sum(each.ended_boot is None for each in self.crew.backend.received(self.path))

    def accepted(self) -> int:
        """How many rows were done, no matter how often."""
        return int(self.crew.ask("SELECT count(DISTINCT id) FROM public.accepted"))

    def received(self) -> dict[int, list[Received]]:
        """The requests for each row, by its number, in the order of their arrival."""
        found: dict[int, list[Received]] = defaultdict(list)
        for each in self.crew.backend.received(self.path):
            found[json.loads(each.body)["n"]].append(each)
        return dict(found)

    def audit(self, count: int, *, in_order: bool = True) -> dict[int, list[Received]]:
        """Each of the rows accepted once, none given up; no claim taken over before its lease was over; repeats told as such."""
        assert self.left() == 0
        assert self.letters() == {}
        with self.crew.connect() as connection:
            accepted = connection.execute("SELECT count(*), count(DISTINCT id) FROM public.accepted").fetchone()
        assert accepted == (count, count)
        assert min(self.crew.late(), default=0.0) >= 0
        found = self.received()
        assert sorted(found) == list(range(1, count + 1)), "every row was received"
        told_as_repeats(found, in_order=in_order)
        return found


class Managed(Table):
    """soloist.work_items."""

    path, env = "/q", {}
    written, outcome = "soloist.work_items", r"soloist\.(complete|settle)"
    LEFT = "SELECT count(*) FROM soloist.work_items"
    LETTERS = "SELECT (payload ->> 'n')::int, reason, reclaims FROM soloist.dead_items"
    HELD = "SELECT count(*) FROM soloist.work_items WHERE claimed_by = %s AND lease_until > clock_timestamp()"
    USED = "SELECT count(*) FROM soloist.work_items WHERE (attempt, reclaims) <> (1, 0)"
    LEASES = """
UPDATE soloist.work_items AS q SET lease_until = clock_timestamp() + (%(first)s + %(apart)s * s.n) * interval '1 s'
FROM (SELECT id, row_number() OVER (ORDER BY id) - 1 AS n FROM soloist.work_items WHERE fence IS NOT NULL) AS s
WHERE q.id = s.id"""

    def __init__(self, crew: Crew, **spec: Any) -> None:
        super().__init__(crew)
        crew.queue("q", **spec)

    def add(self, count: int) -> None:
        self.crew.fill(count, first=1)


class Application(Table):
    """The application's tables as Prisma makes them, its endpoints at the receiver, and a WorkQueue over them.

    ``running``: a claim shows in the status, which the client that Prisma generates does not know."""

    path, env = "/wh1", ALLOW
    written, outcome = 'app."WebhookDelivery"', "outcome"
    LEFT = """SELECT count(*) FROM app."WebhookDelivery" WHERE "status"::text NOT IN ('DELIVERED', 'FAILED')"""
    LETTERS = """
SELECT (q."payload" ->> 'n')::int, d.reason, d.reclaims
FROM soloist.dead_rows AS d JOIN app."WebhookDelivery" AS q ON d.pk = ARRAY[q."id"]"""

    def __init__(self, crew: Crew, claim: str, *, running: bool = False, **spec: Any) -> None:
        super().__init__(crew)
        with crew.connect() as connection:
            connection.execute("CREATE SCHEMA app")
            connection.execute(PRISMA_DDL)
            connection.execute(PRISMA_INLINE_DDL)
            connection.execute(OF_THE_USER)
            connection.execute('UPDATE app."Webhook" SET "url" = %s', (crew.backend.url("/wh1"),))
            if running:
                connection.execute("""ALTER TYPE app."DeliveryStatus" ADD VALUE 'RUNNING'""")
        status = PRISMA["status"] | ({"running": "RUNNING"} if running else {})  # type: ignore[operator]
        table = PRISMA | {"status": status} | (INLINE if claim == "Inline" else {})
        crew.queue("q", table=table, http=HTTP | spec.pop("http", {}), **spec)

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


class WithSidecar(Application):
    """Nothing is added to the user's table."""

    HELD = "SELECT count(*) FROM soloist.claims WHERE worker = %s AND held_until > clock_timestamp()"
    USED = """
SELECT count(*) + (SELECT count(*) FROM soloist.claims) FROM app."WebhookDelivery"
WHERE "status" = 'PENDING' AND "attempts" <> 0"""
    LEASES = """
UPDATE soloist.claims AS q SET held_until = clock_timestamp() + (%(first)s + %(apart)s * s.n) * interval '1 s'
FROM (SELECT key, row_number() OVER (ORDER BY key) - 1 AS n FROM soloist.claims WHERE fence IS NOT NULL) AS s
WHERE q.key = s.key"""

    def __init__(self, crew: Crew, **spec: Any) -> None:
        super().__init__(crew, "Sidecar", **spec)


class WithColumns(Application):
    """The claim is in columns of the user's table, and in its status."""

    HELD = """
SELECT count(*) FROM app."WebhookDelivery" WHERE "claimedBy" = %s AND "claimUntil" AT TIME ZONE 'UTC' > clock_timestamp()"""
    USED = """
SELECT count(*) FROM app."WebhookDelivery"
WHERE "status"::text NOT IN ('DELIVERED', 'FAILED') AND ("attempts", "claimLost") <> (0, 0)"""
    LEASES = """
UPDATE app."WebhookDelivery" AS q
SET "claimUntil" = (clock_timestamp() + (%(first)s + %(apart)s * s.n) * interval '1 s') AT TIME ZONE 'UTC'
FROM (SELECT "id", row_number() OVER (ORDER BY "id") - 1 AS n FROM app."WebhookDelivery" WHERE "claimFence" IS NOT NULL) AS s
WHERE q."id" = s."id\""""

    def __init__(self, crew: Crew, **spec: Any) -> None:
        super().__init__(crew, "Inline", running=True, **spec)


def made(crew: Crew, kind: str, **spec: Any) -> Table:
    return {"managed": Managed, "sidecar": WithSidecar, "inline": WithColumns}[kind](crew, **spec)
