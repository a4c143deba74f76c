"""What a worker says of itself on its Pod, in virtual time: seldom, of late, and again where it could not be said."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from soloist.domain.deletion_cost import APART, cost_of, is_to_be_written
from soloist.domain.errors import PermanentError
from soloist.loops.deletion_costs import DeletionCosts
from tests.loops.virtual_time import LoopClock, run

Written = list[tuple[float, int]]


def told(in_hand: Callable[[float], int], seconds: float, *, refused_until: float = 0.0) -> Written:
    """When what was written, in so many seconds; ``in_hand`` is asked with the time."""
    written: Written = []

    async def write(cost: int) -> None:
        now = asyncio.get_running_loop().time()
        if now < refused_until:
            raise PermanentError("pods is forbidden")
        written.append((round(now, 3), cost))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        costs = DeletionCosts(lambda: in_hand(loop.time()), write, clock=LoopClock())
        task = asyncio.create_task(costs.run())
        await asyncio.sleep(seconds)
        assert not task.done()
        task.cancel()

    run(main())
    return written


def test_a_worker_with_more_in_hand_never_costs_less() -> None:
    costs = [cost_of(count) for count in range(5000)]
    assert costs[:9] == [0, 1, 2, 2, 3, 3, 3, 3, 4]
    assert costs == sorted(costs)


def test_what_is_on_the_pod_already_is_not_written_again() -> None:
    assert is_to_be_written(0, written=None, since=APART)
    assert not is_to_be_written(2, written=2, since=1e9)
    assert not is_to_be_written(2, written=1, since=APART - 0.1)


def test_an_idle_worker_says_so_once() -> None:
    """A container before it in the same Pod may have left another cost there."""
    assert told(lambda _: 0, 3600) == [(0.0, 0)]


def test_a_change_is_told_at_once_and_the_next_one_only_some_time_after_it() -> None:
    written = told(lambda now: 0 if now < 60 else 40 if now < 62 else 3, 120)
    assert written == [(0.0, 0), (60.0, 6), (60.0 + APART, 2)]


def test_a_worker_whose_load_changes_each_second_writes_no_more_often_than_that() -> None:
    written = told(lambda now: int(now) % 64, 600)
    assert 600 / APART / 2 < len(written) <= 600 / APART + 1
    assert all(later - sooner >= APART for (sooner, _), (later, _) in itertools.pairwise(written))


def test_a_cost_that_was_refused_is_told_once_and_written_when_it_may_be(caplog: pytest.LogCaptureFixture) -> None:
    assert told(lambda _: 1, 120, refused_until=50) == [(60.0, 1)]
    assert [record.message for record in caplog.records] == ["deletion cost not written"]
