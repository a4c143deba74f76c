"""What is true of rows in a table of the user's only: which columns are written, and what the application may do meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Settled, Verdict
from soloist.domain.errors import PermanentError
from soloist.domain.queue_spec import OnDead
from tests.contracts.rows import HOUR, MINUTE, NOTHING, Key, Standing, keys
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import QUEUE, MappedWorld, in_world
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES, UserTable

ACCEPTED, LOST, CHANGED, REFUSED = Verdict.ACCEPTED, Verdict.LOST, Verdict.CHANGED, Verdict.REFUSED
Run = Callable[..., None]
WRITTEN = ("prisma", "prisma inline", "snake", "snake inline", "composite", "composite inline")


@pytest.fixture
def run(queue_database: Place, connection: Connection) -> Run:
    def enter(label: str | UserTable, body: Callable[[MappedWorld], Awaitable[None]], **more: Any) -> None:
        user = label if isinstance(label, UserTable) else TABLES[label]
        in_world(queue_database, connection, user, body, **more)

    return enter


async def one(world: MappedWorld, **more: Any) -> Claim:
    (claim,) = await world.rows(**more).claim(1)
    return claim


def near(text: str | None, moment: datetime) -> bool:
    """A timestamp(3) without zone that holds UTC, within what the rounding and a slow machine make of it."""
    assert text is not None
    return abs(datetime.fromisoformat(text).replace(tzinfo=UTC) - moment) < timedelta(minutes=5)


# Columns


@pytest.mark.parametrize("label", ["prisma", "prisma inline"])
def test_a_row_that_is_done_says_so_in_its_columns_and_in_no_other(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        before = world.row(key)
        assert before is not None
        assert await world.rows().settle([Done(claim=await one(world))]) == [ACCEPTED]
        after, now = world.row(key), await world.now()
        assert after is not None
        changed = {name for name in after if after[name] != before[name]}
        assert changed == {"status", "attempts", "lastAttemptAt", "deliveredAt", "updatedAt"}
        assert (after["status"], after["attempts"], after["lastError"]) == ("DELIVERED", 1, None)
        assert all(near(after[name], now) for name in ("lastAttemptAt", "deliveredAt", "updatedAt"))

    run(label, body)


@pytest.mark.parametrize("label", ["prisma", "prisma inline"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland"])
def test_a_row_that_failed_holds_the_next_time_in_utc_whatever_the_zone_of_the_session(
    run: Run, label: str, zone: str, queue_database: Place, connection: Connection
) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        claim = await one(world)
        assert near(claim.due_key.removesuffix("Z"), await world.now())
        failed = Failed(claim=claim, error="The receiver answered 503.", retry_in=HOUR)
        assert await world.rows().settle([failed]) == [ACCEPTED]
        after = world.row(key)
        assert after is not None
        assert near(after["nextAttemptAt"], await world.now() + HOUR)
        assert (after["status"], after["attempts"]) == ("PENDING", 1)
        assert after["lastError"] == "The receiver answered 503."
        assert await world.rows().claim(1) == []

    connection.execute(f"ALTER DATABASE {queue_database.name} SET timezone = '{zone}'")
    try:
        run(label, body)
    finally:
        connection.execute(f"ALTER DATABASE {queue_database.name} RESET timezone")


@pytest.mark.parametrize("label", ["prisma", "prisma inline"])
def test_a_success_clears_the_error_of_the_attempt_before(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await world.rows().settle([Failed(claim=await one(world), error="503", retry_in=NOTHING)])
        again = await one(world)
        assert (again.attempt, again.tries) == (2, 2)
        await world.rows().settle([Done(claim=again)])
        after = world.row(key)
        assert after is not None
        assert (after["status"], after["attempts"], after["lastError"]) == ("DELIVERED", 2, None)

    run(label, body)


@pytest.mark.parametrize("label", ["snake", "snake inline"])
def test_an_error_is_cut_to_what_its_column_holds_and_a_version_counts_on(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await world.rows().settle([Failed(claim=await one(world), error="x" * 500, retry_in=None)])
        after = world.row(key)
        assert after is not None
        assert (after["state"], after["error"], after["tries"], after["version"]) == ("dead", "x" * 40, 1, 2)

    run(label, body)


def test_a_claim_carries_the_body_and_the_columns_that_a_delivery_names(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add()
        claim = await one(world)
        assert (claim.payload, claim.payload_text) == ({"n": 1}, '{"n": 1}')
        assert claim.columns == {"maxAttempts": "8", "payload": '{"n": 1}'}

    run("prisma", body)

    async def text(world: MappedWorld) -> None:
        await world.add()
        claim = await one(world)
        assert (claim.payload, claim.payload_text, claim.columns) == ("hello", "hello", {"body": "hello"})

    run("snake", text)


def test_a_row_without_a_due_time_is_never_due(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add()
        world.connection.execute('UPDATE app."WebhookDelivery" SET "nextAttemptAt" = NULL')
        assert await world.rows().claim(5) == []
        world.connection.execute('UPDATE app."WebhookDelivery" SET "nextAttemptAt" = \'-infinity\'')
        claim = await one(world)
        assert (claim.due, claim.due_key) == (None, "-infinity")
        assert await world.rows().settle([Done(claim=claim)]) == [ACCEPTED]

    run("prisma", body)


def test_names_and_values_may_hold_what_a_statement_would_take_for_its_own(run: Run) -> None:
    name = "app.\"100% 'odd' {x} %s\""
    ddl = f"""CREATE TABLE {name} ("%(id)s" text PRIMARY KEY, "sta%tus" text NOT NULL DEFAULT 'pen%ding''{{}}', "due %s" timestamptz)"""
    status = {"column": "sta%tus", "pending": ["pen%ding'{}"], "done": "do%%ne", "failed": "%s"}
    table = {"name": name, "id": "%(id)s", "dueAt": "due %s", "status": status}
    new = f"""INSERT INTO {name.replace("%", "%%").replace("{", "{{").replace("}", "}}")} SELECT md5(n::text), DEFAULT, {{due}}"""
    new = new.replace("SELECT md5(n::text), DEFAULT,", """("%%(id)s", "due %%s") SELECT md5(n::text),""")
    user = UserTable(
        label="odd", ddl=ddl, table=table, new=new + ' FROM generate_series(1, {count}) AS n RETURNING ARRAY["%%(id)s"]'
    )

    async def body(world: MappedWorld) -> None:
        await world.add(3)
        rows = world.rows()
        done, again, dead = await rows.claim(3)
        outcomes: list[Settled] = [
            Done(claim=done),
            Failed(claim=again, error="%s", retry_in=HOUR),
            Failed(claim=dead, error="{}", retry_in=None),
        ]
        assert await rows.settle(outcomes) == [ACCEPTED] * 3
        found = world.connection.execute(f'SELECT "sta%tus" FROM {name} ORDER BY 1').fetchall()
        assert sorted(row[0] for row in found) == sorted(["do%%ne", "pen%ding'{}", "%s"])

    run(user, body)


# What the application does meanwhile

DUE = {"prisma": '"nextAttemptAt"', "snake": "next_try", "composite": "due"}
STATUS = {"prisma": "\"status\" = 'FAILED'", "snake": "state = 'parked'", "composite": "status = 9"}
ATTEMPTS = {"prisma": '"attempts" = 5', "snake": "tries = 5", "composite": "attempts = 5"}


def due_later(label: str) -> str:
    return f"{DUE[label.split()[0]]} = {DUE[label.split()[0]]} + interval '7 ms'"


CHANGES: dict[str, Callable[[str], str]] = {
    "its due time": due_later,
    "its status": lambda label: STATUS[label.split()[0]],
    "its count of attempts": lambda label: ATTEMPTS[label.split()[0]],
    "its due time, to never": lambda label: f"{DUE[label.split()[0]]} = NULL",
}


@pytest.mark.parametrize("label", ["prisma inline", "snake inline", "composite inline"])
def test_a_claim_in_columns_is_lost_once_the_application_takes_its_fence_out(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        rows = world.rows()
        (claim,) = await rows.claim(1)
        assert world.user.inline is not None
        cancelled = f'{STATUS[label.split()[0]]}, "{world.user.inline["fence"]}" = NULL'
        world.connection.execute(f"UPDATE {world.user.name} SET {cancelled}")
        before = world.row(key)
        assert await rows.renew([claim]) == set()
        assert await rows.settle([Done(claim=claim)]) == [LOST]
        assert await rows.claim(1) == []
        assert world.row(key) == before

    run(label, body)


@pytest.mark.parametrize("label", WRITTEN)
@pytest.mark.parametrize("what", CHANGES)
def test_a_row_that_the_application_changed_is_left_as_it_is_and_named(run: Run, label: str, what: str) -> None:
    async def body(world: MappedWorld) -> None:
        changed, kept = await world.add(2)
        rows = world.rows()
        claims = {claim.row: claim for claim in await rows.claim(2)}
        world.connection.execute(
            f"UPDATE {world.user.name} AS q SET {CHANGES[what](label)} WHERE {world.where(changed)}"
        )
        before = application_part(world, changed)
        outcomes: list[Settled] = [Done(claim=claims[changed]), Done(claim=claims[kept])]
        assert await rows.settle(outcomes) == [CHANGED, ACCEPTED]
        assert application_part(world, changed) == before
        assert world.fence(changed) is None
        assert world.standing(kept).state == "done"
        assert world.sidecar() == 0

    run(label, body)


def application_part(world: MappedWorld, key: Key) -> dict[str, Any]:
    """The row, but for columns of the claim, and for a status that says that it is claimed."""
    row = world.row(key)
    assert row is not None
    inline, status = world.shape.inline, world.shape.table.status
    ours = {inline.fence, inline.lease_until, inline.reclaims, inline.claimed_by} if inline else set()
    assert status is not None
    if row[status.column] == status.running:
        row[status.column] = status.pending[0]
    return {name: value for name, value in row.items() if name not in ours}


@pytest.mark.parametrize("label", WRITTEN)
@pytest.mark.parametrize("outcome", ["Failed", "given up", "Parked", "PutBack"])
def test_no_outcome_of_any_kind_overwrites_a_row_that_was_changed(run: Run, label: str, outcome: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        claim = await one(world)
        world.connection.execute(f"UPDATE {world.user.name} AS q SET {due_later(label)}")
        before = application_part(world, key)
        made: dict[str, Settled] = {
            "Failed": Failed(claim=claim, error="503", retry_in=HOUR),
            "given up": Failed(claim=claim, error="410", retry_in=None),
            "Parked": Parked(claim=claim, error="no reply"),
            "PutBack": PutBack(claim=claim, retry_in=HOUR),
        }
        assert await world.rows().settle([made[outcome]]) == [CHANGED]
        assert application_part(world, key) == before
        assert world.fence(key) is None
        assert scalar(world.connection, "SELECT count(*) FROM soloist.dead_rows") == 0
        assert keys(await world.rows().claim(1)) == [key], "it is due, so it is sent"

    run(label, body)


@pytest.mark.parametrize("label", WRITTEN)
def test_a_row_that_was_deleted_meanwhile_leaves_no_claim(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        gone, kept = await world.add(2)
        rows = world.rows()
        claims = {claim.row: claim for claim in await rows.claim(2)}
        await world.remove(gone)
        verdicts = await rows.settle([Done(claim=claims[gone]), Done(claim=claims[kept])])
        # Of a claim that was in the row itself nothing is left that could tell.
        assert verdicts == [LOST if world.shape.inline else CHANGED, ACCEPTED]
        assert world.sidecar() == 0

    run(label, body)


@pytest.mark.parametrize("label", ["prisma", "prisma inline"])
def test_a_row_that_is_queued_again_with_a_new_payload_during_its_delivery_is_sent_again_and_not_at_once(
    run: Run, label: str
) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        first = await one(world)
        world.connection.execute(
            """UPDATE app."WebhookDelivery" SET payload = '{"n": 2}', "nextAttemptAt" = now() AT TIME ZONE 'UTC'"""
        )
        assert await world.rows().claim(1) == [], "one delivery of a row at a time"
        assert await world.rows().settle([Done(claim=first)]) == [CHANGED]
        second = await one(world)
        assert (second.row, second.payload) == (key, {"n": 2})
        assert second.fence > first.fence
        assert await world.rows().settle([Done(claim=second)]) == [ACCEPTED]
        assert world.standing(key).state == "done"

    run(label, body)


def test_a_row_whose_worker_died_and_which_was_queued_anew_since_is_no_reclaim(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add()
        await one(world)
        world.connection.execute(f'UPDATE app."WebhookDelivery" SET {due_later("prisma")}')
        await world.lapse()
        again = await one(world, hold=True)
        assert again.reclaims == 0

    run("prisma", body)


# What is found and not handed out


@pytest.mark.parametrize("label", ["prisma", "prisma inline", "snake", "composite inline"])
def test_rows_whose_attempts_were_used_up_before_are_given_up_and_those_behind_them_found(run: Run, label: str) -> None:
    column = {"prisma": '"attempts"', "snake": "tries", "composite": "attempts"}[label.split()[0]]

    async def body(world: MappedWorld) -> None:
        spent = await world.add(30, due_in=-HOUR)
        world.connection.execute(f"UPDATE {world.user.name} SET {column} = 8")
        fresh = await world.add(3)
        assert sorted(keys(await world.rows().claim(10))) == sorted(fresh)
        look = await world.look()
        error = "All 8 attempts were used up before it was claimed."
        assert {look[key] for key in spent} == {Standing(state="dead", reason="Failed", error=error)}
        assert scalar(world.connection, f"SELECT count(*) FROM {world.user.name} WHERE {column} > 8") == 0

    run(label, body)


def test_rows_that_were_found_before_the_database_failed_are_handed_out(run: Run) -> None:
    """They are claimed: were they kept back, their leases would end and nobody would have tried them."""

    async def body(world: MappedWorld) -> None:
        spent = await world.add(10, due_in=-HOUR)
        world.connection.execute('UPDATE app."WebhookDelivery" SET attempts = 8')
        fresh = await world.add(1, due_in=-HOUR * 2)
        rows = world.rows()
        world.connection.execute("ALTER TABLE soloist.dead_rows RENAME TO away")
        try:
            assert keys(await rows.claim(5)) == fresh
            with pytest.raises(PermanentError):
                await rows.claim(5)
        finally:
            world.connection.execute("ALTER TABLE soloist.away RENAME TO dead_rows")
        await world.lapse()
        assert keys(await rows.claim(20)) == fresh
        assert {(await world.look())[key].state for key in spent} == {"dead"}

    run("prisma", body)


def test_of_several_statuses_none_starves(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add(100, due_in=-HOUR)
        (other,) = await world.add()
        world.connection.execute("UPDATE app.deliveries SET state = 'again' WHERE id = %s", (int(other[0]),))
        rows = world.rows()
        found = keys(await rows.claim(5)) + keys(await rows.claim(5))
        assert other in found
        assert len(found) == 10

    run("snake", body)


@pytest.mark.parametrize("asks", [(20, 1), (1, 20)], ids=["much, then little", "little, then much"])
def test_of_several_statuses_none_gets_the_small_claims_only(run: Run, asks: tuple[int, int]) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add(400, due_in=-HOUR)
        others = await world.add(10)
        ids = [int(other[0]) for other in others]
        world.connection.execute("UPDATE app.deliveries SET state = 'again' WHERE id = ANY (%s)", (ids,))
        rows = world.rows()
        found = [key for asked in asks * 5 for key in keys(await rows.claim(asked))]
        assert set(others) <= set(found)
        assert len(found) == 5 * sum(asks)

    run("snake", body)


def test_whoever_starts_takes_what_a_dead_one_left_before_what_nobody_has_tried(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add(40, due_in=-HOUR)
        left = keys(await world.rows().claim(10))
        await world.lapse()
        assert sorted(keys(await world.rows().claim(10))) == sorted(left)

    run("snake inline", body)


def test_rows_of_a_key_of_which_there_is_enough_do_not_hide_those_behind_them(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add(20, due_in=-HOUR)
        world.connection.execute("INSERT INTO app.\"Webhook\" VALUES ('wh2', 'http://other.test', 's', true, now())")
        (other,) = await world.add()
        world.connection.execute(
            f'UPDATE app."WebhookDelivery" AS q SET "webhookId" = \'wh2\' WHERE {world.where(other)}'
        )
        rows = world.rows()
        claims = await rows.claim(5, without=["wh1"])
        assert keys(claims) == [other]
        assert claims[0].columns["webhookId"] == "wh2"
        assert len(await rows.claim(30, without=[])) == 20

    run("prisma", body, concurrency={"perKey": {"column": "webhookId", "limit": 4}})


def test_a_row_that_killed_its_workers_twice_is_kept_for_longer_than_its_lease(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add()
        for reclaims in range(4):
            claim = await one(world)
            assert claim.reclaims == reclaims
            held = scalar(world.connection, "SELECT held_until - clock_timestamp() FROM soloist.claims")
            most = MINUTE * (1 + max(0, reclaims - 1))
            assert MINUTE * 0.5 < held <= most
            await world.lapse()

    run("prisma", body)


# Dead letters


@pytest.fixture
def notes(connection: Connection) -> Iterator[None]:
    connection.execute("CREATE TABLE public.notes (id text, queue text, reason text, error text, attempt int)")
    yield
    connection.execute("DROP TABLE IF EXISTS public.notes")


NOTE = OnDead(
    statement="INSERT INTO public.notes VALUES ($1, $2, $3, $4, $5)",
    values=("id", "queue", "reason", "error", "attempt"),
)


@pytest.mark.parametrize("label", ["prisma", "prisma inline"])
@pytest.mark.usefixtures("notes")
def test_the_queues_own_statement_runs_with_each_dead_letter(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        dead, parked, fine = await world.add(3)
        rows = world.rows(on_dead=NOTE)
        claims = {claim.row: claim for claim in await rows.claim(3)}
        outcomes: list[Settled] = [
            Failed(claim=claims[dead], error="410", retry_in=None),
            Parked(claim=claims[parked], error="no reply"),
            Done(claim=claims[fine]),
        ]
        assert await rows.settle(outcomes) == [ACCEPTED] * 3
        said = world.connection.execute("SELECT * FROM public.notes").fetchall()
        assert sorted(said) == sorted(
            [(*dead, QUEUE, "Failed", "410", 1), (*parked, QUEUE, "Interrupted", "no reply", 1)]
        )
        assert await rows.settle(outcomes) == [LOST] * 3
        assert scalar(world.connection, "SELECT count(*) FROM public.notes") == 2

    run(label, body)


@pytest.mark.parametrize("label", ["prisma", "prisma inline"])
def test_a_statement_that_cannot_be_run_parks_its_row_with_a_letter_and_holds_up_no_other(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        dead, fine, again = await world.add(3)
        rows = world.rows(on_dead=OnDead(statement="INSERT INTO nowhere VALUES (1)"))
        claims = {claim.row: claim for claim in await rows.claim(3)}
        outcomes: list[Settled] = [
            Done(claim=claims[fine]),
            Failed(claim=claims[dead], error="410", retry_in=None),
            Failed(claim=claims[again], error="503", retry_in=HOUR),
        ]
        assert await rows.settle(outcomes) == [ACCEPTED, REFUSED, ACCEPTED]
        look = await world.look()
        assert [look[key].state for key in (dead, fine, again)] == ["dead", "done", "waiting"]
        assert look[dead].reason == "Refused"
        assert 'onDead.sql refuses: relation "nowhere" does not exist' in look[dead].error
        assert await rows.claim(3) == []

    run(label, body)


@pytest.mark.parametrize("label", WRITTEN)
def test_an_outcome_that_a_trigger_lets_vanish_is_parked_and_not_repeated_for_ever(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        added = await world.add(4)
        status = world.shape.table.status
        assert status is not None
        world.connection.execute(
            f"""CREATE FUNCTION app.hush() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RETURN CASE WHEN NEW."{status.column}"::text = '{status.done}' THEN NULL ELSE NEW END; END $$;
CREATE TRIGGER hush BEFORE UPDATE ON {world.user.name} FOR EACH ROW WHEN ({world.where(added[1]).replace('"q"', "OLD")})
EXECUTE FUNCTION app.hush()"""
        )
        rows = world.rows()
        claims = {claim.row: claim for claim in await rows.claim(4)}
        verdicts = await rows.settle([Done(claim=claims[key]) for key in added])
        assert verdicts == [ACCEPTED, REFUSED, ACCEPTED, ACCEPTED]
        assert "vanish" in (await world.look())[added[1]].error
        await world.lapse()
        assert await rows.claim(4) == []

    run(label, body)


# Between claims


def test_a_status_for_rows_that_are_under_way_is_set_and_taken_back(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        added = await world.add(3)
        rows = world.rows()
        claims = {claim.row: claim for claim in await rows.claim(3)}
        assert scalar(world.connection, "SELECT array_agg(DISTINCT state) FROM app.deliveries") == ["running"]
        outcomes: list[Settled] = [
            Done(claim=claims[added[0]]),
            PutBack(claim=claims[added[1]]),
            Failed(claim=claims[added[2]], error="503", retry_in=HOUR),
        ]
        assert await rows.settle(outcomes) == [ACCEPTED] * 3
        states = world.connection.execute("SELECT state FROM app.deliveries ORDER BY id").fetchall()
        assert [state for (state,) in states] == ["done", "new", "new"]

    run("snake inline", body)


def test_attempts_are_counted_in_the_sidecar_where_the_table_does_not(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        for attempt in (1, 2, 3):
            claim = await one(world)
            assert (claim.attempt, claim.tries) == (attempt, attempt)
            assert await world.rows().settle([Failed(claim=claim, error="503", retry_in=NOTHING)]) == [ACCEPTED]
        await world.rows().settle([Done(claim=await one(world))])
        assert world.standing(key).state == "done"
        assert world.sidecar() == 0

    run("uuid", body)


def test_a_table_that_knows_neither_due_time_nor_attempts_is_worked(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        done, dead, rested = await world.add(3)
        rows = world.rows()
        claims = {claim.row: claim for claim in await rows.claim(5)}
        assert claims[done].due is None
        assert await rows.claim(5) == []
        outcomes: list[Settled] = [
            Done(claim=claims[done]),
            Failed(claim=claims[dead], error="410", retry_in=None),
            Failed(claim=claims[rested], error="503", retry_in=HOUR),
        ]
        assert await rows.settle(outcomes) == [ACCEPTED] * 3
        assert await rows.claim(5) == [], "it rests"
        world.connection.execute("UPDATE soloist.claims SET held_until = held_until - interval '1 hour'")
        (again,) = await rows.claim(5)
        assert (again.row, again.attempt) == (rested, 2)
        await rows.settle([Done(claim=again)])
        assert world.sidecar() == 0
        assert [(await world.look())[key].state for key in (done, dead, rested)] == ["done", "dead", "done"]

    run("bare", body)


def test_what_is_left_of_claims_that_nobody_can_end_is_swept_away(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        deleted, finished, live, waiting = await world.add(4)
        rows = world.rows()
        await rows.claim(4)
        await world.remove(deleted)
        world.connection.execute(f"UPDATE app.jobs AS q SET status = 'done' WHERE {world.where(finished)}")
        await rows.sweep()
        assert world.sidecar() == 4, "their workers may still be alive"
        await world.lapse()
        live_key = world.shape.source, live[0]
        world.connection.execute(
            "UPDATE soloist.claims SET held_until = clock_timestamp() + interval '1 hour' WHERE key = %s",
            (f"{live_key[0]}:{live_key[1]}",),
        )
        assert await rows.sweep() == 2
        assert world.sidecar() == 2
        assert keys(await world.rows().claim(4)) == [waiting], "and one whose row waits is claimed, not swept"

    run("uuid", body)


def test_a_sweep_goes_through_the_whole_sidecar_in_turns(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add(700)
        rows = world.rows()
        claims = await rows.claim(700)
        assert len(claims) == 700
        await world.lapse()
        world.connection.execute("DELETE FROM app.tenant_events")
        assert [await rows.sweep() for _ in range(4)] == [500, 200, 0, 0]
        assert world.sidecar() == 0

    run("composite", body)
