"""The claim loop of a queue: who gets which row, how many at once, how soon, and what it survives."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest

from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Settled
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.queue_spec import Concurrency, PerKey
from tests.loops.queue_world import done, endpoint, for_ever, lasting, now, queue_spec, scene
from tests.loops.virtual_time import run

PER_ENDPOINT = Concurrency(per_worker=16, per_key=PerKey(column="endpoint", limit=2))


@pytest.mark.parametrize("workers", [1, 4])
def test_each_due_row_is_worked_and_settled_once(workers: int) -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(1000)
            crew = [it.worker() for _ in range(workers)]
            await it.finished()
            seen = [row for worker in crew for row in worker.handler.rows]
            assert sorted(seen, key=int) == [str(number) for number in range(1, 1001)]
            assert it.states() == ["done"] * 1000
            assert all(not worker.notes.losses and not worker.notes.failures for worker in crew)

    run(body())


def test_no_more_rows_run_at_once_than_the_concurrency() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(50)
            worker = it.worker(lasting(1.0), queue_spec(per_worker=8))
            await it.finished()
            assert worker.handler.most_at_once == 8
            assert now() < 8.0, "and no slot stays empty for long"

    run(body())


def test_a_full_claim_is_followed_by_the_next_at_once() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(2000)
            worker = it.worker()
            await it.finished()
            claims = [when for when, call, _ in worker.rows.calls if call == "claim"]
            waits = [later - earlier for earlier, later in pairwise(claims)]
            assert max(waits[: 2000 // 64]) < 0.005, "no poll interval lies between two claims of a backlog"

    run(body())


def test_slots_that_become_free_one_by_one_are_filled_a_few_at_a_time() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(640)

            async def act(claim: Claim) -> Settled:
                await asyncio.sleep(0.1 + int(claim.row[0]) % 64 / 1000)
                return Done(claim=claim)

            worker = it.worker(act)
            await it.finished()
            assert len(worker.notes.claims) < 640 / 3
            assert now() < 10 * 0.164 + 0.5, "and none of them waits for long"

    run(body())


def test_in_an_idle_queue_a_row_is_worked_within_a_poll_interval_of_its_time() -> None:
    async def body() -> None:
        draw = Random(5)
        async with scene() as it:
            worker = it.worker()
            late = []
            for _ in range(200):
                wait = draw.uniform(0.0, 3.0)
                (row,) = it.add(due_in=wait)
                due = now() + wait
                await it.until(lambda row=row: row.state == "done")
                late.append(worker.handler.started[-1][0] - due)
            assert 0 <= min(late) <= max(late) <= 0.25 + 0.002

    run(body())


def test_an_idle_queue_asks_a_few_times_a_second_and_one_with_much_in_work_no_more_often() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(60)
            worker = it.worker(lasting(10.0))
            await asyncio.sleep(5.0)
            worker.rows.calls.clear()
            await asyncio.sleep(10.0)
            asked = sum(call == "claim" for _, call, _ in worker.rows.calls)
            assert 40 <= asked <= 60, "sixty rows ended meanwhile, and none of them was a reason to ask"

    run(body())


def test_a_notification_is_a_reason_to_look_at_once() -> None:
    async def body() -> None:
        async with scene() as it:
            worker = it.worker(spec=queue_spec(most=30.0))
            await asyncio.sleep(100.0)
            (row,) = it.add()
            worker.loops.worker.wake()
            began = now()
            await it.until(lambda: row.state == "done")
            assert worker.handler.started[0][0] - began < 0.01

    run(body())


def test_rows_of_one_key_run_no_more_at_once_than_its_limit_and_hide_no_others() -> None:
    async def body() -> None:
        async with scene() as it:
            stuck = it.add(300, endpoint="stuck")
            others = [it.add(endpoint=f"e{number}")[0] for number in range(40)]

            async def act(claim: Claim) -> Settled:
                running = [each.columns["endpoint"] for each in worker.handler.running.values()]
                assert max(map(running.count, running)) <= 2
                await asyncio.sleep(30.0 if claim.columns["endpoint"] == "stuck" else 0.01)
                return Done(claim=claim)

            worker = it.worker(act, queue_spec(concurrency=PER_ENDPOINT))
            await it.until(lambda: all(row.state == "done" for row in others))
            assert now() < 1.0, "the three hundred before them are none of their business"
            assert [row for row in stuck if row.attempt != 1 or row.reclaims] == []
            it.table.rows = {row.id: row for row in it.table.rows.values() if row.fence or endpoint(row) != "stuck"}
            await it.finished()
            assert worker.notes.failures == []

    run(body())


def test_where_the_database_cannot_leave_a_key_out_its_rows_go_back_for_a_while_unused() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(100, endpoint="stuck")
            (other,) = it.add(endpoint="quick")

            async def act(claim: Claim) -> Settled:
                await asyncio.sleep(5.0 if claim.columns["endpoint"] == "stuck" else 0.01)
                return Done(claim=claim)

            worker = it.worker(act, queue_spec(concurrency=PER_ENDPOINT))
            worker.rows.heeds = False
            await it.until(lambda: other.state == "done")
            assert now() < 0.5
            await asyncio.sleep(60.0)
            assert worker.handler.most_at_once == 3
            asked = sum(call == "claim" for _, call, _ in worker.rows.calls)
            assert asked < 60 * 30, "it goes round, and does not spin"
            assert {row.attempt for row in it.table.rows.values()} == {1}
            await it.finished()

    run(body())


@pytest.mark.parametrize("for_all", [True, False])
def test_rows_of_an_endpoint_that_is_shut_are_left_where_they_are(for_all: bool) -> None:
    """Of all rows where there is one endpoint, else of those of its key; the first that gets through ends it."""

    async def body() -> None:
        async with scene() as it:
            opens, shut = 100.0, it.add(400, endpoint="shut")

            async def act(claim: Claim) -> Settled:
                if claim.columns["endpoint"] == "shut" and now() < opens:
                    wait = timedelta(seconds=20)
                    return PutBack(claim=claim, retry_in=wait, shut_for=wait, for_all=for_all)
                return Done(claim=claim)

            concurrency = Concurrency(per_worker=64) if for_all else PER_ENDPOINT
            worker = it.worker(act, queue_spec(concurrency=concurrency))
            await asyncio.sleep(10.0)
            other = it.add(10, endpoint="open")
            await asyncio.sleep(5.0)
            assert {row.state for row in other} == ({"waiting"} if for_all else {"done"})
            await it.until(lambda: now() >= opens)
            tried = sum(claim.columns["endpoint"] == "shut" for at, claim in worker.handler.started if at < opens)
            assert tried <= 5 * 64, "a handful each time that it may have opened, and not all four hundred"
            assert {row.attempt for row in shut} == {1}
            began = now()
            await it.finished()
            assert now() - began < 45.0

    run(body())


def test_a_key_counts_what_is_in_hand_and_not_what_a_dead_worker_left() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(2, endpoint="one")
            dead = it.worker(for_ever, queue_spec(concurrency=PER_ENDPOINT))
            await it.until(lambda: len(dead.handler.running) == 2)
            await dead.kill()
            it.add(2, endpoint="one")
            alive = it.worker(done, queue_spec(concurrency=PER_ENDPOINT))
            await it.until(lambda: alive.handler.rows == ["3", "4"], 1.0)
            await it.finished()
            assert sorted(alive.handler.rows) == ["1", "2", "3", "4"]
            it.workers.remove(dead)

    run(body())


def test_a_claim_that_was_answered_when_its_time_was_over_is_put_back_and_not_worked() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(3)
            worker = it.worker()
            worker.clock.slept = 0.0
            worker.rows.hangs.add("claim")
            await asyncio.sleep(0.5)
            worker.clock.slept += 55.0  # the machine slept between the question and the answer
            worker.rows.hangs.clear()
            await it.until(lambda: len(worker.notes.verdicts) == 3)
            assert {type(outcome) for outcome, *_ in worker.notes.verdicts} == {PutBack}
            await it.finished()
            assert len(worker.handler.started) == 3
            assert {row.attempt for row in it.table.rows.values()} == {1}

    run(body())


@pytest.mark.parametrize(
    "error", [TransientError("the database is down"), PermanentError("no such table"), RuntimeError("a fault of ours")]
)
def test_a_database_that_is_down_is_asked_ever_more_rarely_and_reported_until_it_is_back(error: Exception) -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(10)
            worker = it.worker()

            def refuse(call: str) -> None:
                raise error

            it.table.before = refuse
            await asyncio.sleep(25.0)
            asked = [when for when, call, _ in worker.rows.calls if call == "claim"]
            assert 8 <= len(asked) <= 12
            assert worker.notes.failures == [("claim", str(error))] * len(asked)
            it.table.before = lambda call: None
            back = now()
            await it.finished()
            assert now() - back < 5.1

    run(body())


def test_what_a_handler_raises_ends_that_rows_attempt_and_nothing_else() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(20)

            async def act(claim: Claim) -> Settled:
                if claim.row == ("7",):
                    raise ZeroDivisionError("a fault in the delivery")
                return Done(claim=claim)

            worker = it.worker(act)
            await it.finished()
            seven = it.table.rows[7]
            assert (seven.state, seven.attempt, seven.reason) == ("dead", 4, "Failed")
            assert seven.error == "The delivery broke: ZeroDivisionError: a fault in the delivery"
            assert worker.notes.failures == [("deliver", "a fault in the delivery")] * 3
            assert it.states().count("done") == 19
            assert now() > 5 + 300, "it waited between its attempts"

    run(body())


def test_with_hold_a_row_whose_handler_raises_is_parked_for_a_person() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add()

            async def act(claim: Claim) -> Settled:
                raise ZeroDivisionError

            it.worker(act, queue_spec(hold=True))
            await it.finished()
            assert it.table.rows[1].reason == "Interrupted"

    run(body())


def test_a_failed_row_comes_again_when_it_is_due_with_no_other_traffic() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add()

            async def act(claim: Claim) -> Settled:
                if claim.attempt == 1:
                    return Failed(claim=claim, error="HTTP 503", retry_in=timedelta(minutes=20))
                return Done(claim=claim)

            worker = it.worker(act)
            await it.finished(seconds=2000)
            (first, one), (second, two) = worker.handler.started
            assert (one.attempt, two.attempt) == (1, 2)
            assert 1200 <= second - first <= 1200 + 0.25 + 0.05

    run(body())


def test_rows_whose_outcomes_cannot_be_written_hold_up_claiming_and_are_not_lost() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(500)
            worker = it.worker(spec=queue_spec(per_worker=8))
            worker.rows.hangs.add("settle")
            await asyncio.sleep(20.0)
            held = [row for row in it.table.rows.values() if row.fence is not None]
            assert len(held) == len(worker.loops.hand) == 32, "four times the concurrency, and no more"
            worker.rows.hangs.clear()
            await it.finished()
            assert len(worker.handler.started) == 500

    run(body())


def test_a_handler_that_hangs_takes_one_slot_and_no_more() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(30)

            async def act(claim: Claim) -> Settled:
                return await (for_ever(claim) if claim.row == ("1",) else done(claim))

            worker = it.worker(act, queue_spec(per_worker=2))
            await it.until(lambda: it.states().count("done") == 29)
            assert next(iter(worker.handler.running.values())).row == ("1",)
            await worker.drain(5.0)
            assert (it.table.rows[1].state, it.table.rows[1].attempt) == ("waiting", 1)

    run(body())


def test_with_hold_what_is_stopped_in_its_middle_is_parked() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(2)
            worker = it.worker(for_ever, queue_spec(hold=True))
            await it.until(lambda: len(worker.handler.running) == 2)
            await worker.drain(5.0)
            assert {type(outcome) for outcome, *_ in worker.notes.verdicts} == {Parked}
            assert it.states() == ["dead", "dead"]

    run(body())
