"""A table of failures as tests: its rows are played at the same time, and then many tests look at each.

The rows of the gate are one set, and those that take minutes another, which is played only where one of them is asked for.
A module has a fixture ``table`` of its own that makes them, a fixture ``row`` that is ``table[request.param]``, and

    ALL, SECOND, LONGER = picked(OF_THE_GATE, IN_FULL)

A row that fails fails the tests of that row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Generic, Protocol, TypeVar

import pytest


class Playable(Protocol):
    """Has a part that takes its time, and is looked at afterwards."""

    def run(self) -> None: ...


S = TypeVar("S")
R = TypeVar("R", bound=Playable)


class Table(ExitStack, Generic[S, R]):
    """``make``: a row of its name, of what its set has under it, and of this stack, which ends what the row began."""

    def __init__(self, *sets: Mapping[str, S], make: Callable[[str, S, ExitStack], R]) -> None:
        super().__init__()
        self._sets, self._make = sets, make
        self._played: dict[str, Future[R]] = {}

    def __getitem__(self, name: str) -> R:
        """Once it is over, with all of its set."""
        if name not in self._played:
            chosen = next(each for each in self._sets if name in each)
            made = {each: self._make(each, of, self) for each, of in chosen.items()}
            with ThreadPoolExecutor(len(made)) as pool:
                self._played |= {each: pool.submit(_over, row) for each, row in made.items()}
        return self._played[name].result()


def _over(row: R) -> R:
    row.run()
    return row


def picked(of_the_gate: Iterable[str], in_full: Iterable[str]) -> tuple[pytest.MarkDecorator, ...]:
    """Marks: for every row, for the first, which is the short one, and for all but that."""
    first, *longer = of_the_gate
    others = [*longer, *(pytest.param(name, marks=pytest.mark.long) for name in in_full)]
    return tuple(pytest.mark.parametrize("row", rows, indirect=True) for rows in ([first, *others], [first], others))
