"""Rows of a user's table for workers in any language: by SQL functions, through a plain connection, and in transactions of
the application's own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.sql import SQL

import tests.queue.databases as databases
from soloist.adapters.postgres.registration import register
from soloist.domain.claims import Done, Verdict
from soloist.domain.errors import PermanentError
from soloist.shells.cli import cli
from tests.cluster.children import until
from tests.contracts.rows import HOUR, Key
from tests.docs.pages import DOCS
from tests.postgres.server import Database as Place
from tests.queue.caller import Caller
from tests.queue.examples import BLOCK, node
from tests.queue.mapped_world import QUEUE, MappedWorld, in_world, made, spec_of
from tests.queue.plans import explained
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES

SIDECAR = ["prisma", "snake", "uuid", "composite", "bare", "schedules"]
WRITTEN = ["prisma", "snake", "uuid", "composite", "bare"]
Enter = Callable[..., None]


@pytest.fixture
def enter(queue_database: Place, connection: Connection) -> Enter:
    def run(label: str, body: Callable[[Caller], Any], **spec: Any) -> None:
        async def inside(world: MappedWorld) -> None:
            await register(world.database, QUEUE, spec_of(world.user, **spec))
            with queue_database.connect() as other:
                await body(Caller(other, world))

        in_world(queue_database, connection, TABLES[label], inside)

    return run


@pytest.mark.parametrize("label", SIDECAR)
def test_rows_are_claimed_once_each_and_known_by_their_primary_key(enter: Enter, label: str) -> None:
    async def body(caller: Caller) -> None:
        added = await caller.world.add(25)
        rows = [row for _ in range(3) for row in caller.claim(10)]
        assert sorted(map(caller.key, rows)) == sorted(added)
        assert len({row.fence for row in rows}) == 25
        assert {(row.attempt, row.tries, row.reclaims) for row in rows} == {(1, 1, 0)}
        assert caller.claim(10) == []
        assert await caller.world.rows().claim(10) == [], "our own workers see the same claims"

    enter(label, body)


@pytest.mark.parametrize("label", WRITTEN)
def test_outcomes_of_all_kinds_are_written_each_under_its_fence(enter: Enter, label: str) -> None:
    async def body(caller: Caller) -> None:
        await caller.world.add(6)
        done, again, dead, held, back, lost = caller.claim(6)
        caller.settle((lost, "PutBack"))
        (taken,) = caller.claim(1)
        assert taken.pk == lost.pk
        said = caller.settle(
            (dead, "Failed", "410", None),
            (lost, "Done"),
            (again, "Failed", "503", "1 hour"),
            (done, "Done"),
            (held, "Interrupted", "no reply", None),
            (back, "PutBack", None, "1 hour"),
        )
        assert said == ["Accepted", "Lost", "Accepted", "Accepted", "Accepted", "Accepted"]
        keys = [caller.key(row) for row in (done, again, dead, held, back, taken)]
        assert caller.states(keys) == ["done", "waiting", "dead", "dead", "waiting", "claimed"]
        assert caller.claim(6) == []
        letters = dict(caller.connection.execute("SELECT reason, last_error FROM soloist.dead_rows").fetchall())
        assert letters == {"Failed": "410", "Interrupted": "no reply"}

    enter(label, body)


def test_a_claim_gives_what_the_manifest_names(enter: Enter) -> None:
    async def body(caller: Caller) -> None:
        await caller.world.add(due_in=-HOUR)
        (row,) = caller.claim(1, lease="5 min", worker="node-7")
        assert (row.payload, row.columns) == ('{"n": 1}', {"maxAttempts": "8"})
        assert row.due_at is not None
        assert row.due_at < await caller.world.now()
        worker, left = caller.connection.execute("SELECT worker, held_until - now() FROM soloist.claims").fetchall()[0]
        assert worker == "node-7"
        assert HOUR / 15 < left < HOUR / 11

    enter("prisma", body)


@pytest.mark.parametrize("label", ["prisma", "composite"])
def test_the_applications_own_transaction_and_the_outcome_are_one(enter: Enter, label: str) -> None:
    async def body(caller: Caller) -> None:
        (key,) = await caller.world.add()
        caller.connection.execute("CREATE TABLE app.effects (n int)")
        (row,) = caller.claim()
        with caller.connection.transaction(force_rollback=True):
            caller.connection.execute("INSERT INTO app.effects VALUES (1)")
            assert caller.one("complete_row", row) == "Accepted"
        assert caller.world.standing(key).state == "claimed"
        with caller.connection.transaction():
            caller.connection.execute("INSERT INTO app.effects VALUES (1)")
            assert caller.one("complete_row", row) == "Accepted"
        assert caller.world.standing(key).state == "done"

        def once_more() -> None:
            with caller.connection.transaction():
                caller.connection.execute("INSERT INTO app.effects VALUES (2)")
                caller.one("complete_row", row)

        with pytest.raises(psycopg.Error, match="is lost") as lost:
            once_more()
        assert lost.value.sqlstate == "SO001"
        assert scalar(caller.connection, "SELECT array_agg(n) FROM app.effects") == [1]

    enter(label, body)


def test_a_row_that_was_changed_meanwhile_is_said_and_left(enter: Enter) -> None:
    async def body(caller: Caller) -> None:
        await caller.world.add(2)
        first, second = caller.claim(2)
        caller.connection.execute(
            'UPDATE app."WebhookDelivery" SET "nextAttemptAt" = "nextAttemptAt" + interval \'9 ms\''
        )
        with pytest.raises(psycopg.Error, match="was changed or deleted") as changed:
            caller.one("complete_row", first)
        assert changed.value.sqlstate == "SO004"
        assert caller.one("release_row", first) == "Changed"
        assert caller.settle((second, "Done")) == ["Changed"]
        assert scalar(caller.connection, 'SELECT array_agg(DISTINCT status::text) FROM app."WebhookDelivery"') == [
            "PENDING"
        ]
        assert caller.world.sidecar() == 0

    enter("prisma", body)


@pytest.mark.parametrize("label", ["prisma", "composite"])
def test_a_row_is_renewed_failed_and_released_by_itself(enter: Enter, label: str) -> None:
    async def body(caller: Caller) -> None:
        (key,) = await caller.world.add()
        (row,) = caller.claim(1, lease="10 s")
        caller.one("renew_row", row, "1 hour")
        assert scalar(caller.connection, "SELECT held_until > now() + interval '59 min' FROM soloist.claims")
        assert caller.one("release_row", row) == "Accepted"
        with pytest.raises(psycopg.Error, match="is lost"):
            caller.one("renew_row", row, "1 hour")
        (row,) = caller.claim()
        assert row.attempt == 1
        assert caller.one("fail_row", row, "503", "0 s") == "Accepted"
        (row,) = caller.claim()
        assert (row.attempt, row.tries) == (2, 2)
        assert caller.one("fail_row", row, "410", None) == "Accepted"
        assert caller.world.standing(key).state == "dead"
        (letter,) = caller.connection.execute("SELECT id, attempt FROM soloist.dead_rows").fetchall()
        assert letter[1] == 3
        assert caller.retry(letter[0]) == [(letter[0], True)]
        (row,) = caller.claim()
        assert (row.attempt, row.tries) == (3, 1)

    enter(label, body)


@pytest.mark.parametrize("label", WRITTEN)
def test_rows_that_are_cancelled_are_worked_no_more_and_a_claim_on_one_is_lost(enter: Enter, label: str) -> None:
    async def body(caller: Caller) -> None:
        keys = await caller.world.add(6)
        done, dead, ours, theirs = caller.claim(4)
        assert caller.settle((done, "Done"), (dead, "Failed", "410", None)) == ["Accepted", "Accepted"]
        (claim,) = await (rows := caller.world.rows()).claim(1)
        with caller.connection.transaction(force_rollback=True):
            assert len(caller.cancel(keys)) == 4
        assert await rows.renew([claim]) == {claim.fence}
        assert {caller.key(row) for row in caller.cancel(keys * 2)} == {*keys} - {caller.key(done), caller.key(dead)}
        assert caller.cancel(keys) == []
        status = caller.world.shape.table.status
        assert status is not None
        found = [(caller.world.row(key) or {})[status.column] for key in keys]
        assert Counter(map(str, found)) == {status.done: 1, status.failed: 5}
        assert await rows.renew([claim]) == set()
        assert await rows.settle([Done(claim=claim)]) == [Verdict.LOST]
        with pytest.raises(psycopg.Error, match="is lost"):
            caller.one("complete_row", ours)
        assert caller.settle((theirs, "PutBack")) == ["Lost"]
        assert caller.claim(6) == []
        assert caller.world.sidecar() == 0
        assert scalar(caller.connection, "SELECT array_agg(last_error) FROM soloist.dead_rows") == ["410"]

    enter(label, body)


def test_a_row_is_cancelled_however_its_key_is_written(enter: Enter) -> None:
    async def body(caller: Caller) -> None:
        ((key,),) = await caller.world.add()
        (row,) = caller.claim()
        assert caller.cancel([(key.upper(),)]) == [row.pk]
        with pytest.raises(psycopg.Error, match="is lost"):
            caller.one("renew_row", row, "1 hour")

    enter("uuid", body)


def test_a_row_whose_outcome_is_on_its_way_is_waited_for_and_not_cancelled(enter: Enter, queue_database: Place) -> None:
    async def body(caller: Caller) -> None:
        (key,) = await caller.world.add()
        (row,) = caller.claim()
        with queue_database.connect(autocommit=False) as other:
            Caller(other, caller.world).one("complete_row", row)
            cancelling = asyncio.create_task(asyncio.to_thread(caller.cancel, [key]))
            with queue_database.connect() as watcher:
                waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                await asyncio.to_thread(until, lambda: scalar(watcher, waits), what="it waits", timeout=60)
            other.commit()
        assert await cancelling == []
        assert caller.world.standing(key).state == "done"

    enter("prisma", body)


def test_rows_that_their_application_moves_are_not_cancelled_by_a_function(enter: Enter) -> None:
    async def body(caller: Caller) -> None:
        keys = await caller.world.add()
        with pytest.raises(psycopg.Error, match="its application's to move") as refused:
            caller.cancel(keys)
        assert "Give the row another status or due time" in str(refused.value.diag.message_hint)

    enter("schedules", body)


def test_a_schedule_that_its_application_moves_is_worked_by_functions_alone(enter: Enter) -> None:
    async def body(caller: Caller) -> None:
        (key,) = await caller.world.add(due_in=-HOUR * 24 * 60)
        (row,) = caller.claim()
        with caller.connection.transaction():
            caller.connection.execute('UPDATE app.schedules SET next_run_timestamp = next_run_timestamp + "interval"')
            assert caller.one("complete_row", row) == "Accepted"
        assert caller.world.sidecar() == 0
        (row,) = caller.claim()
        before = await caller.world.now()
        assert caller.one("complete_row", row) == "StillDue"
        assert caller.claim() == []
        after = await caller.world.now()
        rests_until = scalar(caller.connection, "SELECT held_until FROM soloist.claims")
        assert (rests_until - before).total_seconds() > 3.9, "five seconds, give or take a fifth"
        assert (rests_until - after).total_seconds() < 6.1
        for _ in range(7):
            caller.connection.execute(
                "UPDATE soloist.claims SET held_until = clock_timestamp() WHERE held_until < 'infinity'"
            )
            (row,) = caller.claim()
            assert caller.one("complete_row", row) == "StillDue"
        assert caller.claim() == []
        assert caller.world.standing(key).state == "dead"

    enter("schedules", body)


def test_with_hold_a_row_that_was_claimed_in_vain_is_given_up(enter: Enter) -> None:
    async def held(caller: Caller) -> None:
        (key,) = await caller.world.add()
        caller.claim()
        await caller.world.lapse()
        assert caller.claim() == []
        assert caller.world.standing(key).reason == "Interrupted"

    enter("prisma", held, afterCrash="Hold")


def test_a_row_that_was_claimed_in_vain_too_often_is_given_up(enter: Enter) -> None:
    async def killed(caller: Caller) -> None:
        (key,) = await caller.world.add()
        for reclaims in range(3):
            (row,) = caller.claim()
            assert row.reclaims == reclaims
            await caller.world.lapse()
        assert caller.claim() == []
        assert caller.world.standing(key).reason == "ReclaimedTooOften"

    enter("prisma", killed, maxReclaims=2)


def test_rows_whose_attempts_were_used_up_before_are_given_up_and_those_behind_them_found(enter: Enter) -> None:
    async def spent(caller: Caller) -> None:
        await caller.world.add(30, due_in=-HOUR)
        caller.connection.execute('UPDATE app."WebhookDelivery" SET attempts = 3, "maxAttempts" = 3')
        (fresh,) = await caller.world.add()
        assert [caller.key(row) for row in caller.claim(10)] == [fresh]
        found = caller.connection.execute("SELECT DISTINCT reason, last_error FROM soloist.dead_rows").fetchall()
        assert found == [("Failed", "All 3 attempts were used up before it was claimed.")]

    enter("prisma", spent)


def test_many_callers_at_once_share_the_rows(enter: Enter, queue_database: Place) -> None:
    async def body(caller: Caller) -> None:
        added = await caller.world.add(300)

        def work() -> list[Key]:
            seen = []
            with queue_database.connect() as connection:
                mine = Caller(connection, caller.world)
                while rows := mine.claim(7):
                    assert mine.settle(*((row, "Done") for row in rows)) == ["Accepted"] * len(rows)
                    seen += [(row.pk,) for row in rows]
            return seen

        seen = await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))
        assert sorted(key for keys in seen for key in keys) == sorted(added)
        assert caller.world.sidecar() == 0

    enter("snake", body)


LOOP = """
CREATE TABLE app.notes (n int GENERATED ALWAYS AS IDENTITY, step text, since timestamptz(3), became timestamptz(3));
CREATE PROCEDURE app.work_loop(queue text) LANGUAGE plpgsql AS $$
DECLARE
    row record;
    since timestamptz;
BEGIN
    PERFORM pg_sleep(0.05);
    EXECUTE $new${new}$new$;
    COMMIT;
    since := clock_timestamp();
    SELECT * INTO row FROM soloist.claim_rows(queue, 10, '1 hour');
    INSERT INTO app.notes (step, since, became) SELECT 'claimed', since, held_until - interval '1 hour' FROM soloist.claims;
    COMMIT;
    PERFORM pg_sleep(0.05);
    since := clock_timestamp();
    PERFORM soloist.renew_row(queue, row.pk, row.fence, '1 hour');
    INSERT INTO app.notes (step, since, became) SELECT 'renewed', since, held_until - interval '1 hour' FROM soloist.claims;
    COMMIT;
    PERFORM pg_sleep(0.05);
    since := clock_timestamp();
    PERFORM soloist.fail_row(queue, row.pk, row.fence, '410', NULL);
    PERFORM soloist.retry_dead_rows(queue, ARRAY(SELECT id FROM soloist.dead_rows));
    INSERT INTO app.notes (step, since, became) SELECT 'back', since, {next} FROM {table} AS q;
    COMMIT;
    PERFORM pg_sleep(0.05);
    since := clock_timestamp();
    SELECT * INTO row FROM soloist.claim_rows(queue);
    PERFORM soloist.fail_row(queue, row.pk, row.fence, '503', '1 minute');
    INSERT INTO app.notes (step, since, became) SELECT 'failed', since, {next} - interval '1 minute' FROM {table} AS q;
END $$;"""


@pytest.mark.parametrize("label", ["prisma", "snake", "composite", "bare", "schedules"])
def test_in_a_call_that_commits_what_comes_due_is_claimed_and_all_times_count_from_the_moment(
    enter: Enter, label: str
) -> None:
    async def body(caller: Caller) -> None:
        user, shape = caller.world.user, caller.world.shape
        due = shape.due("q") if label not in ("bare", "schedules") else SQL("(SELECT held_until FROM soloist.claims)")
        work = LOOP.format(
            new=user.new.format(due="clock_timestamp()", count=1),
            next=due.as_string(caller.connection),
            table=user.name,
        )
        caller.connection.execute(work)
        caller.connection.execute(f"CALL app.work_loop('{QUEUE}')")
        notes = caller.connection.execute("SELECT step, became - since FROM app.notes ORDER BY n").fetchall()
        assert [step for step, _ in notes] == ["claimed", "renewed", "back", "failed"]
        late = {step: later.total_seconds() for step, later in notes}
        assert min(late.values()) >= 0, late

    enter(label, body)


@pytest.mark.parametrize("label", ["prisma", "composite", "schedules"])
def test_a_row_that_is_renewed_in_an_open_transaction_is_passed_over_and_those_behind_it_are_claimed(
    enter: Enter, queue_database: Place, label: str
) -> None:
    async def body(caller: Caller) -> None:
        (key,) = await caller.world.add(due_in=-HOUR)
        (row,) = caller.claim()
        await caller.world.lapse()
        behind = await caller.world.add(4)
        caller.connection.execute("SET lock_timeout = '5 s'")
        ours = databases.opened(queue_database.dsn(), statement_timeout=5.0)
        workers = MappedWorld(ours, caller.world.connection, caller.world.user, caller.world.shape)
        with queue_database.connect(autocommit=False) as other:
            Caller(other, caller.world).one("renew_row", row, "1 hour")
            claimed = [caller.key(each) for each in caller.claim(2)]
            claimed += [each.row for each in await workers.rows().claim(10)]
            assert sorted(claimed) == sorted(behind)
            other.commit()
        assert caller.claim(10) == [], "the lease is a new one"
        await caller.world.lapse()
        with queue_database.connect(autocommit=False) as other:
            Caller(other, caller.world).one("renew_row", row, "1 hour")
            other.rollback()
        again = next(each for each in caller.claim(10) if caller.key(each) == key)
        assert again.reclaims == 1, "what was rolled back renewed nothing"
        await ours.close()

    enter(label, body)


def test_a_renewal_waits_for_no_transaction_that_writes_the_row_and_a_lost_one_locks_nothing(
    enter: Enter, queue_database: Place
) -> None:
    async def body(caller: Caller) -> None:
        await caller.world.add(2)
        lost, held = caller.claim(2)
        assert caller.one("release_row", lost) == "Accepted"
        (taken,) = caller.claim(2)
        caller.connection.execute("SET lock_timeout = '5 s'")
        with queue_database.connect(autocommit=False) as other:
            other.execute('UPDATE app."WebhookDelivery" SET "eventId" = "eventId" || $$ again$$')
            assert set(caller.renew(taken, held)) == {taken.fence, held.fence}
            other.commit()
            assert Caller(other, caller.world).renew(lost, held) == [held.fence]
            assert caller.one("complete_row", taken) == "Accepted"

    enter("prisma", body)


@pytest.mark.parametrize("label", ["prisma", "composite", "schedules"])
def test_a_renewal_waits_for_no_change_of_the_whole_table_and_leaves_the_callers_timeout(
    enter: Enter, queue_database: Place, label: str
) -> None:
    async def body(caller: Caller) -> None:
        await caller.world.add(2)
        rows = caller.claim(2, lease="20 s")
        caller.connection.execute("SET statement_timeout = '2 s'")
        with queue_database.connect(autocommit=False) as other:
            other.execute(f"LOCK TABLE {caller.world.user.name} IN ACCESS EXCLUSIVE MODE")
            with caller.connection.transaction():
                caller.connection.execute("SET LOCAL lock_timeout = '7 s'")
                assert set(caller.renew(*rows)) == {row.fence for row in rows}
                assert scalar(caller.connection, "SHOW lock_timeout") == "7s"
            other.rollback()
        assert scalar(caller.connection, "SELECT min(held_until) - now() FROM soloist.claims") > HOUR / 120
        with caller.connection.transaction():
            caller.connection.execute("SET LOCAL lock_timeout = '7 s'")
            caller.one("renew_row", rows[0], "1 hour")
            assert scalar(caller.connection, "SHOW lock_timeout") == "7s", "also where the row was locked"

    enter(label, body)


def test_claims_and_renewals_by_function_are_index_scans_whatever_the_statistics_say(enter: Enter) -> None:
    async def body(caller: Caller) -> None:
        user = caller.world.user
        caller.connection.execute(f"ALTER TABLE {user.name} SET (autovacuum_enabled = off); ANALYZE {user.name}")
        caller.connection.execute(user.new.format(due="(now() - interval '1 hour')", count=50_000))
        plans = explained(
            caller.connection, "SELECT soloist.claim_rows(%s, 10)", (QUEUE,), table=caller.world.shape.table.name.table
        )
        claim = next(plan for plan in plans if "SKIP LOCKED" in plan.query)
        assert "Index Scan WebhookDelivery_status_nextAttemptAt_idx" in claim.nodes
        assert not [node for node in claim.nodes if "Seq Scan" in node or "Bitmap" in node]
        assert claim.buffers < 900
        rows = caller.claim(10)
        locking, renewal = explained(
            caller.connection,
            "SELECT soloist.renew_rows(%s, %s, %s, '1 min')",
            (QUEUE, [row.pk for row in rows], [row.fence for row in rows]),
            table="soloist.claims",
        )
        assert {"LockRows", "Index Scan WebhookDelivery_pkey", "Index Scan claims_pkey"} <= locking.nodes
        assert "Index Scan claims_pkey" in renewal.nodes
        for plan in (locking, renewal):
            assert not [node for node in plan.nodes if "Seq Scan" in node or "Bitmap" in node]
            assert plan.buffers < 900

    enter("prisma", body)


PAGE = dict(BLOCK.findall((DOCS / "tables.md").read_text(encoding="utf-8")))


def test_the_page_of_the_docs_works_as_it_is_written(
    queue_database: Place, connection: Connection, tmp_path: Path
) -> None:
    manifest = tmp_path / "webhooks.yaml"
    manifest.write_text(PAGE["manifest"])
    made(connection, TABLES["prisma"])
    connection.execute(TABLES["prisma"].new.format(due="now()", count=1))
    connection.execute("CREATE TABLE app.effects (delivery text)")
    command = ["queue", "register", "webhooks", "-f", str(manifest), "--database", queue_database.dsn()]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert 'default/webhooks: its functions work on app."WebhookDelivery" in the database' in done.output
    queue_database.psql(PAGE["psql-rows"])
    assert (
        connection.execute('SELECT id, status FROM app."WebhookDelivery"').fetchall()
        == connection.execute("SELECT delivery, 'DELIVERED'::app.\"DeliveryStatus\" FROM app.effects").fetchall()
    )
    managed = tmp_path / "emails.yaml"
    managed.write_text(PAGE["manifest"].replace("webhooks", "emails").replace("bodyColumn: payload", ""))
    managed.write_text("\n".join(line for line in managed.read_text().splitlines() if not is_of_table(line)))
    refused = CliRunner().invoke(
        cli, ["queue", "register", "emails", "-f", str(managed), "--database", queue_database.dsn()]
    )
    assert refused.exit_code != 0
    assert "need no registration: call soloist.claim('default/emails')" in refused.output


NODE = """(async () => {
  const client = new Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  const { rows } = await client.query("SELECT pk, fence, attempt FROM soloist.claim_rows($1, 2, '60 s', 'node-1')", [QUEUE]);
  await client.query("SELECT soloist.renew_rows($1, $2, $3, '60 s')", [QUEUE, rows.map((r) => r.pk), rows.map((r) => r.fence)]);
  for (const row of [...rows, rows[0]]) {
    await client.query("BEGIN");
    try {
      await client.query("INSERT INTO app.effects (pk) VALUES ($1)", [row.pk]);
      await client.query("SELECT soloist.complete_row($1, $2, $3)", [QUEUE, row.pk, row.fence]);
      await client.query("COMMIT");
    } catch (error) {
      await client.query("ROLLBACK");
      console.log(error.code);
    }
  }
  await client.end();
})();"""


@pytest.mark.parametrize("label", ["prisma", "composite"])
def test_node_works_rows_each_in_the_transaction_of_its_effect(
    enter: Enter, queue_database: Place, tmp_path: Path, label: str
) -> None:
    async def body(caller: Caller) -> None:
        keys = await caller.world.add(2)
        caller.connection.execute("CREATE TABLE app.effects (pk text)")
        then = f"const QUEUE = '{QUEUE}';\n{NODE}"
        assert await asyncio.to_thread(node, tmp_path, ["node-enqueue"], then, queue_database.dsn()) == "SO001"
        assert caller.states(keys) == ["done", "done"]
        effects = [row[0] for row in caller.connection.execute("SELECT pk FROM app.effects")]
        assert sorted(map(caller.key, effects)) == sorted(keys)

    enter(label, body)


def is_of_table(line: str) -> bool:
    return line.startswith("  table:") or (line.startswith("    ") and "http" not in line)


def test_only_the_owner_of_the_schema_registers_and_a_role_that_works_may_call(
    queue_database: Place, connection: Connection
) -> None:
    role = queue_database.server.role("function_worker")

    async def body(world: MappedWorld) -> None:
        connection.execute(f"SELECT soloist.allow_work('{role}'); GRANT USAGE ON SCHEMA app TO {role}")
        connection.execute(f'GRANT ALL ON app."WebhookDelivery" TO {role}')
        spec = spec_of(world.user)
        theirs = databases.opened(queue_database.dsn(role))
        with pytest.raises(PermanentError, match="permission denied for table mapped_queues"):
            await register(theirs, QUEUE, spec)
        await theirs.close()
        await register(world.database, QUEUE, spec)
        await register(world.database, QUEUE, spec)
        await world.add(3)
        with queue_database.connect(role) as other:
            caller = Caller(other, world)
            assert caller.settle(*((row, "Done") for row in caller.claim(3))) == ["Accepted"] * 3
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute("UPDATE soloist.mapped_queues SET renew = 'DROP TABLE app.\"WebhookDelivery\"'")

    try:
        in_world(queue_database, connection, TABLES["prisma"], body)
    finally:
        connection.execute(f"DROP SCHEMA app CASCADE; DROP OWNED BY {role}")


def test_a_queue_that_is_not_registered_and_one_that_is_inline_are_refused_with_a_sentence(
    queue_database: Place, connection: Connection
) -> None:
    async def body(world: MappedWorld) -> None:
        with pytest.raises(PermanentError, match="write claim: Sidecar"):
            await register(world.database, QUEUE, spec_of(world.user))
        with pytest.raises(psycopg.Error, match='queue "default/q" is not registered'):
            connection.execute("SELECT soloist.claim_rows(%s)", (QUEUE,))

    in_world(queue_database, connection, TABLES["prisma inline"], body)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT soloist.claim_rows(%s, 0)", "n is 0"),
        ("SELECT soloist.claim_rows(%s, 1, '0 s')", "lease is"),
        ("SELECT soloist.settle_rows(%s, '{a}', '{1}', '{Finished}')", "outcomes holds something else"),
        ("SELECT soloist.settle_rows(%s, '{a,b}', '{1}', '{Done}')", "there are 2 rows, 1 fences, 1 outcomes"),
        ("SELECT soloist.settle_rows(%s, '{a,b}', '{1,2}', '{Done,Failed}', '{x,x}', '{1 s}')", "2 errors and 1 waits"),
    ],
)
def test_what_makes_no_sense_is_refused(enter: Enter, query: str, said: str) -> None:
    async def body(caller: Caller) -> None:
        with pytest.raises(psycopg.Error, match=said) as refused:
            caller.connection.execute(query, (QUEUE,))
        assert refused.value.sqlstate == "22023"

    enter("prisma", body)
