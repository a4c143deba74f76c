"""The plans that claims and outcomes run by, at a million rows and with statistics that lie, are the ones they need."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.postgres.server import Database, Postgres
from tests.queue.plans import explained
from tests.queue.rows import Connection, claim, enqueue, outcome, scalar

FORBIDDEN = ("Seq Scan", "Bitmap", "Sort", "Hash", "Merge")
CLAIM = "SELECT * FROM soloist.claim(%s, %s)"
# Pages for a claim of ten rows: the index's levels for each priority, and a few for each row. A scan would touch 30,000.
FEW = 400
FILL = """
INSERT INTO soloist.work_items (queue, priority, due_at, payload)
SELECT %(queue)s, n %% 4, now() + %(due)s * interval '1 s' * n / 1000, '{}' FROM generate_series(1, %(count)s) AS n"""

SPENT = """
INSERT INTO soloist.work_items (queue, due_at, payload, reclaims, fence, lease_until)
SELECT 'spent', now() - interval '1 hour', '{}', 5, n, now() - interval '1 s' FROM generate_series(1, %(count)s) AS n"""


@pytest.fixture(scope="module")
def crowded(postgres: Postgres, migrated_template: str) -> Iterator[Database]:
    """A million due rows in `many`, 100,000 that are not yet due and five that are in `later`; never analyzed."""
    made = postgres.create_database("crowded", template=migrated_template)
    with made.connect() as connection:
        connection.execute("ALTER TABLE soloist.work_items SET (autovacuum_enabled = off)")
        connection.execute(FILL, {"queue": "many", "due": -1, "count": 1_000_000})
        connection.execute(FILL, {"queue": "later", "due": 3600, "count": 100_000})
        enqueue(connection, 5, queue="later")
    yield made
    postgres.drop_database(made.name)


@pytest.fixture
def connection(crowded: Database) -> Iterator[Connection]:
    with crowded.connect() as opened:
        yield opened


def assert_cheap(connection: Connection, query: str, values: tuple[object, ...], index: str) -> None:
    plans = explained(connection, query, values)
    assert plans
    for plan in plans:
        bad = {node for node in plan.nodes if any(word in node for word in FORBIDDEN)} - {"Sort"}
        assert not bad, plan
        assert plan.buffers < FEW, plan
    assert any(f"Index Scan {index}" in plan.nodes for plan in plans)


@pytest.mark.parametrize("statistics", ["never taken", "of a full table"])
def test_a_claim_is_an_index_scan_at_a_million_rows(connection: Connection, statistics: str) -> None:
    if statistics != "never taken":
        connection.execute("ANALYZE soloist.work_items")
    for _ in range(7):  # a plan kept for any values takes over after five
        assert_cheap(connection, CLAIM, ("many", 10), "work_items_due")


def test_rows_that_are_not_due_yet_do_not_slow_a_claim(connection: Connection) -> None:
    assert_cheap(connection, CLAIM, ("later", 10), "work_items_due")
    assert claim(connection, 10, queue="later") == []
    assert_cheap(connection, CLAIM, ("later", 10), "work_items_due")
    assert_cheap(connection, CLAIM, ("nothing here", 10), "work_items_due")


def test_rows_whose_workers_all_died_too_often_are_cleared_away_some_hundreds_at_a_time(connection: Connection) -> None:
    """A claim meets so many of them however many there are, and each of its statements touches a few pages for each."""
    spent, some_hundreds = 10_000, 500
    connection.execute(SPENT, {"count": spent})
    good = enqueue(connection, 5, queue="spent")
    assert_cheap(connection, CLAIM, ("spent", 10), "work_items_due")
    rows, claims = [], 1
    while not rows:
        rows = claim(connection, 10, queue="spent")
        claims += 1
    assert sorted(row.id for row in rows) == sorted(good)
    assert claims <= spent / some_hundreds + 2
    assert scalar(connection, "SELECT count(*) FROM soloist.dead_items WHERE queue = 'spent'") == spent
    # Those that are dead now lie beside the table.
    assert_cheap(connection, CLAIM, ("many", 10), "work_items_due")


def test_rows_that_are_claimed_to_be_given_up_are_found_like_all_others(connection: Connection) -> None:
    doomed = "SELECT * FROM soloist.claim(%s, %s, worker => 'undertaker', spare => true, doomed => true)"
    connection.execute(SPENT.replace("'spent'", "'doomed'"), {"count": 1000})
    moved = "UPDATE soloist.work_items SET reclaims = 6, fence = NULL, lease_until = NULL WHERE queue = 'doomed' AND fence %% 2 = 0"
    connection.execute(moved, ())
    for _ in range(7):
        assert_cheap(connection, doomed, ("doomed", 10), "work_items_due")
        assert_cheap(connection, doomed, ("many", 10), "work_items_due")
    claims = "SELECT queue, reclaims, count(*) FROM soloist.work_items WHERE claimed_by = 'undertaker' GROUP BY 1, 2"
    assert connection.execute(claims).fetchall() == [("doomed", 6, 70)]


@pytest.mark.parametrize("verb", ["complete", "renew", "release", "fail", "settle"])
def test_outcomes_find_their_rows_by_primary_key(connection: Connection, verb: str) -> None:
    failed = ", %s::text[], %s::interval[]"
    more = {"renew": ", '60 s'", "fail": failed, "settle": f", %s::text[]{failed}"}.get(verb, "")
    for _ in range(6):
        rows = claim(connection, 10, queue="many")
        values: tuple[object, ...] = ([row.id for row in rows], [row.fence for row in rows])
        values += (["Failed", "PutBack", "Done", "Interrupted", "Failed"] * 2,) if verb == "settle" else ()
        values += (["x"] * 10, [None, "1 s"] * 5) if verb in {"fail", "settle"} else ()
        assert_cheap(connection, f"SELECT soloist.{verb}(%s, %s{more})", values, "work_items_pkey")


def test_claims_and_renewals_touch_no_index(queue_database: Database) -> None:
    """Heap-only updates; the last pages of the table have no room left, hence not all of them."""
    with queue_database.connect() as connection:
        connection.execute("TRUNCATE soloist.work_items")
        connection.execute(FILL, {"queue": "q", "due": -1, "count": 4000})
        before = counters(connection)
        for _ in range(8):
            outcome(connection, "renew", claim(connection, 500), "60 s")
        updates, heap_only = (now - then for now, then in zip(counters(connection), before, strict=True))
    assert updates == 8000
    assert heap_only > 0.85 * updates


def counters(connection: Connection) -> tuple[int, int]:
    connection.execute("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
    row = connection.execute(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'work_items'"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def test_behind_rows_that_an_old_transaction_keeps_a_claim_starts_where_the_last_one_ended(crowded: Database) -> None:
    with crowded.connect(autocommit=False) as old, crowded.connect() as connection:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        scalar(old, "SELECT count(*) FROM soloist.migrations")
        for _ in range(20):
            rows = claim(connection, 500, queue="many")
            outcome(connection, "complete", rows)
        due_at, after = max((row.due_at, row.id) for row in rows if row.priority == max(r.priority for r in rows))
        from_the_head = explained(connection, CLAIM, ("many", 10))
        query = "SELECT * FROM soloist.claim('many', 10, after_due => %s, after_id => %s)"
        assert_cheap(connection, query, (due_at, after), "work_items_due")
    (scan,) = (plan for plan in from_the_head if "SKIP LOCKED" in plan.query)
    assert "Index Scan work_items_due" in scan.nodes
    assert not {node for node in scan.nodes if "Seq" in node or "Sort" in node or "Bitmap" in node}
