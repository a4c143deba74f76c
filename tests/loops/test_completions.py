"""Outcomes: written together, written again where no answer came, under the fences they had, and not for ever."""

from __future__ import annotations

import asyncio

import pytest

from soloist.domain.claims import Claim, Done, Settled, Verdict
from soloist.domain.errors import PermanentError, TransientError
from soloist.loops.completions import BATCH, LINGER
from tests.loops.queue_world import Scene, Worker, lasting, now, queue_spec, scene
from tests.loops.virtual_time import run


def settles(worker: Worker) -> list[int]:
    return [many for _, call, many in worker.rows.calls if call == "settle"]


def test_outcomes_go_together_in_batches_of_a_bounded_size() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(1000)
            worker = it.worker(spec=queue_spec(per_worker=200))
            await it.finished()
            assert sum(settles(worker)) == 1000
            assert max(settles(worker)) <= BATCH
            assert len(settles(worker)) < 20

    run(body())


def test_a_lone_outcome_waits_only_a_moment_for_company() -> None:
    async def body() -> None:
        async with scene() as it:
            (row,) = it.add()
            worker = it.worker(lasting(5.0))
            await it.until(lambda: worker.notes.outcomes)
            ended = now()
            await it.until(lambda: row.state == "done")
            assert now() - ended <= LINGER + 0.02

    run(body())


@pytest.mark.parametrize("written", [True, False])
def test_a_write_of_which_no_answer_came_is_sent_again_with_the_same_fences(written: bool) -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(30)
            worker = it.worker()
            lose_replies(it, 3, written=written)
            await it.finished()
            await it.until(lambda: len(worker.loops.hand) == 0)
            assert len(worker.handler.started) == 30, "what is known to be done is not done again"
            assert settles(worker) == [30, 30, 30, 30]
            verdicts = {(verdict, unanswered) for _, verdict, unanswered in worker.notes.verdicts}
            assert verdicts == {(Verdict.LOST if written else Verdict.ACCEPTED, True)}, "and says that it cannot know"
            assert it.states() == ["done"] * 30

    run(body())


def lose_replies(it: Scene, times: int, *, written: bool) -> None:
    left = [times]

    def lose(call: str) -> None:
        if call == "settle" and left[0]:
            left[0] -= 1
            raise TransientError("the connection broke")

    if written:
        it.table.after = lose
    else:
        it.table.before = lose


def test_a_write_that_certainly_did_not_happen_leaves_no_doubt() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add()
            worker = it.worker()
            errors = [TransientError("refused", sent=False), PermanentError("no right to write")]

            def refuse(call: str) -> None:
                if call == "settle" and errors:
                    raise errors.pop()

            it.table.before = refuse
            await it.finished()
            assert [(verdict, doubt) for _, verdict, doubt in worker.notes.verdicts] == [(Verdict.ACCEPTED, False)]
            assert worker.notes.failures == [("settle", "no right to write"), ("settle", "refused")]

    run(body())


def test_outcomes_that_cannot_be_written_are_kept_as_long_as_their_leases_are_renewed() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(5)
            worker = it.worker()
            worker.rows.hangs.add("settle")
            await asyncio.sleep(300.0)
            assert len(worker.loops.hand) == 5
            worker.rows.hangs.clear()
            await it.finished()
            assert len(worker.handler.started) == 5

    run(body())


def test_outcomes_are_let_go_when_their_leases_are_over_and_the_rows_come_again() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(5)
            worker = it.worker()
            worker.rows.hangs |= {"settle", "renew"}
            await it.until(lambda: len(worker.notes.losses) == 5)
            assert 55.0 <= now() <= 90.0
            assert {sentence for *_, sentence in worker.notes.losses} == {
                "its outcome could not be written before the lease ended"
            }
            worker.rows.hangs.clear()
            await it.finished()
            assert {(row.attempt, row.state) for row in it.table.rows.values()} == {(1, "done")}
            assert len(worker.handler.started) == 10
            assert sum(reclaimed for *_, reclaimed in worker.notes.claims) == 5

    run(body())


def test_an_outcome_that_comes_late_is_offered_all_the_same_and_the_fence_decides() -> None:
    async def body() -> None:
        async with scene() as it:
            (row,) = it.add()

            async def act(claim: Claim) -> Settled:
                await asyncio.sleep(1.0)
                worker.clock.slept += 120.0  # the machine slept while the reply was on its way
                return Done(claim=claim)

            worker = it.worker(act)
            await it.until(lambda: worker.notes.verdicts)
            assert row.state == "done"
            assert worker.notes.verdicts[0][1] is Verdict.ACCEPTED

    run(body())


def test_whoever_lost_its_claim_writes_nothing_over_the_outcome_of_the_next() -> None:
    async def body() -> None:
        async with scene() as it:
            (row,) = it.add()

            async def act(claim: Claim) -> Settled:
                await asyncio.sleep(1.0)
                row.lease_until = it.table.now()  # as after a freeze
                other = it.worker(lasting(5.0))
                await it.until(lambda: other.handler.running)
                return Done(claim=claim)

            late = it.worker(act)
            await it.finished()
            await it.until(lambda: late.notes.verdicts)
            assert [verdict for _, verdict, _ in late.notes.verdicts] == [Verdict.LOST]
            assert [verdict for _, verdict, _ in it.workers[1].notes.verdicts] == [Verdict.ACCEPTED]

    run(body())
