"""Claims of rows that are to be given up, by a database that answers as it may when others are at the same rows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from soloist.adapters.postgres.burials import handed_out, unheard
from soloist.domain.claims import Claim, Failed, PutBack, Settled, Verdict


class Queue:
    """``answers``: what each claim brings, one after the other; a row below 100 is used up."""

    def __init__(self, *answers: Sequence[int]) -> None:
        self.answers = [*answers]
        self.asked: list[tuple[int, bool]] = []
        self.settled: list[tuple[str, int]] = []
        self.seconds = 0.0

    async def ask(self, most: int, used_up: bool) -> tuple[Sequence[Claim], bool]:
        self.asked.append((most, used_up))
        self.seconds += 0.01
        if not self.answers:
            return [], False
        return [Claim(row=(str(n),), fence=n, attempt=1, tries=1) for n in self.answers.pop(0)], True

    async def settle(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        self.settled += [(type(outcome).__name__, outcome.claim.fence) for outcome in outcomes]
        assert all(not isinstance(outcome, PutBack) or outcome.retry_in.total_seconds() == 0 for outcome in outcomes)
        return [Verdict.ACCEPTED] * len(outcomes)

    def given_up(self, claim: Claim) -> Settled | None:
        return Failed(claim=claim, error="used up", retry_in=None) if claim.fence < 100 else None

    def hand_out(self, most: int) -> list[int]:
        claims = asyncio.run(
            handed_out(
                self.ask,
                most,
                given_up=self.given_up,
                settle=self.settle,
                buried=unheard,
                boottime=lambda: self.seconds,
            )
        )
        return [claim.fence for claim in claims]


def test_a_claim_that_brings_nothing_else_is_followed_by_claims_of_nothing_else_until_they_come_back_short() -> None:
    queue = Queue([1], range(2, 10), range(10, 70), [101])
    assert queue.hand_out(1) == [101]
    assert queue.asked == [(1, False), (8, True), (64, True), (1, False)]
    assert {kind for kind, _ in queue.settled} == {"Failed"}


def test_one_beside_a_row_that_can_be_worked_is_no_wall() -> None:
    queue = Queue([1, 2, 101], [102])
    assert queue.hand_out(3) == [101, 102]
    assert queue.asked[:2] == [(3, False), (2, False)]


def test_a_row_that_was_given_another_try_between_the_look_and_the_claim_is_handed_out_where_there_is_room() -> None:
    queue = Queue([1], [2, 101, 3])
    assert queue.hand_out(1) == [101]
    assert queue.settled == [("Failed", 1), ("Failed", 2), ("Failed", 3)]


def test_and_beyond_what_was_asked_for_it_goes_back_as_it_was() -> None:
    queue = Queue([1], [101, 2, 102])
    assert queue.hand_out(1) == [101]
    assert queue.settled == [("Failed", 1), ("Failed", 2), ("PutBack", 102)]
