"""Whatever fails under real workers, on each kind of table: nothing is lost, each row is accepted once, and a repeat is told as one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from statistics import median

import pytest

from tests.postgres.server import Postgres
from tests.queue.faults import FAULTS, scene_of
from tests.queue.kinds import KINDS
from tests.queue.workers import Crew

pytestmark = pytest.mark.slow
# Every fault, every kind of table, four workers and one, though not each with each: that takes half an hour, and is long.
SOME = [
    ("killed", "managed", 4, 900, 3),
    ("killed", "sidecar", 1, 600, 3),
    ("killed", "inline", 4, 900, 3),
    ("frozen", "sidecar", 4, 900, 1),
    ("frozen", "inline", 1, 300, 1),
    ("cut", "managed", 1, 400, 2),
    ("cut", "sidecar", 4, 400, 2),
    ("restarted", "managed", 4, 400, 2),
    ("restarted", "inline", 1, 300, 1),
    ("pooler", "managed", 1, 300, 1),
    ("pooler", "sidecar", 4, 300, 1),
]
TIMES = {"killed": 10, "frozen": 2, "cut": 3, "restarted": 3, "pooler": 3}
ALL = [
    pytest.param(fault, kind, workers, 10_000, TIMES[fault], marks=pytest.mark.long)
    for fault in FAULTS
    for kind in KINDS
    for workers in (4, 1)
]


HELD = [("frozen", "managed"), ("cut", "sidecar"), ("restarted", "inline"), ("pooler", "managed")]
ALL_HELD = [pytest.param(fault, kind, marks=pytest.mark.long) for fault in FAULTS for kind in KINDS]


@pytest.mark.parametrize(("fault", "kind", "workers", "rows", "times"), [*SOME, *ALL])
def test_whatever_fails_no_row_is_lost_and_each_is_accepted_once(
    crew: Crew, fresh_postgres: Callable[..., Postgres], fault: str, kind: str, workers: int, rows: int, times: int
) -> None:
    slots = 32 if rows < 10_000 else 64
    with ExitStack() as stack:
        trouble = FAULTS[fault](crew, fresh_postgres)
        trouble.enter(stack)
        scene = scene_of(crew, kind, trouble, workers=workers, slots=slots)
        scene.table.add(rows)
        for _ in range(times):
            scene.table.goes_on()
            trouble.strike(scene)
        scene.table.until_over(timeout=600)
        trouble.proof(scene)
        crew.rest()
    found = scene.table.audit(rows, in_order=trouble.in_order)
    again, late = sum(len(requests) - 1 for requests in found.values()), crew.late()
    print(f"{again} of {rows} came again; {len(late)} claims taken over", end="")
    print(f", {late[0]:.3f} to {late[-1]:.3f} s after their leases, {median(late):.3f} in the middle" if late else "")
    assert again <= times * 4 * slots, "only what was in hand when something failed"


@pytest.mark.parametrize(("fault", "kind"), [*HELD, *ALL_HELD])
def test_whatever_fails_with_hold_each_row_is_sent_once_at_the_most_and_those_that_are_parked_and_done_are_all(
    crew: Crew, fresh_postgres: Callable[..., Postgres], fault: str, kind: str
) -> None:
    rows = 300
    with ExitStack() as stack:
        trouble = FAULTS[fault](crew, fresh_postgres)
        trouble.enter(stack)
        scene = scene_of(crew, kind, trouble, workers=4, slots=32, afterCrash="Hold")
        scene.table.add(rows)
        scene.table.goes_on()
        trouble.strike(scene)
        scene.table.until_over(timeout=600)
        crew.rest()
        found, letters = scene.table.received(), scene.table.letters()
        print(f"{len(letters)} of {rows} were parked")
        assert {len(requests) for requests in found.values()} == {1}, "each at most once"
        assert {reason for reason, _ in letters.values()} <= {"Interrupted"}
        assert found.keys() | letters.keys() == set(range(1, rows + 1))
        assert scene.table.accepted() + len(letters) == rows, "parked and done are all"
        assert letters if fault in ("killed", "frozen") else len(letters) <= 64
