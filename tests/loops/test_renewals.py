"""Leases: renewed while the loop is alive, never on its word alone, and given up before anybody else can have the row."""

from __future__ import annotations

import asyncio

import pytest

from soloist.domain.claims import Verdict
from soloist.domain.errors import TransientError
from soloist.domain.queue_spec import Concurrency, PerKey
from tests.loops.queue_world import LEASE, for_ever, lasting, now, queue_spec, scene
from tests.loops.virtual_time import run


def test_work_that_outlasts_many_leases_keeps_its_row() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(20)
            spec = queue_spec(per_worker=10)
            crew = [it.worker(lasting(10 * LEASE), spec) for _ in range(2)]
            await it.finished(seconds=900)
            assert sum(len(worker.handler.started) for worker in crew) == 20
            assert {row.reclaims for row in it.table.rows.values()} == {0}
            renewals = [many for worker in crew for _, call, many in worker.rows.calls if call == "renew"]
            assert 60 <= len(renewals) <= 90, "one statement for all, each quarter of a lease"

    run(body())


def test_a_claim_that_is_lost_ends_its_handler_and_no_other() -> None:
    async def body() -> None:
        async with scene() as it:
            lost, kept = it.add(2)
            worker = it.worker(lasting(100.0))
            await it.until(lambda: len(worker.handler.running) == 2)
            del it.table.rows[lost.id]  # cancelled by the application
            await it.until(lambda: worker.notes.losses)
            assert now() < LEASE / 4 + 2
            assert [claim.row for _, claim in worker.handler.cancelled] == [("1",)]
            await it.until(lambda: kept.state == "done")
            assert len(worker.notes.verdicts) == 1, "for the lost one nothing is written"

    run(body())


@pytest.mark.parametrize("trouble", ["no answer", "an error"])
def test_a_handler_is_ended_before_its_lease_is_where_no_renewal_is_confirmed(trouble: str) -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(3)
            worker = it.worker(for_ever)
            await it.until(lambda: len(worker.handler.running) == 3)

            def refuse(call: str) -> None:
                if trouble == "an error" and call == "renew":
                    raise TransientError("the database is down")

            it.table.before = refuse
            worker.rows.hangs |= {"renew", "claim"} if trouble == "no answer" else {"claim"}
            await it.until(lambda: not worker.handler.running)
            begun = {claim.fence: when for when, claim in worker.handler.started}
            ends = {row.fence: row.lease_until for row in it.table.rows.values()}
            for when, claim in worker.handler.cancelled:
                assert LEASE - 5.1 <= when - begun[claim.fence] <= LEASE - 4.9
                assert it.table.now() < ends[claim.fence]
            assert len(worker.handler.cancelled) == 3
            other = it.worker()
            await it.finished()
            assert len(other.handler.started) == 3
            worker.rows.hangs.clear()

    run(body())


def test_a_claim_loop_that_hangs_is_not_vouched_for_and_its_rows_go_to_a_worker_that_lives() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(3)
            worker = it.worker(lasting(10 * LEASE))
            await it.until(lambda: len(worker.handler.running) == 3)
            worker.rows.hangs.add("claim")
            worker.rows.stubborn = True
            await asyncio.sleep(2 * LEASE)
            other = it.worker()
            await it.finished()
            assert len(other.handler.started) == 3
            assert worker.handler.running == {}, "nobody works a row that another has"
            last = max(when for when, call, _ in worker.rows.calls if call == "renew")
            assert last < 0.75 * LEASE
            assert any("has not gone round" in sentence for _, sentence in worker.notes.failures)
            worker.rows.hangs.clear()

    run(body())


def test_a_loop_that_only_waits_for_a_slot_or_for_a_slow_database_is_alive() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(20)
            worker = it.worker(lasting(3 * LEASE), queue_spec(per_worker=10))
            await it.until(lambda: len(worker.handler.running) == 10)
            await asyncio.sleep(2 * LEASE)
            assert len(worker.handler.running) == 10
            worker.rows.hangs.add("claim")  # each question runs into its limit
            await it.until(lambda: it.states().count("done") == 10)
            assert worker.notes.losses == []
            worker.rows.hangs.clear()
            await it.finished()

    run(body())


def test_a_machine_that_slept_past_a_lease_works_on_nothing_that_it_holds_on_waking() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(3)
            worker = it.worker(for_ever)
            await it.until(lambda: len(worker.handler.running) == 3)
            worker.clock.slept += 10 * LEASE
            woke = now()
            await it.until(lambda: not worker.handler.running)
            assert now() - woke < 0.3
            assert len(worker.notes.losses) == 3
            worker.handler.act = lasting(0.1)
            await it.finished()

    run(body())


def test_a_renewal_that_crosses_the_writing_of_the_outcome_takes_nothing_for_lost() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(40)
            worker = it.worker(lasting(LEASE / 4 + 2.0), queue_spec(per_worker=40))
            worker.rows.hangs.add("renew")
            await it.finished()
            assert any(call == "renew" for _, call, _ in worker.rows.calls), "the question was out"
            worker.rows.hangs.clear()
            await asyncio.sleep(LEASE)
            assert worker.notes.losses == []
            assert [verdict for _, verdict, _ in worker.notes.verdicts] == [Verdict.ACCEPTED] * 40

    run(body())


def test_claims_of_about_the_same_age_are_renewed_by_one_statement() -> None:
    async def body() -> None:
        async with scene() as it:
            worker = it.worker(lasting(2 * LEASE))
            for _ in range(20):
                it.add()
                await asyncio.sleep(0.3)
            await it.finished()
            renewals = [many for _, call, many in worker.rows.calls if call == "renew"]
            assert sum(renewals) >= 20 * 7
            assert len(renewals) <= 20, "not one for each row"

    run(body())


def test_a_claim_that_is_lost_while_it_waits_for_its_key_never_starts() -> None:
    async def body() -> None:
        async with scene() as it:
            it.add(4, endpoint="one")
            two_at_once = Concurrency(per_worker=8, per_key=PerKey(column="endpoint", limit=2))
            worker = it.worker(lasting(LEASE), queue_spec(concurrency=two_at_once))
            await it.until(lambda: len(worker.loops.hand) == 4)
            del it.table.rows[3]
            await it.finished()
            assert worker.handler.rows == ["1", "2", "4"]
            assert [claim.row for _, claim, _ in worker.notes.losses] == [("3",)]

    run(body())
