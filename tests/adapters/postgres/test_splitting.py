"""However many outcomes of a batch a table refuses, the others are written, each once, and every verdict is in its place."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.adapters.postgres.failures import RowRefused
from soloist.adapters.postgres.splitting import settle_apart
from soloist.domain.claims import Claim, Done, Settled, Verdict
from soloist.domain.errors import TransientError


class Table:
    """Refuses a statement that has one of ``bad`` in it."""

    def __init__(self, bad: set[int], *, lost: set[int] = frozenset(), stubborn: bool = False) -> None:  # type: ignore[assignment]
        self.bad, self.lost, self.stubborn = bad, lost, stubborn
        self.statements = 0
        self.written: list[int] = []
        self.parked: list[tuple[int, str]] = []

    async def write(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        self.statements += 1
        fences = [outcome.claim.fence for outcome in outcomes]
        if self.bad & set(fences):
            raise RowRefused(f"not {min(self.bad & set(fences))}", sqlstate="23514")
        self.written += fences
        return [Verdict.LOST if fence in self.lost else Verdict.ACCEPTED for fence in fences]

    async def park(self, outcome: Settled, refused: RowRefused) -> Verdict:
        if self.stubborn:
            raise RowRefused("not even that", sqlstate="23514")
        self.parked.append((outcome.claim.fence, str(refused)))
        return Verdict.REFUSED

    def settle(self, count: int) -> list[Verdict]:
        claims = [Claim(row=(str(n),), fence=n, attempt=1, tries=1) for n in range(count)]
        return asyncio.run(settle_apart([Done(claim=claim) for claim in claims], self.write, self.park))


@given(st.integers(0, 40), st.sets(st.integers(0, 39)), st.sets(st.integers(0, 39)))
def test_each_is_written_or_parked_once_and_told_in_its_place(count: int, bad: set[int], lost: set[int]) -> None:
    table = Table(bad, lost=lost)
    verdicts = table.settle(count)
    right = {n: Verdict.REFUSED if n in bad else Verdict.LOST if n in lost else Verdict.ACCEPTED for n in range(count)}
    assert dict(enumerate(verdicts)) == right
    assert sorted(table.written) == sorted(set(range(count)) - bad)
    assert table.parked == [(n, f"not {n}") for n in sorted(bad & set(range(count)))]


def test_without_a_refusal_it_is_one_statement_and_with_one_few() -> None:
    for bad, most in ((set[int](), 1), ({317}, 2 * math.ceil(math.log2(500)) + 1)):
        table = Table(bad)
        table.settle(500)
        assert table.statements <= most


def test_nothing_to_write_is_no_statement() -> None:
    table = Table(set())
    assert table.settle(0) == []
    assert table.statements == 0


def test_a_row_that_cannot_even_be_parked_stays_claimed_and_is_told_by_name(caplog: pytest.LogCaptureFixture) -> None:
    table = Table({3}, stubborn=True)
    with caplog.at_level(logging.ERROR):
        assert table.settle(5) == [Verdict.ACCEPTED] * 3 + [Verdict.LOST] + [Verdict.ACCEPTED]
    assert "('3',)" in caplog.text
    assert "not even that" in caplog.text


def test_a_database_that_does_not_answer_ends_the_whole() -> None:
    class Silent(Table):
        async def write(self, outcomes: Sequence[Settled]) -> list[Verdict]:
            if len(outcomes) == 1:
                raise TransientError("no answer")
            return await super().write(outcomes)

    with pytest.raises(TransientError, match="no answer"):
        Silent({1}).settle(4)
