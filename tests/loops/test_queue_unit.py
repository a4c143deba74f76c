"""How a queue is opened and how it ends: nothing of it is left behind, and no attempt is used up by going away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from soloist.domain.claims import Claim, Done, PutBack, Settled
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import Concurrency, PerKey, QueueSpec
from soloist.loops.queue_unit import REOPEN_AFTER, QueueUnit
from tests.loops.queue_world import (
    LEASE,
    NAME,
    Handler,
    Notes,
    Opened,
    Rows,
    Scene,
    done,
    for_ever,
    lasting,
    now,
    queue_spec,
    scene,
)
from tests.loops.virtual_time import LoopClock, run


def test_going_away_finishes_what_ends_in_time_and_puts_back_the_rest_unused_for_others_to_take_at_once() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(10)

            async def act(claim: Claim) -> Settled:
                await asyncio.sleep(5.0 if int(claim.row[0]) <= 6 else 500.0)
                return Done(claim=claim)

            worker = it.worker(act)
            await it.until(lambda: len(worker.handler.running) == 10)
            it.add(10)
            await worker.drain(20.0)
            assert now() < 22.0
            assert it.states() == ["done"] * 6 + ["waiting"] * 14
            it.clean()
            assert {(row.attempt, row.reclaims) for row in it.table.rows.values()} == {(1, 0)}
            other = it.worker()
            before = now()
            await it.finished()
            assert now() - before < 0.1, "nobody waits for a lease"
            assert len(other.handler.started) == 14

    run(body())


def test_going_away_without_work_takes_no_time() -> None:
    async def body() -> None:
        async with scene() as it:
            worker = it.worker()
            await asyncio.sleep(1.0)
            before = now()
            await worker.drain(30.0)
            assert now() - before < 0.01

    run(body())


@pytest.mark.parametrize("answered", [1.0, 18.0])
def test_a_claim_that_is_answered_while_going_away_is_put_back(answered: float) -> None:
    async def body() -> None:
        async with scene() as it:
            worker = it.worker()
            await asyncio.sleep(0.5)
            worker.rows.hangs.add("claim")
            await asyncio.sleep(0.5)
            it.add(5)
            going = asyncio.create_task(worker.drain(20.0))
            await asyncio.sleep(answered)
            worker.rows.hangs.clear()
            await going
            assert it.states() == ["waiting"] * 5
            assert [type(outcome) for outcome, *_ in worker.notes.verdicts] == [PutBack] * 5
            assert worker.handler.started == []

    run(body())


def test_rows_that_wait_for_their_key_go_back_at_once() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(4, endpoint="one")
            one_at_once = Concurrency(per_worker=4, per_key=PerKey(column="endpoint", limit=2))
            worker = it.worker(lasting(10.0), queue_spec(concurrency=one_at_once))
            await it.until(lambda: len(worker.loops.hand) == 4)
            going = asyncio.create_task(worker.drain(20.0))
            await it.until(lambda: len(worker.notes.verdicts) == 2, 0.2)
            await going
            assert it.states() == ["done", "done", "waiting", "waiting"]

    run(body())


def test_leases_are_renewed_to_the_very_last_of_a_long_farewell() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(3)
            worker = it.worker(lasting(4 * LEASE))
            await it.until(lambda: len(worker.handler.running) == 3)
            other = it.worker()
            await worker.drain(5 * LEASE)
            assert it.states() == ["done"] * 3
            assert other.handler.started == []

    run(body())


def test_a_handler_that_does_not_let_itself_be_ended_is_not_waited_for() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add()
            freed = asyncio.Event()

            async def act(claim: Claim) -> Settled:
                while not freed.is_set():
                    try:
                        await asyncio.sleep(1.0)
                    except asyncio.CancelledError:
                        continue
                return Done(claim=claim)

            worker = it.worker(act)
            await it.until(lambda: worker.handler.running)
            await worker.drain(10.0)
            assert now() < 11.0
            assert (it.table.rows[1].state, it.table.rows[1].fence) == ("waiting", None)
            freed.set()
            await it.until(lambda: not worker.handler.running)
            assert len(worker.notes.verdicts) == 1

    run(body())


def test_a_database_that_is_down_does_not_keep_anybody_from_going_away() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(3)
            worker = it.worker(lasting(1.0))
            await it.until(lambda: len(worker.handler.running) == 3)
            worker.rows.hangs |= {"settle", "claim", "renew"}
            before = now()
            await worker.drain(10.0)
            assert now() - before <= 10.1
            other = it.worker()
            await it.finished()
            assert len(other.handler.started) == 3
            it.workers.remove(worker)

    run(body())


# Opening


class Opener:
    """The ``QueueOpener``: fails as long as there are ``errors``, then opens rows over the scene's table."""

    def __init__(self, it: Scene, errors: list[Exception] | None = None) -> None:
        self.it, self.errors = it, errors or []
        self.rows: list[Rows] = []
        self.handlers: list[Handler] = []
        self.acts = [done]

    async def open(self, name: QueueName, spec: QueueSpec, wake: Callable[[], None]) -> Opened:
        if self.errors:
            raise self.errors.pop(0)
        self.rows.append(Rows(self.it.table, spec))
        self.handlers.append(Handler(self.acts[min(len(self.handlers), len(self.acts) - 1)]))
        return Opened(self.rows[-1], self.handlers[-1])


def unit(opener: Opener, notes: Notes) -> QueueUnit:
    return QueueUnit(NAME, queue_spec(), opener, clock=LoopClock(), report=notes, drawn=lambda: 0.5)


@pytest.mark.parametrize(
    "error", [TransientError("cannot be reached"), PermanentError("no Secret"), KeyError("a fault")]
)
def test_a_queue_that_cannot_be_opened_is_tried_again_and_says_why(error: Exception) -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(5)
            notes = Notes()
            made = unit(Opener(it, [error] * 4), notes)
            await it.finished()
            assert notes.failures == [("queue", str(error))] * 4
            assert made.trouble == ""
            assert notes.life == [f"{NAME} started"]
            await made.drain(10.0)
            assert notes.life == [f"{NAME} started", f"{NAME} stopped"]

    run(body())


@pytest.mark.parametrize(
    ("error", "told"), [(PermanentError("no Secret"), "no Secret"), (KeyError("a row"), "KeyError: the log says more.")]
)
def test_what_is_in_the_way_of_a_queue_is_told_until_a_claim_is_answered(error: Exception, told: str) -> None:
    async def body() -> None:
        async with scene() as it:
            refusals: list[Exception] = []

            def refuse(call: str) -> None:
                if call == "claim" and refusals:
                    raise refusals[0]

            it.table.before = refuse
            opener = Opener(it, [error])
            made = unit(opener, Notes())
            assert made.trouble == "it is being opened"
            await it.until(lambda: made.trouble == told)
            await it.until(lambda: opener.rows)
            await it.until(lambda: made.trouble == "")
            refusals.append(error)
            await it.until(lambda: made.trouble == told)
            await it.until(lambda: len(opener.rows) == 2, 2 * REOPEN_AFTER)
            assert made.trouble, "it is opened anew, and still nothing is answered"
            refusals.clear()
            await it.until(lambda: made.trouble == "")
            await made.drain(10.0)

    run(body())


def test_a_queue_whose_claims_fail_for_long_is_opened_anew_for_its_password_may_have_changed() -> None:
    async def body() -> None:
        async with scene() as it:
            notes, opener = Notes(), Opener(it)
            made = unit(opener, notes)
            await asyncio.sleep(1.0)

            def refuse(call: str) -> None:
                if len(opener.rows) == 1:
                    raise PermanentError("password authentication failed")

            it.table.before = refuse
            it.add(5)
            await it.finished()
            assert REOPEN_AFTER < now() < REOPEN_AFTER + 10
            await made.drain(10.0)

    run(body())


def test_a_queue_is_not_opened_anew_while_it_holds_rows() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add()
            opener = Opener(it)
            made = unit(opener, Notes())
            await it.until(lambda: opener.rows)
            opener.rows[0].hangs |= {"settle"}
            await asyncio.sleep(1.0)

            def refuse(call: str) -> None:
                if call == "claim":
                    raise TransientError("down")

            it.table.before = refuse
            await asyncio.sleep(2 * REOPEN_AFTER)
            assert len(opener.rows) == 1, "the outcome in hand is still to be written"
            opener.rows[0].hangs.clear()
            await it.finished()
            await made.drain(10.0)

    run(body())


def test_a_queue_that_goes_while_it_is_being_opened_leaves_nothing() -> None:
    async def body() -> None:
        async with scene() as it:
            made = unit(Opener(it, [TransientError("down")] * 1000), Notes())
            await asyncio.sleep(20.0)
            before = now()
            await made.drain(30.0)
            assert now() == before
            assert made.progressed == before, "waiting for a database is no hang"

    run(body())


def test_nobody_works_on_after_a_loop_of_a_queue_has_broken_and_the_queue_goes_on_anew() -> None:
    async def body() -> None:
        class Broken(Notes):
            def claimed(self, queue: QueueName, claims: int, reclaimed: int) -> None:
                super().claimed(queue, claims, reclaimed)
                if len(self.claims) == 2:
                    raise ZeroDivisionError("a fault of ours")

        async with scene() as it:
            it.add(3)
            opener, notes = Opener(it), Broken()
            opener.acts = [for_ever, done]
            made = unit(opener, notes)
            await it.until(lambda: len(opener.handlers[0].running) == 3 if opener.handlers else False)
            it.add(1)
            await it.until(lambda: len(opener.handlers) == 2)
            assert len(opener.handlers[0].cancelled) == 3, "what was in hand is worked no more"
            await it.finished()
            assert len(opener.handlers[1].started) == 4
            assert ("queue", "a fault of ours") in notes.failures
            await made.drain(10.0)

    run(body())
