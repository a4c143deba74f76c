"""What the SQL functions of the managed table promise, each on a real server."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.cluster.children import until
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database
from tests.queue.rows import Claimed, Connection, claim, enqueue, fail, items, lapse, outcome, scalar

CLAIM_LOST, STALE_FENCE = "SO001", "SO002"


# Enqueue and claim


def test_a_row_is_claimed_by_one_and_then_by_nobody(connection: Connection) -> None:
    (made,) = enqueue(connection)
    (row,) = claim(connection, 10)
    assert (row.id, row.attempt, row.tries, row.reclaims, row.payload) == (made, 1, 1, 0, {"n": 0})
    assert claim(connection, 10) == []
    assert outcome(connection, "complete", [row]) == {made}
    assert items(connection) == []


def test_fences_rise_with_every_claim(connection: Connection) -> None:
    enqueue(connection, 3)
    fences = []
    for _ in range(3):
        rows = claim(connection, 3)
        fences.append([row.fence for row in rows])
        outcome(connection, "release", rows)
    assert len({fence for batch in fences for fence in batch}) == 9
    assert max(fences[0]) < min(fences[1]) < max(fences[1]) < min(fences[2])


def test_a_claim_that_finds_nothing_writes_nothing(connection: Connection) -> None:
    """An idle queue is asked often."""
    connection.execute("SELECT setval('soloist.fence', 17)")
    with connection.transaction():
        assert claim(connection) == []
        assert scalar(connection, "SELECT pg_current_xact_id_if_assigned()") is None


def test_a_row_is_enqueued_if_and_only_if_its_transaction_commits(connection: Connection) -> None:
    with connection.transaction(force_rollback=True):
        enqueue(connection)
    assert claim(connection) == []


def test_a_row_is_not_claimed_before_it_is_due(connection: Connection) -> None:
    due = scalar(connection, "SELECT now() + interval '0.3 s'")
    enqueue(connection, due_at=due)
    (row,) = until(lambda: claim(connection), what="the row is due", timeout=60)
    claimed_at = row.lease_until - timedelta(seconds=60)
    assert claimed_at >= row.due_at == due
    enqueue(connection, due_at=due + timedelta(hours=1))
    assert claim(connection) == []


def test_urgent_rows_come_first_and_then_the_longest_due(connection: Connection) -> None:
    expected = [(0, 5), (0, 1), (1, 9), (1, 2), (3, 7)]
    for priority, minutes in reversed(expected):
        due = scalar(connection, "SELECT now() - make_interval(mins => %s)", (minutes,))
        enqueue(connection, due_at=due, priority=priority)
    now = scalar(connection, "SELECT now()")
    seen = [row for _ in expected for row in claim(connection)]
    assert [(row.priority, round((now - row.due_at) / timedelta(minutes=1))) for row in seen] == expected


def test_a_claim_across_priorities_is_filled_up_and_not_more(connection: Connection) -> None:
    for priority in range(4):
        enqueue(connection, 3, priority=priority)
    assert sorted(row.priority for row in claim(connection, 7)) == [0, 0, 0, 1, 1, 1, 2]
    assert [row.priority for row in claim(connection, 500)] == [2, 2, 3, 3, 3]


def test_queues_do_not_see_each_other(connection: Connection) -> None:
    enqueue(connection, queue="a")
    assert claim(connection, queue="b") == []
    assert len(claim(connection, queue="a")) == 1


def test_a_unique_key_is_held_by_one_row_until_that_is_finished(connection: Connection) -> None:
    (first,) = enqueue(connection, unique_key="invoice-1")
    assert enqueue(connection, unique_key="invoice-1") == [None]
    assert enqueue(connection, queue="other", unique_key="invoice-1") != [None]
    rows = claim(connection)
    assert enqueue(connection, unique_key="invoice-1") == [None]
    outcome(connection, "complete", rows)
    assert enqueue(connection, unique_key="invoice-1") > [first]


def test_many_are_enqueued_at_once_less_those_whose_key_is_there(connection: Connection) -> None:
    query = "SELECT * FROM soloist.enqueue_many('q', %s::jsonb[], unique_keys => %s)"
    payloads = ['{"n": 1}', '{"n": 2}', '{"n": 3}']
    assert len(connection.execute(query, (payloads, ["a", "b", None])).fetchall()) == 3
    assert len(connection.execute(query, (payloads, ["b", "c", "c"])).fetchall()) == 1
    assert sorted((row["payload"]["n"], row["unique_key"] or "") for row in items(connection)) == [
        (1, "a"),
        (2, "b"),
        (2, "c"),
        (3, ""),
    ]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("soloist.claim('q', 501)", "n is 501, and a claim takes 1 to 500 rows"),
        ("soloist.claim('q', 0)", "n is 0, and"),
        ("soloist.claim('q', NULL)", "n is <NULL>, and"),
        ("soloist.settle('{1}', '{1}', '{done}', NULL, NULL)", "outcomes holds something else than {Done,Failed,PutBack,"),
        ("soloist.settle('{1}', '{1}', '{NULL}', NULL, NULL)", "outcomes holds something else than"),
        ("soloist.fail('{1,2}', '{1,2}', '{x}', '{1 s}')", "there are 2 ids, 2 fences, 2 outcomes, 1 errors and 1 waits"),
        ("soloist.settle('{1,2}', '{1,2}', '{Done}', NULL, NULL)", "there are 2 ids, 2 fences, 1 outcomes, <NULL> errors"),
        ("soloist.claim('q', 1, '0 s')", "lease is 00:00:00, and has to be longer than nothing"),
        ("soloist.enqueue('', '{}')", "queue_is_named"),
        ("soloist.enqueue('q', '{}', priority => 4)", "priority_is_0_to_3"),
        ("soloist.enqueue('q', NULL)", 'null value in column "payload"'),
        ("soloist.enqueue_many('q', ARRAY['1', '2']::jsonb[], NULL, ARRAY['a'])", "there are 2 payloads and 1 unique_keys"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(connection: Connection, statement: str, says: str) -> None:
    with pytest.raises(psycopg.Error, match=says):
        connection.execute(f"SELECT * FROM {statement}")


def test_a_claim_that_starts_behind_the_last_one_misses_no_row_after_it(connection: Connection) -> None:
    enqueue(connection, 10)
    first = claim(connection, 4)
    due_at, after = max((row.due_at, row.id) for row in first)
    second = claim(connection, 10, after_due=due_at, after_id=after)
    assert sorted(row.id for row in first + second) == [row["id"] for row in items(connection)]


def test_a_claim_that_starts_behind_urgent_rows_starts_at_the_head_of_those_it_has_not_seen(
    connection: Connection,
) -> None:
    (older,) = enqueue(connection, priority=2)
    enqueue(connection, 2, priority=0)
    first = claim(connection, 1)
    start = {"after_due": first[0].due_at, "after_id": first[0].id, "after_priority": 0}
    assert [row.priority for row in first + claim(connection, 1, **start)] == [0, 0]
    assert [row.id for row in claim(connection, 1, **start)] == [older]


def test_a_released_row_before_the_start_is_met_by_a_claim_from_the_head(connection: Connection) -> None:
    enqueue(connection, 4)
    first = claim(connection, 2)
    due_at, after = max((row.due_at, row.id) for row in first)
    outcome(connection, "release", first)
    assert len(claim(connection, 10, after_due=due_at, after_id=after)) == 2
    assert len(claim(connection, 10)) == 2


# Outcomes


def test_a_failed_row_waits_for_its_next_attempt_which_has_the_next_number(connection: Connection) -> None:
    enqueue(connection)
    rows = claim(connection)
    assert fail(connection, rows, "1 hour", "HTTP 503") == {rows[0].id}
    (row,) = items(connection)
    assert (row["attempt"], row["last_error"], row["fence"], row["lease_until"]) == (2, "HTTP 503", None, None)
    assert timedelta(minutes=59) < row["due_at"] - rows[0].due_at < timedelta(minutes=62)
    assert claim(connection) == []


def test_a_row_given_up_moves_to_the_dead_with_all_that_is_known_of_it(connection: Connection) -> None:
    enqueue(connection, unique_key="k", priority=2)
    rows = claim(connection)
    assert fail(connection, rows, None, "HTTP 410") == {rows[0].id}
    assert items(connection) == []
    (dead,) = items(connection, "dead_items")
    seen = {
        name: dead[name]
        for name in ("id", "queue", "priority", "unique_key", "payload", "fence", "reason", "last_error")
    }
    assert seen == {
        "id": rows[0].id,
        "queue": "q",
        "priority": 2,
        "unique_key": "k",
        "payload": {"n": 0},
        "fence": rows[0].fence,
        "reason": "Failed",
        "last_error": "HTTP 410",
    }


def test_one_statement_fails_some_for_good_and_some_until_later(connection: Connection) -> None:
    enqueue(connection, 3)
    rows = claim(connection, 3)
    accepted = outcome(connection, "fail", rows, ["a", "b", "c"], [None, "1 s", None])
    assert accepted == {row.id for row in rows}
    assert [row["last_error"] for row in items(connection)] == ["b"]
    assert [row["last_error"] for row in items(connection, "dead_items")] == ["a", "c"]


def test_a_released_row_is_taken_at_once_and_no_attempt_is_used(connection: Connection) -> None:
    enqueue(connection)
    rows = claim(connection)
    assert outcome(connection, "release", rows) == {rows[0].id}
    (again,) = claim(connection)
    assert (again.id, again.attempt, again.reclaims) == (rows[0].id, 1, 0)
    assert again.fence > rows[0].fence


def test_a_renewed_lease_is_counted_from_now(connection: Connection) -> None:
    enqueue(connection)
    rows = claim(connection, lease="1 s")
    assert outcome(connection, "renew", rows, "1 hour") == {rows[0].id}
    assert scalar(connection, "SELECT lease_until > now() + interval '59 min' FROM soloist.work_items")


def test_a_lease_that_is_over_still_counts_until_somebody_else_claims(connection: Connection) -> None:
    enqueue(connection)
    rows = claim(connection)
    lapse(connection)
    assert outcome(connection, "complete", rows) == {rows[0].id}


WRITES: dict[str, tuple[Any, ...]] = {
    "renew": ("60 s",),
    "complete": (),
    "release": (),
    "fail": (["late"], [None]),
    "settle": (["Interrupted"], ["late"], [None]),
}


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("taken_by", ["a reclaim", "a release", "a failure", "nobody, after a reclaim"])
def test_a_claim_that_was_taken_over_can_write_nothing(connection: Connection, verb: str, taken_by: str) -> None:
    enqueue(connection)
    stale = claim(connection)
    match taken_by:
        case "a release":
            outcome(connection, "release", stale)
        case "a failure":
            fail(connection, stale, "0 s")
        case _:
            lapse(connection)
    claim(connection)
    if taken_by == "nobody, after a reclaim":
        outcome(connection, "release", claim(connection))
        connection.execute("SELECT soloist.release(array_agg(id), array_agg(fence)) FROM soloist.work_items")
    before = items(connection)
    assert outcome(connection, verb, stale, *WRITES[verb]) == set()
    assert items(connection) == before
    assert items(connection, "dead_items") == []


@pytest.mark.parametrize("verb", WRITES)
def test_of_a_batch_only_the_claims_that_hold_are_accepted(connection: Connection, verb: str) -> None:
    enqueue(connection, 4)
    rows = claim(connection, 4)
    outcome(connection, "release", rows[:2])
    claim(connection, 1)
    more = tuple(value * 4 if isinstance(value, list) else value for value in WRITES[verb])
    assert outcome(connection, verb, rows, *more) == {row.id for row in rows[2:]}


# In the application's own transaction

RAISING = {"complete": "", "renew": ", '60 s'", "release": "", "fail": ", 'x', NULL"}


@pytest.mark.parametrize("verb", RAISING)
def test_a_lost_claim_takes_the_applications_transaction_with_it(connection: Connection, verb: str) -> None:
    connection.execute("CREATE TABLE effect (n int)")
    enqueue(connection, 2)
    good, lost = claim(connection, 2)
    lapse(connection)
    claim(connection, 2)

    def work() -> None:
        with connection.transaction():
            connection.execute("INSERT INTO effect VALUES (1)")
            connection.execute(f"SELECT soloist.{verb}_or_raise(%s, %s{RAISING[verb]})", (lost.id, lost.fence))

    with pytest.raises(psycopg.Error, match=f"the claim of row {lost.id} under fence {lost.fence} is lost") as raised:
        work()
    assert raised.value.sqlstate == CLAIM_LOST
    assert scalar(connection, "SELECT count(*) FROM effect") == 0
    assert good.fence < lost.fence


@pytest.mark.parametrize("verb", RAISING)
def test_a_claim_that_holds_commits_with_the_applications_effect(connection: Connection, verb: str) -> None:
    connection.execute("CREATE TABLE effect (n int)")
    enqueue(connection)
    (row,) = claim(connection)
    with connection.transaction():
        connection.execute("INSERT INTO effect VALUES (1)")
        connection.execute(f"SELECT soloist.{verb}_or_raise(%s, %s{RAISING[verb]})", (row.id, row.fence))
    assert scalar(connection, "SELECT count(*) FROM effect") == 1
    assert [item["fence"] for item in items(connection)] == {"renew": [row.fence], "release": [None]}.get(verb, [])


# Claims that end without an outcome


def test_a_reclaimed_row_keeps_its_attempt_and_gets_a_higher_fence(connection: Connection) -> None:
    enqueue(connection)
    (first,) = claim(connection)
    assert claim(connection) == []
    lapse(connection)
    (again,) = claim(connection)
    assert (again.id, again.attempt, again.tries, again.reclaims) == (first.id, 1, 1, 1)
    assert again.fence > first.fence


def test_a_row_is_not_reclaimed_before_its_lease_ends_and_then_at_once(connection: Connection) -> None:
    enqueue(connection)
    (first,) = claim(connection, lease="0.4 s")

    def look() -> list[Claimed]:
        now = scalar(connection, "SELECT clock_timestamp()")
        rows = claim(connection)
        assert rows or now < first.lease_until
        return rows

    (again,) = until(look, what="the lease is over", timeout=60)
    claimed_at = again.lease_until - timedelta(seconds=60)
    assert claimed_at >= first.lease_until


def test_an_outcome_ends_the_count_of_reclaims(connection: Connection) -> None:
    enqueue(connection)
    for _ in range(3):
        claim(connection, lease="0.1 s")
        lapse(connection)
    rows = until(lambda: claim(connection, lease="0.1 s"), what="it comes again", timeout=60)
    assert rows[0].reclaims == 3
    fail(connection, rows, "0 s")
    (again,) = claim(connection)
    assert (again.reclaims, again.attempt) == (0, 2)


def test_a_row_whose_claims_end_too_often_is_dead(connection: Connection) -> None:
    enqueue(connection)
    for _ in range(3):
        assert len(claim(connection, max_reclaims=2)) == 1
        lapse(connection)
    assert claim(connection, max_reclaims=2) == []
    (dead,) = items(connection, "dead_items")
    assert (dead["reason"], dead["attempt"], dead["reclaims"]) == ("ReclaimedTooOften", 1, 3)
    assert dead["last_error"] == "The claim of worker-1 ended without an outcome."
    assert items(connection) == []


def test_with_hold_an_interrupted_row_waits_for_a_person_and_keeps_its_attempt(connection: Connection) -> None:
    enqueue(connection)
    (first,) = claim(connection, hold=True)
    lapse(connection)
    assert claim(connection, hold=True) == []
    (dead,) = items(connection, "dead_items")
    assert (dead["reason"], dead["attempt"]) == ("Interrupted", 1)
    assert scalar(connection, "SELECT soloist.retry_dead(%s)", ([first.id],)) == first.id
    (again,) = claim(connection, hold=True)
    assert (again.id, again.attempt) == (first.id, 1)


def test_a_reclaimed_row_goes_behind_those_that_are_due(connection: Connection) -> None:
    (poison,) = enqueue(connection)
    claim(connection)
    others = enqueue(connection, 5)
    lapse(connection)
    assert [row.id for _ in range(6) for row in claim(connection)] == [*others, poison]


def test_a_row_that_kills_its_workers_dies_and_those_claimed_with_it_live(connection: Connection) -> None:
    """Each claim of the poison row ends for its whole batch; from the third time on they come apart."""
    (poison,) = enqueue(connection)
    enqueue(connection, 20)
    done: set[int] = set()

    def work() -> bool:
        rows = claim(connection, 21, lease="0.3 s")
        if any(row.id == poison for row in rows):
            return False  # all of them stay claimed, by a worker that is dead
        done.update(outcome(connection, "complete", rows))
        return len(done) + len(items(connection, "dead_items")) == 21

    until(work, what="every row is done or dead", timeout=120)
    dead = {row["id"] for row in items(connection, "dead_items")}
    assert poison in dead
    assert len(done) >= 15


def test_hundreds_of_lapsed_claims_do_not_keep_one_slot_from_a_fresh_row(connection: Connection) -> None:
    enqueue(connection, 300)
    claim(connection, 300)
    (fresh,) = enqueue(connection)
    lapse(connection)
    assert [row.id for row in claim(connection, 1)] == [fresh]


# Cancelled and dead


def test_a_cancelled_row_is_gone_and_its_worker_finds_its_claim_lost(connection: Connection) -> None:
    waiting, claimed = enqueue(connection, 2)
    rows = [row for row in claim(connection, 2) if row.id == claimed]
    assert scalar(connection, "SELECT count(*) FROM soloist.cancel(%s)", ([waiting, claimed, 99],)) == 2
    assert outcome(connection, "complete", rows) == set()
    enqueue(connection, unique_key="k")
    assert scalar(connection, "SELECT count(*) FROM soloist.cancel_key('q', 'k')") == 1
    assert items(connection) == []


def die(connection: Connection, count: int = 1, **more: Any) -> list[int]:
    enqueue(connection, count, **more)
    rows = claim(connection, count)
    fail(connection, rows, None, "gone")
    return sorted(row.id for row in rows)


def test_a_dead_row_is_retried_as_a_new_attempt_with_a_fresh_budget(connection: Connection) -> None:
    ids = die(connection)
    assert scalar(connection, "SELECT soloist.retry_dead(%s)", (ids,)) == ids[0]
    (row,) = claim(connection)
    assert (row.id, row.attempt, row.tries) == (ids[0], 2, 1)
    assert items(connection, "dead_items") == []


def test_many_dead_rows_are_retried_oldest_first(connection: Connection) -> None:
    ids = [die(connection)[0] for _ in range(4)]
    assert {row[0] for row in connection.execute("SELECT soloist.retry_dead('q', 3)")} == set(ids[:3])
    assert [row["id"] for row in items(connection, "dead_items")] == ids[3:]


def test_a_dead_row_whose_key_is_in_use_again_stays_dead(connection: Connection) -> None:
    ids = die(connection, unique_key="k")
    enqueue(connection, unique_key="k")
    assert connection.execute("SELECT soloist.retry_dead(%s)", (ids,)).fetchall() == []
    assert [row["id"] for row in items(connection, "dead_items")] == ids


def test_two_that_retry_the_same_dead_row_bring_it_back_once(queue_database: Database, connection: Connection) -> None:
    ids = die(connection)
    with queue_database.connect(autocommit=False) as other:
        other.execute("SELECT soloist.retry_dead(%s)", (ids,))
        with queue_database.connect() as second:
            pid = second.info.backend_pid
            with second.pipeline():
                answer = second.execute("SELECT soloist.retry_dead(%s)", (ids,))
                waits = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
                until(lambda: scalar(connection, waits, (pid,)), what="the second waits", timeout=60)
                other.commit()
                outcome(connection, "complete", claim(connection))
            assert answer.fetchall() == []
    assert items(connection) == items(connection, "dead_items") == []


def test_the_dead_are_purged_by_id_or_by_age(connection: Connection) -> None:
    ids = die(connection, 3)
    assert scalar(connection, "SELECT soloist.purge_dead(%s)", (ids[:1],)) == ids[0]
    assert connection.execute("SELECT soloist.purge_dead('q', '1 hour')").fetchall() == []
    assert len(connection.execute("SELECT soloist.purge_dead('q', '0 s')").fetchall()) == 2


# Once, checkpoints, ledger


def test_once_is_true_once_false_on_a_repeat_and_raises_on_an_older_fence(connection: Connection) -> None:
    ask = "SELECT soloist.once('pay-7', %s)"
    assert [scalar(connection, ask, (fence,)) for fence in (5, 5, 9)] == [True, False, False]
    with pytest.raises(psycopg.Error, match='fence 5 is older than the one that "pay-7"') as raised:
        connection.execute(ask, (5,))
    assert raised.value.sqlstate == STALE_FENCE


def test_once_is_asked_again_where_the_first_rolled_back(connection: Connection) -> None:
    with connection.transaction(force_rollback=True):
        assert scalar(connection, "SELECT soloist.once('k', 1)")
    assert scalar(connection, "SELECT soloist.once('k', 2)")


def test_a_checkpoint_is_not_set_back_by_an_older_fence(connection: Connection) -> None:
    assert scalar(connection, "SELECT soloist.checkpoint('mirror')") is None
    connection.execute("""SELECT soloist.checkpoint('mirror', '{"block": 7}', 10)""")
    connection.execute("""SELECT soloist.checkpoint('mirror', '{"block": 8}', 10)""")
    with pytest.raises(psycopg.Error, match='fence 9 is older than the one that wrote checkpoint "mirror"') as raised:
        connection.execute("""SELECT soloist.checkpoint('mirror', '{"block": 5}', 9)""")
    assert raised.value.sqlstate == STALE_FENCE
    assert scalar(connection, "SELECT soloist.checkpoint('mirror')") == {"block": 8}


def test_an_epoch_only_rises_and_an_effect_of_an_older_one_cannot_commit(connection: Connection) -> None:
    take = "SELECT soloist.take_epoch('shard', %s, 'pod')"
    assert [scalar(connection, take, (epoch,)) for epoch in (5, 7, 6, 7)] == [5, 7, 7, 7]
    connection.execute("SELECT soloist.check_epoch('shard', 7)")
    for shard, epoch in (("shard", 5), ("shard", 8), ("other", 7)):
        with pytest.raises(psycopg.Error, match="is over: another leader took it") as raised:
            connection.execute("SELECT soloist.check_epoch(%s, %s)", (shard, epoch))
        assert raised.value.sqlstate == STALE_FENCE


def test_a_takeover_waits_for_an_effect_that_is_committing_and_not_for_one_that_is_not_there_yet(
    queue_database: Database, connection: Connection
) -> None:
    connection.execute("SELECT soloist.take_epoch('shard', 1)")
    with queue_database.connect(autocommit=False) as old:
        old.execute("SELECT soloist.record_run('job', 'tick', now(), 1), pg_sleep(0)")
        assert scalar(connection, "SELECT soloist.take_epoch('shard', 2)") == 2
        with pytest.raises(psycopg.Error) as raised:
            old.execute("SELECT soloist.check_epoch('shard', 1)")
        assert raised.value.sqlstate == STALE_FENCE
        old.rollback()
        old.execute("SELECT soloist.check_epoch('shard', 2)")
        connection.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute("SELECT soloist.take_epoch('shard', 3)")
        old.commit()
    assert scalar(connection, "SELECT soloist.take_epoch('shard', 3)") == 3


def test_a_run_is_recorded_once_also_after_its_row_was_pruned(connection: Connection) -> None:
    record = "SELECT soloist.record_run('job', %s, %s, 1)"
    assert scalar(connection, record, ("a", "2026-01-01T00:00:00Z"))
    assert not scalar(connection, record, ("a", "2026-01-01T00:00:00Z"))
    assert scalar(connection, record, ("manual", None))
    assert scalar(connection, "SELECT soloist.prune_runs('1 hour')") == 0
    assert scalar(connection, "SELECT soloist.prune_runs('0 s')") == 2
    assert not scalar(connection, record, ("a", "2026-01-01T00:00:00Z"))
    assert items_of(connection, "job_runs") == 0
    assert scalar(connection, record, ("b", "2026-01-02T00:00:00Z"))


def items_of(connection: Connection, table: str) -> int:
    count: int = scalar(connection, f"SELECT count(*) FROM soloist.{table}")
    return count


# From anywhere


def test_two_psql_sessions_share_a_queue_without_meeting(queue_database: Database, connection: Connection) -> None:
    """The example of the documentation: each session works what it claimed, and commits it with its own effect."""
    connection.execute("CREATE TABLE delivered (id bigint, by text)")
    enqueue(connection, 6)
    psql = [queue_database.server.programs / "psql", "-X", "-q", "-A", "-t", "-d", queue_database.dsn()]
    sessions = {
        name: subprocess.Popen(psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    }
    for session in sessions.values():
        assert session.stdin
        assert session.stdout
        session.stdin.write("SELECT id, fence FROM soloist.claim('q', 3) \\g\n")
        session.stdin.flush()
    claims = {
        name: [session.stdout.readline() for _ in range(3)] for name, session in sessions.items() if session.stdout
    }
    for name, session in sessions.items():
        rows = [line.strip().split("|") for line in claims[name]]
        statements = "".join(
            f"BEGIN; INSERT INTO delivered VALUES ({row}, '{name}'); SELECT soloist.complete_or_raise({row}, {fence}); COMMIT;\n"
            for row, fence in rows
        )
        session.communicate(statements, timeout=90)
    assert scalar(connection, "SELECT array_agg(n) FROM (SELECT count(*) AS n FROM delivered GROUP BY by) AS x") == [
        3,
        3,
    ]
    assert scalar(connection, "SELECT count(DISTINCT id) FROM delivered") == 6
    assert items(connection) == []


def test_everything_works_through_a_transaction_pooler(pgbouncer: PgBouncer, queue_database: Database) -> None:
    with pgbouncer.connect(queue_database.name) as connection:
        enqueue(connection, 5)
        rows = claim(connection, 5)
        assert len(outcome(connection, "renew", rows, "60 s")) == 5
        outcome(connection, "release", rows[:1])
        fail(connection, rows[1:2], None)
        assert len(outcome(connection, "complete", rows[2:])) == 3
        with connection.transaction():
            connection.execute("SELECT soloist.once('k', 1)")
            (again,) = claim(connection)
            connection.execute("SELECT soloist.complete_or_raise(%s, %s)", (again.id, again.fence))
        assert items(connection) == []


def test_statements_on_the_same_rows_in_any_order_never_deadlock(
    queue_database: Database, connection: Connection
) -> None:
    """All lock in the order of ids, whatever the order in which they are given."""
    enqueue(connection, 40)
    rows = claim(connection, 40)

    def renew(given: list[Claimed]) -> list[int]:
        with queue_database.connect() as own:
            own.execute("SET deadlock_timeout = '10ms'")
            counts = [len(outcome(own, "renew", given, "60 s")) for _ in range(30)]
            return [*counts, len(outcome(own, "fail", given, ["x"] * 40, [None, "1 s"] * 20))]

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(renew, rows), pool.submit(renew, rows[::-1])
        counts = one.result() + other.result()
    assert set(counts) <= {0, 40}
    assert counts.count(40) >= 31
