"""Rows whose outcomes the table refused: each is at rest under a letter, counted, or to be had again, whatever is done to either."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from soloist.adapters.postgres.mapped_dead import DeadRows
from soloist.adapters.postgres.mapped_depths import MappedDepth
from soloist.domain.claims import Claim, Done, Parked, Verdict
from soloist.domain.queue_tables import Sidecar
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import MappedWorld, in_world
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES

LABELS = ["prisma", "prisma inline", "snake inline", "composite inline"]
INLINE = LABELS[1:]
KINDS = ["done", "held"]
Run = Callable[..., None]


@pytest.fixture
def run(queue_database: Place, connection: Connection) -> Run:
    def enter(label: str, body: Callable[[MappedWorld], Awaitable[None]]) -> None:
        connection.execute("DELETE FROM soloist.claims; DELETE FROM soloist.dead_rows")
        in_world(queue_database, connection, TABLES[label], body)

    return enter


def names(world: MappedWorld) -> dict[str, Any]:
    status, inline = world.shape.table.status, world.shape.inline
    assert status is not None
    lease = inline.lease_until if inline else ""
    return {
        "t": world.user.name,
        "status": status.column,
        "of": status,
        "due": world.shape.table.due_at,
        "lease": lease,
    }


def refuse(world: MappedWorld, when: str = """NEW."{status}"::text IN ('{of.done}', '{of.failed}')""") -> None:
    world.connection.execute(
        f"""CREATE FUNCTION app.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF {when} THEN RAISE EXCEPTION 'the books are closed'; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON {{t}} FOR EACH ROW EXECUTE FUNCTION app.refuse()""".format(**names(world))
    )


def mend(world: MappedWorld) -> None:
    world.connection.execute("DROP FUNCTION app.refuse CASCADE")


def queue_anew(world: MappedWorld, due: str = "now()") -> None:
    naive = " AT TIME ZONE 'UTC'" if world.shape.columns[world.shape.table.due_at or ""].naive else ""
    world.connection.execute(
        """UPDATE {t} SET "{status}" = '{of.pending[0]}', "{due}" = {at}""".format(**names(world), at=f"{due}{naive}")
    )


def pause(world: MappedWorld) -> None:
    connection = world.connection
    if world.user.name == 'app."WebhookDelivery"':
        connection.execute("""ALTER TYPE app."DeliveryStatus" ADD VALUE 'PAUSED'""")
    value = {"app.deliveries": "paused", "app.tenant_events": "9"}.get(world.user.name, "PAUSED")
    connection.execute("""UPDATE {t} SET "{status}" = '{value}'""".format(**names(world), value=value))


async def parked(world: MappedWorld, kind: str = "done") -> Claim:
    """What stood in the way is still there."""
    if not scalar(world.connection, "SELECT count(*) FROM pg_trigger WHERE tgname = 'refuse'"):
        refuse(world)
    rows = world.rows(hold=kind == "held")
    (claim,) = await rows.claim(1)
    outcome = Done(claim=claim) if kind == "done" else Parked(claim=claim, error="no reply")
    assert await rows.settle([outcome]) == [Verdict.REFUSED]
    return claim


async def depth(world: MappedWorld) -> tuple[int, int, int, int]:
    found = await MappedDepth(world.database, world.shape).measure()
    return found.ready, found.scheduled, found.in_flight, found.dead


async def ids(dead: DeadRows) -> list[int]:
    return [letter.id for letter in await dead.oldest()]


async def the_letter(world: MappedWorld) -> tuple[DeadRows, int]:
    """There is one."""
    dead = DeadRows(world.database, world.shape)
    (letter,) = await ids(dead)
    return dead, letter


def by_sidecar(world: MappedWorld) -> MappedWorld:
    shape = replace(world.shape, table=replace(world.shape.table, claim=Sidecar()))
    return MappedWorld(world.database, world.connection, world.user, shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", LABELS)
def test_a_refused_row_rests_until_it_is_queued_anew_and_is_claimed_then(run: Run, label: str, kind: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await parked(world, kind)
        rows = world.rows(hold=kind == "held")
        await rows.sweep()
        assert (await rows.claim(5), await depth(world)) == ([], (0, 0, 0, 1)), "nobody did anything about it"
        mend(world)
        queue_anew(world)
        assert (await depth(world))[0] == 1
        await rows.sweep()
        (claim,) = await rows.claim(5)
        assert claim.row == key
        assert await rows.settle([Done(claim=claim)]) == [Verdict.ACCEPTED]
        await rows.sweep()
        assert (await depth(world), world.sidecar()) == ((0, 0, 0, 0), 0)

    run(label, body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", LABELS)
def test_the_letter_of_a_row_that_was_queued_anew_may_be_tried_again_first(run: Run, label: str, kind: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await parked(world, kind)
        mend(world)
        queue_anew(world)
        dead, letter = await the_letter(world)
        assert await dead.retry([letter]) == {letter: world.shape.inline is not None}
        assert await depth(world) == (1, 0, 0, 0)
        (claim,) = await world.rows(hold=kind == "held").claim(5)
        assert claim.row == key

    run(label, body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", LABELS)
def test_a_refused_row_that_is_tried_again_is_due_now_and_nothing_is_left(run: Run, label: str, kind: str) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add()
        await parked(world, kind)
        mend(world)
        dead, letter = await the_letter(world)
        assert await dead.retry([letter]) == {letter: True}
        assert await depth(world) == (1, 0, 0, 0)
        rows = world.rows(hold=kind == "held")
        assert await rows.settle([Done(claim=claim) for claim in await rows.claim(5)]) == [Verdict.ACCEPTED]
        assert world.sidecar() == 0

    run(label, body)


@pytest.mark.parametrize("label", LABELS)
def test_a_refused_row_whose_letter_is_tried_again_during_a_pause_is_had_after_it(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await parked(world)
        mend(world)
        pause(world)
        rows, dead = world.rows(), DeadRows(world.database, world.shape)
        await rows.sweep()
        (letter,) = await ids(dead)
        assert await dead.retry([letter]) == {letter: False}, "it is not back as long as that lasts"
        world.connection.execute("""UPDATE {t} SET "{status}" = '{of.pending[0]}'""".format(**names(world)))
        assert await depth(world) == (1, 0, 0, 0)
        assert [claim.row for claim in await rows.claim(5)] == [key]

    run(label, body)


@pytest.mark.parametrize("how", ["by id", "by age"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", LABELS)
def test_a_row_whose_letter_was_put_away_rests_on_and_counts_as_dead_until_it_is_queued_anew(
    run: Run, label: str, kind: str, how: str
) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await parked(world, kind)
        dead = DeadRows(world.database, world.shape)
        before = world.row(key)
        if how == "by id":
            assert len(await dead.purge(await ids(dead))) == 1
        else:
            assert await dead.purge_older(timedelta()) == 1
        rows = world.rows(hold=kind == "held")
        await rows.sweep()
        assert (await rows.claim(5), await depth(world), world.row(key)) == ([], (0, 0, 0, 1), before)
        mend(world)
        queue_anew(world)
        await rows.sweep()
        assert [claim.row for claim in await rows.claim(5)] == [key]
        assert await depth(world) == (0, 0, 1, 0)

    run(label, body)


@pytest.mark.parametrize("label", LABELS)
def test_the_letter_of_an_earlier_time_takes_no_later_one_with_it(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add()
        await parked(world)
        queue_anew(world)
        await world.rows().sweep()
        await parked(world)
        dead = DeadRows(world.database, world.shape)
        earlier, later = await ids(dead)
        if world.shape.inline is None:
            assert await dead.retry([earlier]) == {earlier: False}
            assert await ids(dead) == [later]
            assert await depth(world) == (0, 0, 0, 1)
        else:
            assert await dead.retry([earlier]) == {earlier: True}
            assert await depth(world) == (1, 0, 0, 0)

    run(label, body)


@pytest.mark.parametrize("label", LABELS)
def test_both_letters_of_one_row_at_once_bring_it_back_once(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await parked(world)
        queue_anew(world)
        await world.rows().sweep()
        await parked(world)
        dead = DeadRows(world.database, world.shape)
        earlier, later = await ids(dead)
        assert (await dead.retry([earlier, later]))[later] is True
        assert await ids(dead) == []
        assert [claim.row for claim in await world.rows().claim(5)] == [key]

    run(label, body)


@pytest.mark.parametrize("label", INLINE)
def test_a_row_that_was_freed_by_hand_and_is_in_hand_is_not_taken_away_by_a_retry(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add()
        await parked(world)
        mend(world)
        world.connection.execute('UPDATE {t} SET "{lease}" = NULL'.format(**names(world)))
        assert await depth(world) == (1, 0, 0, 1), "a letter and a row"
        rows = world.rows()
        (claim,) = await rows.claim(1)
        dead, letter = await the_letter(world)
        assert await dead.retry([letter]) == {letter: False}
        assert await rows.claim(1) == []
        assert await rows.settle([Done(claim=claim)]) == [Verdict.ACCEPTED]

    run(label, body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", INLINE)
def test_a_switch_to_the_sidecar_and_back_loses_no_row(run: Run, label: str, kind: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await parked(world, kind)
        other = by_sidecar(world)
        assert (await other.rows().claim(5), await depth(other)) == ([], (0, 0, 0, 1)), "it rests there too"
        mend(world)
        dead, letter = await the_letter(other)
        assert await dead.retry([letter]) == {letter: True}
        assert await depth(other) == (1, 0, 0, 0)
        assert await depth(world) == (1, 0, 0, 0), "and back, before anybody claimed it"
        rows = world.rows(hold=kind == "held")
        await rows.sweep()
        assert [claim.row for claim in await rows.claim(5)] == [key]

    run(label, body)


@pytest.mark.parametrize("label", INLINE)
def test_a_row_that_was_done_by_the_sidecar_is_claimed_when_it_comes_again(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await parked(world)
        mend(world)
        queue_anew(world)
        rows = by_sidecar(world).rows()
        assert await rows.settle([Done(claim=claim) for claim in await rows.claim(5)]) == [Verdict.ACCEPTED]
        queue_anew(world)
        assert await depth(world) == (1, 0, 0, 0)
        rows = world.rows()
        await rows.sweep()
        assert [claim.row for claim in await rows.claim(5)] == [key]

    run(label, body)


@pytest.mark.parametrize("label", INLINE)
def test_a_row_that_rests_by_the_sidecar_is_tried_again_in_columns(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        await parked(by_sidecar(world))
        mend(world)
        assert [claim.row for claim in await world.rows().claim(5)] == [key]

    run(label, body)


@pytest.mark.parametrize("label", LABELS)
def test_a_held_row_that_was_queued_anew_is_claimed_whatever_becomes_of_its_letter(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        (key,) = await world.add()
        rows = world.rows(hold=True)
        (claim,) = await rows.claim(1)
        assert await rows.settle([Parked(claim=claim, error="no reply")]) == [Verdict.ACCEPTED]
        queue_anew(world)
        assert await depth(world) == (1, 0, 0, 1), "a letter and a row"
        dead, letter = await the_letter(world)
        assert await dead.retry([letter]) == {letter: False}
        assert await depth(world) == (1, 0, 0, 0)
        assert [claim.row for claim in await rows.claim(5)] == [key]

    run(label, body)


@pytest.mark.parametrize("label", INLINE)
def test_a_row_that_waits_for_a_later_time_is_freed_when_that_comes(run: Run, label: str) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add()
        await parked(world)
        mend(world)
        queue_anew(world, "(now() + interval '1 hour')")
        await world.rows().sweep()
        assert (await depth(world))[:3] == (0, 1, 0)
        queue_anew(world)
        await world.rows().sweep()
        assert len(await world.rows().claim(5)) == 1

    run(label, body)


@pytest.mark.parametrize("label", INLINE)
def test_what_a_sweep_cannot_free_keeps_nobody_from_claiming(run: Run, label: str, queue_database: Place) -> None:
    async def body(world: MappedWorld) -> None:
        (odd,) = await world.add()
        await parked(world)
        mend(world)
        queue_anew(world)
        refuse(world, """OLD."{lease}" = 'infinity'""")
        (fine,) = await world.add()
        rows = world.rows()
        await rows.sweep()
        assert [claim.row for claim in await rows.claim(5)] == [fine]
        mend(world)
        with psycopg.connect(queue_database.dsn()) as application:
            application.execute(f"SELECT FROM {world.user.name} AS q WHERE {world.where(odd)} FOR UPDATE".encode())
            await rows.sweep()  # and does not wait for whoever writes the row
            assert await rows.claim(5) == []
        await rows.sweep()
        assert [claim.row for claim in await rows.claim(5)] == [odd]

    run(label, body)


@pytest.mark.parametrize("label", INLINE)
def test_rows_that_may_not_be_written_keep_no_other_from_being_freed_and_are_said_once(
    run: Run, label: str, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> list[str]:
        return [each.__dict__["sentence"] for each in caplog.records if each.levelno == logging.WARNING]

    async def body(world: MappedWorld) -> None:
        added = await world.add(5)
        refuse(world)
        rows = world.rows()
        outcomes = [Done(claim=claim) for claim in await rows.claim(5)]
        assert await rows.settle(outcomes) == [Verdict.REFUSED] * 5
        mend(world)
        queue_anew(world)
        odd, *fine = added
        frozen = world.where(odd).replace('"q"', "OLD")
        refuse(world, frozen.replace("%", "%%"))
        await rows.sweep()
        assert sorted(claim.row for claim in await rows.claim(5)) == sorted(fine)
        for _ in range(4):
            await rows.sweep()
        (said,) = warnings()
        assert f"of {world.shape.table.name} " in said
        assert "the books are closed" in said
        mend(world)
        for _ in range(3):
            await rows.sweep()
        assert [claim.row for claim in await rows.claim(5)] == [odd]
        assert len(warnings()) == 1

    run(label, body)


def test_a_sweep_that_may_have_left_some_is_gone_on_with_by_the_next_claim(run: Run) -> None:
    async def body(world: MappedWorld) -> None:
        await world.add(1200)
        world.connection.execute("UPDATE {t} SET \"{lease}\" = 'infinity'".format(**names(world)))
        rows = world.rows()
        assert await rows.claim(1) == [], "it is not yet time for a sweep"
        rows._sweep_at = 0.0
        found = [len(await rows.claim(1200)) for _ in range(4)]
        assert found == [500, 500, 200, 0]
        assert rows._sweep_at > time.monotonic() + 5, "and rests when all are freed"

    run("snake inline", body)
