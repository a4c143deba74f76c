"""What every ``Rows`` does, whatever table its rows are in. A test module of an adapter is a subclass and one fixture::

    from tests.contracts.rows import Enter, RowsFacts

    class TestManagedRows(RowsFacts):
        @pytest.fixture
        def enter(self, queue_database: Database) -> Enter:
            return lambda body: asyncio.run(within(queue_database, body))   # makes a World of one empty queue, calls body

Adds nothing that is true of some tables only: what the application may do to a row of its own is the mapped tables' story.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import pytest

from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Settled, Verdict
from soloist.loops.row_ports import Rows

Key = tuple[str, ...]
NOTHING = timedelta()
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
MILLISECOND = timedelta(milliseconds=1)
"""A column of the user's may keep no more of a time than that."""
ACCEPTED, LOST, REFUSED = Verdict.ACCEPTED, Verdict.LOST, Verdict.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a row stands in the tables. ``reason`` is Failed, Interrupted, ReclaimedTooOften or Refused where it is dead."""

    state: str  # waiting, claimed, done or dead
    reason: str = ""
    error: str = ""


class World(Protocol):
    """One queue, empty at first, and whatever else happens to its rows."""

    def rows(self, *, lease: timedelta = MINUTE, hold: bool = False, max_reclaims: int = 5) -> Rows:
        """Another worker's view of the queue; any number of them may be asked at the same time."""

    async def add(self, count: int = 1, *, due_in: timedelta = NOTHING) -> list[Key]:
        """Rows that are due at that distance from now, in the order in which they are to be claimed."""

    async def look(self) -> dict[Key, Standing]:
        """Every row that was added; one that is nowhere any more is done."""

    async def lapse(self) -> None:
        """Every lease ends now, as if its time had passed."""

    async def now(self) -> datetime:
        """The database's clock."""

    async def reach(self, moment: datetime) -> None:
        """Returns when the database's clock is at least there."""

    async def remove(self, key: Key) -> None:
        """Somebody takes the row away, whoever works on it."""

    async def revive(self, key: Key) -> None:
        """A person asks for another round of a dead row."""

    async def refuse_done(self, key: Key) -> None:
        """From now on a constraint or a trigger refuses that this row is recorded as done, and nothing else."""


Body = Callable[[World], Awaitable[None]]
Enter = Callable[[Body], None]


def keys(claims: Sequence[Claim]) -> list[Key]:
    return [claim.row for claim in claims]


async def states(world: World) -> list[str]:
    """In the order of the rows' keys as they were added."""
    return [standing.state for standing in (await world.look()).values()]


async def one(rows: Rows) -> Claim:
    (claim,) = await rows.claim(1)
    return claim


class RowsFacts:
    """Facts, for subclasses to inherit."""

    @pytest.fixture
    def enter(self) -> Enter:
        raise NotImplementedError("A subclass says how to enter its world.")

    # Claiming

    def test_each_due_row_is_claimed_once_by_many_at_the_same_time(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            added = await world.add(200)
            workers = [world.rows() for _ in range(8)]

            async def work(rows: Rows) -> list[Claim]:
                found: list[Claim] = []
                while claims := await rows.claim(7):
                    found += claims
                return found

            seen = [claim for claims in await asyncio.gather(*map(work, workers)) for claim in claims]
            assert sorted(keys(seen)) == sorted(added)
            assert len({claim.fence for claim in seen}) == 200
            assert await workers[0].claim(10) == []

        enter(body)

    def test_a_claim_takes_no_more_than_was_asked_for_and_fewer_only_where_there_are_no_more(
        self, enter: Enter
    ) -> None:
        async def body(world: World) -> None:
            await world.add(25)
            rows = world.rows()
            assert [len(await rows.claim(10)) for _ in range(4)] == [10, 10, 5, 0]

        enter(body)

    def test_nothing_is_claimed_before_it_is_due_and_then_at_once(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            due = await world.now() + timedelta(seconds=0.5)
            (later,) = await world.add(due_in=timedelta(seconds=0.5))
            await world.add(due_in=HOUR)
            rows = world.rows()
            while not (claims := await rows.claim(10)):
                await world.reach(min(await world.now() + timedelta(seconds=0.05), due))
            assert keys(claims) == [later]
            assert await world.now() >= due

        enter(body)

    def test_the_longest_due_row_comes_first(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            (second,) = await world.add(due_in=-MINUTE)
            (third,) = await world.add(due_in=-MINUTE / 2)
            (first,) = await world.add(due_in=-HOUR)
            rows = world.rows()
            assert [(await one(rows)).row for _ in range(3)] == [first, second, third]

        enter(body)

    def test_a_row_that_was_never_tried_is_at_its_first_attempt(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            before = await world.now()
            await world.add(due_in=-HOUR)
            claim = await one(world.rows())
            assert (claim.attempt, claim.tries, claim.reclaims) == (1, 1, 0)
            assert claim.due is not None
            assert before - HOUR - MINUTE < claim.due < await world.now() - HOUR + MINUTE
            assert claim.due_key

        enter(body)

    def test_fences_rise_with_every_claim(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add(3)
            rows, fences = world.rows(), []
            for _ in range(3):
                claims = await rows.claim(3)
                fences.append(sorted(claim.fence for claim in claims))
                await rows.settle([PutBack(claim=claim) for claim in claims])
            assert fences == sorted(fences)
            assert fences[0][-1] < fences[1][0]
            assert fences[1][-1] < fences[2][0]

        enter(body)

    # Leases

    def test_a_row_whose_lease_is_over_comes_again_as_the_same_attempt_under_a_higher_fence(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add()
            first = await one(world.rows())
            for reclaims in (1, 2):
                await world.lapse()
                again = await one(world.rows())
                assert (again.row, again.attempt, again.tries, again.reclaims) == (first.row, 1, 1, reclaims)
                assert again.fence > first.fence
                first = again

        enter(body)

    def test_a_row_is_not_claimed_again_before_its_lease_ends_and_then_at_once(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add()
            lease = timedelta(seconds=0.5)
            before = await world.now()
            await one(world.rows(lease=lease))
            after = await world.now()
            rows, looked = world.rows(), after
            while not await rows.claim(1):
                assert looked < after + lease + MILLISECOND, "by then it was over"
                await world.reach(await world.now() + timedelta(seconds=0.02))
                looked = await world.now()
            assert before + lease - MILLISECOND <= await world.now()

        enter(body)

    def test_a_renewed_claim_holds_for_a_whole_lease_from_now(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add(2)
            kept, left = await world.rows(lease=timedelta(seconds=0.4)).claim(2)
            ends = await world.now() + timedelta(seconds=0.4)
            assert await world.rows(lease=HOUR).renew([kept]) == {kept.fence}
            await world.reach(ends)
            assert keys(await world.rows().claim(2)) == [left.row]

        enter(body)

    def test_a_renewal_gives_the_fences_that_still_hold(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add(4)
            rows = world.rows()
            finished, put_back, reclaimed, kept = await rows.claim(4)
            assert await rows.renew([reclaimed, kept]) == {reclaimed.fence, kept.fence}
            await world.lapse()
            assert await rows.renew([finished, put_back, kept]) == {finished.fence, put_back.fence, kept.fence}
            assert keys(await world.rows().claim(4)) == [reclaimed.row]
            await rows.settle([Done(claim=finished), PutBack(claim=put_back)])
            assert await rows.renew([finished, put_back, reclaimed, kept]) == {kept.fence}
            assert await rows.renew([]) == set()

        enter(body)

    def test_a_lease_that_is_over_counts_until_somebody_else_has_claimed(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add(2)
            rows = world.rows()
            renewed, done = await rows.claim(2)
            await world.lapse()
            assert await rows.renew([renewed]) == {renewed.fence}
            assert await rows.settle([Done(claim=done)]) == [ACCEPTED]
            assert await states(world) == ["claimed", "done"]

        enter(body)

    def test_a_row_whose_claims_end_too_often_dies(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            (key,) = await world.add()
            rows = world.rows(max_reclaims=2)
            for _ in range(3):
                await one(rows)
                await world.lapse()
            assert await rows.claim(1) == []
            assert (await world.look())[key].reason == "ReclaimedTooOften"
            assert (await world.look())[key].state == "dead"

        enter(body)

    def test_with_hold_a_row_is_not_handed_out_twice_but_by_a_person(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            (key,) = await world.add()
            rows = world.rows(hold=True)
            await one(rows)
            await world.lapse()
            assert await rows.claim(1) == []
            await world.lapse()
            assert await rows.claim(1) == []
            assert ((await world.look())[key].state, (await world.look())[key].reason) == ("dead", "Interrupted")
            await world.revive(key)
            again = await one(rows)
            assert (again.row, again.attempt, again.tries) == (key, 1, 1)

        enter(body)

    # Outcomes

    def test_a_row_that_is_done_never_comes_again(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add()
            rows = world.rows()
            assert await rows.settle([Done(claim=await one(rows))]) == [ACCEPTED]
            await world.lapse()
            assert await rows.claim(1) == []
            assert await states(world) == ["done"]

        enter(body)

    def test_a_row_that_failed_waits_and_comes_again_as_the_next_attempt(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            (now_key, later_key) = await world.add(2)
            rows = world.rows()
            by_key = {claim.row: claim for claim in await rows.claim(2)}
            failed: list[Settled] = [
                Failed(claim=by_key[now_key], error="503", retry_in=NOTHING),
                Failed(claim=by_key[later_key], error="503", retry_in=HOUR),
            ]
            assert await rows.settle(failed) == [ACCEPTED, ACCEPTED]
            (again,) = await rows.claim(2)
            assert (again.row, again.attempt, again.tries, again.reclaims) == (now_key, 2, 2, 0)
            assert again.fence > by_key[now_key].fence
            assert await states(world) == ["claimed", "waiting"]

        enter(body)

    def test_a_failure_ends_the_count_of_reclaims(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add()
            await one(world.rows())
            await world.lapse()
            rows = world.rows()
            claim = await one(rows)
            assert claim.reclaims == 1
            await rows.settle([Failed(claim=claim, error="503", retry_in=NOTHING)])
            assert (await one(rows)).reclaims == 0

        enter(body)

    def test_a_row_given_up_is_dead_with_its_last_error(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            (key,) = await world.add()
            rows = world.rows()
            assert await rows.settle([Failed(claim=await one(rows), error="HTTP 410", retry_in=None)]) == [ACCEPTED]
            assert await rows.claim(1) == []
            assert (await world.look())[key] == Standing(state="dead", reason="Failed", error="HTTP 410")

        enter(body)

    def test_a_parked_row_is_dead_until_a_person_asks_and_then_the_same_attempt(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            (key,) = await world.add()
            rows = world.rows()
            assert await rows.settle([Parked(claim=await one(rows), error="no reply")]) == [ACCEPTED]
            assert await rows.claim(1) == []
            assert (await world.look())[key] == Standing(state="dead", reason="Interrupted", error="no reply")
            await world.revive(key)
            again = await one(rows)
            assert (again.row, again.attempt, again.tries) == (key, 1, 1)

        enter(body)

    def test_a_row_put_back_is_taken_at_once_and_used_no_attempt(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            (key,) = await world.add()
            rows = world.rows()
            first = await one(rows)
            assert await rows.settle([PutBack(claim=first)]) == [ACCEPTED]
            again = await one(world.rows())
            assert (again.row, again.attempt, again.tries, again.reclaims) == (key, 1, 1, 0)
            assert again.due == first.due

        enter(body)

    def test_a_row_put_back_for_a_while_is_not_taken_before(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add()
            rows = world.rows()
            before = await world.now()
            await rows.settle([PutBack(claim=await one(rows), retry_in=timedelta(seconds=0.4))])
            while not (claims := await rows.claim(1)):
                await world.reach(await world.now() + timedelta(seconds=0.05))
            assert await world.now() >= before + timedelta(seconds=0.4)
            assert (claims[0].attempt, claims[0].tries, claims[0].reclaims) == (1, 1, 0)

        enter(body)

    def test_verdicts_come_in_the_order_of_the_outcomes(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add(6)
            rows = world.rows()
            a, b, c, d, e, f = await rows.claim(6)
            await rows.settle([PutBack(claim=b), PutBack(claim=e)])
            await world.rows().claim(2)
            outcomes: list[Settled] = [
                Failed(claim=f, error="503", retry_in=HOUR),
                Done(claim=b),
                Parked(claim=d, error="no reply"),
                PutBack(claim=c, retry_in=HOUR),
                Failed(claim=e, error="410", retry_in=None),
                Done(claim=a),
            ]
            assert await rows.settle(outcomes) == [ACCEPTED, LOST, ACCEPTED, ACCEPTED, LOST, ACCEPTED]
            look = await world.look()
            found = [look[claim.row].state for claim in (a, b, c, d, e, f)]
            assert found == ["done", "claimed", "waiting", "dead", "claimed", "waiting"]
            assert await rows.settle([]) == []

        enter(body)

    @pytest.mark.parametrize("taken", ["again by another", "and put back by another"])
    def test_nothing_is_written_under_an_old_fence(self, enter: Enter, taken: str) -> None:
        async def body(world: World) -> None:
            await world.add()
            old, other = world.rows(), world.rows()
            stale = await one(old)
            await world.lapse()
            claim = await one(other)
            if taken == "and put back by another":
                await other.settle([PutBack(claim=claim, retry_in=HOUR)])
            before = await world.look()
            late: list[Settled] = [
                Done(claim=stale),
                Failed(claim=stale, error="503", retry_in=NOTHING),
                Failed(claim=stale, error="410", retry_in=None),
                Parked(claim=stale, error="no reply"),
                PutBack(claim=stale),
            ]
            for outcome in late:
                assert await old.settle([outcome]) == [LOST]
            assert await old.renew([stale]) == set()
            assert await world.look() == before

        enter(body)

    def test_of_two_that_write_for_one_row_at_the_same_time_the_later_claim_is_accepted(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add(20)
            old, new = world.rows(), world.rows()
            stale = await old.claim(20)
            await world.lapse()
            held = await new.claim(20)
            verdicts = await asyncio.gather(
                old.settle([Done(claim=claim) for claim in reversed(stale)]),
                new.settle([Failed(claim=claim, error="503", retry_in=HOUR) for claim in held]),
            )
            assert verdicts == [[LOST] * 20, [ACCEPTED] * 20]
            assert await states(world) == ["waiting"] * 20

        enter(body)

    def test_an_outcome_that_is_written_twice_is_written_once(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add(4)
            rows = world.rows()
            a, b, c, d = await rows.claim(4)
            outcomes: list[Settled] = [
                Done(claim=a),
                Failed(claim=b, error="503", retry_in=HOUR),
                Parked(claim=c, error="no reply"),
                PutBack(claim=d, retry_in=HOUR),
            ]
            assert await rows.settle(outcomes) == [ACCEPTED] * 4
            before = await world.look()
            assert await rows.settle(outcomes) == [LOST] * 4
            assert await world.look() == before

        enter(body)

    def test_a_row_that_was_taken_away_meanwhile_accepts_no_outcome(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            await world.add(3)
            rows = world.rows()
            gone, *others = await rows.claim(3)
            await world.remove(gone.row)
            first, *rest = await rows.settle([Done(claim=claim) for claim in (gone, *others)])
            assert first in {LOST, Verdict.CHANGED}
            assert rest == [ACCEPTED, ACCEPTED]

        enter(body)

    def test_one_outcome_that_the_table_refuses_is_parked_and_the_others_hold(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            added = await world.add(9)
            await world.refuse_done(added[4])
            rows = world.rows()
            claims = {claim.row: claim for claim in await rows.claim(9)}
            verdicts = await rows.settle([Done(claim=claims[key]) for key in added])
            assert verdicts == [ACCEPTED] * 4 + [REFUSED] + [ACCEPTED] * 4
            assert await states(world) == ["done"] * 4 + ["dead"] + ["done"] * 4
            dead = (await world.look())[added[4]]
            assert dead.reason == "Refused"
            assert dead.error
            await world.lapse()
            assert await rows.claim(9) == []

        enter(body)

    def test_an_error_of_any_length_and_with_any_character_is_kept_as_far_as_it_can_be(self, enter: Enter) -> None:
        async def body(world: World) -> None:
            (key,) = await world.add()
            rows = world.rows()
            error = "HTTP 500: \x00 “ü” \U0001f389 \udcff" + "x" * 100_000
            assert await rows.settle([Failed(claim=await one(rows), error=error, retry_in=None)]) == [ACCEPTED]
            kept = (await world.look())[key].error
            assert kept.startswith("HTTP 500: ")
            assert "“ü” \U0001f389" in kept
            assert len(kept) <= 4000

        enter(body)
