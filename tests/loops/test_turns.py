"""A job with much to do gets its turns, and one that would go on for ever is bounded and told of."""

from __future__ import annotations

import asyncio

import pytest

from soloist.loops.cache import Key
from soloist.loops.turns import BACKLOG, LONGEST_WAIT, MOST_STEPS, Turns
from tests.loops.test_scheduler import TERM, Notes
from tests.loops.virtual_time import LoopClock, run

BUSY: Key = ("default", "busy")
MINUTE = 60.0


def steps_in(seconds: float, to_do: int) -> tuple[int, Notes]:
    """How many of so many steps that one job asks for were taken by then, and what was reported."""

    async def play() -> tuple[int, Notes]:
        taken, notes = 0, Notes()

        async def step(key: Key) -> bool:
            nonlocal taken
            await asyncio.sleep(0)
            taken += taken < to_do
            return taken < to_do

        async def recover(*_: object) -> None:
            raise AssertionError("no step has failed")

        turns = Turns(report=notes, clock=LoopClock(), term=lambda: TERM, step=step, recover=recover)
        turns.open = True
        turns.wake(BUSY)
        waking = asyncio.create_task(turns.run())
        await asyncio.sleep(seconds)
        waking.cancel()
        return taken, notes

    return run(play())


@pytest.mark.parametrize("to_do", [MOST_STEPS, MOST_STEPS + 1, 5 * MOST_STEPS])
def test_a_backlog_of_many_steps_is_worked_off_and_is_no_fault(to_do: int) -> None:
    taken, notes = steps_in(MINUTE, to_do)
    assert taken == to_do
    assert not notes.failures


def test_what_never_ends_is_told_and_waits_long() -> None:
    taken, notes = steps_in(MINUTE, 10**9)
    assert f"asked for {BACKLOG * MOST_STEPS} steps in a row" in str(notes.failures[0])
    assert len(notes.failures) <= MINUTE / LONGEST_WAIT
    assert taken <= (BACKLOG + MINUTE / LONGEST_WAIT) * MOST_STEPS
