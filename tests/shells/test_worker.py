"""When a worker says that it is well, by what its parts are at."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from soloist.adapters.clock import SystemClock
from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.domain.queue_name import FoundQueues, QueueName
from soloist.domain.queue_spec import DatabaseRef
from soloist.shells.queue_work import HUNG, MOST_TOLD, QueueWork
from soloist.shells.worker import Worker
from soloist.shells.worker_settings import load
from tests.loops.queue_world import queue_spec


class Queues:
    """In place of the queues: when each loop last went round."""

    def __init__(self, **progressed: float) -> None:
        self.units: dict[QueueName, Any] = {
            QueueName("shop", name): SimpleNamespace(progressed=moment, trouble="", spec=queue_spec(lease=60.0))
            for name, moment in progressed.items()
        }

    def follow(self, found: object) -> None: ...


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    (tmp_path / "none.yaml").write_text("")
    return Worker(load({"files": (str(tmp_path),)}, {}))


@pytest.fixture
def work() -> QueueWork:
    async def nothing(_: object, __: KeyRef | DatabaseRef) -> Any:
        raise AssertionError("no queue is opened here")

    registry = CollectorRegistry()
    return QueueWork(load({}, {}), SystemClock(), AsyncExitStack(), registry, read_key=nothing, read_url=nothing)


def test_a_claim_loop_that_has_not_gone_round_for_a_lease_is_named(work: QueueWork) -> None:
    now = work._clock.boottime()
    work._queues = Queues(fine=now, slow=now - 50, hung=now - 61)  # type: ignore[assignment]
    well, sentence = work.loops_turn()
    assert not well
    assert "shop/hung for 61 s" in sentence
    assert "slow" not in sentence
    work._queues = Queues(fine=now, slow=now - 50)  # type: ignore[assignment]
    assert work.loops_turn() == (True, "2 queues go round")
    assert HUNG < 60


def test_whoever_has_heard_nothing_of_workqueues_for_long_is_unwell(worker: Worker) -> None:
    assert worker._queues_are_followed()[0], "it has only begun"
    worker._born -= 301
    worker._heard = lambda: float("-inf")
    assert not worker._queues_are_followed()[0]
    worker._heard = worker._clock.boottime
    assert worker._queues_are_followed()[0]


def test_it_is_ready_when_the_first_list_is_through_be_it_empty(work: QueueWork) -> None:
    work._queues = Queues()  # type: ignore[assignment]
    assert work.can_work() == work.are_known() == (False, "the first list is not through")
    work.follow(FoundQueues())
    assert work.can_work() == work.are_known() == (True, "there are no queues to work")


def test_it_says_of_each_queue_what_is_in_its_way_and_is_ready_while_it_can_work_one(work: QueueWork) -> None:
    work._found = True
    work._queues = Queues(a=0.0, b=0.0, c=0.0)  # type: ignore[assignment]
    units = {name.name: unit for name, unit in work._queues.units.items()}
    assert work.can_work() == (True, "3 of 3 queues are worked")
    units["c"].trouble = "Secret shop/db does not exist."
    units["a"].trouble = "no such table."
    told = "1 of 3 queues are worked; shop/a: no such table.; shop/c: Secret shop/db does not exist."
    assert work.can_work() == (True, told)
    units["b"].trouble = "it is being opened"
    well, sentence = work.can_work()
    assert (well, sentence[:8]) == (False, "0 of 3 q")
    assert work.are_known() == (True, sentence), "whoever has more to do is ready"


def test_the_page_names_so_many_queues_and_counts_the_others(work: QueueWork) -> None:
    work._found = True
    work._queues = Queues(**{f"q{number}": 0.0 for number in range(MOST_TOLD + 5)})  # type: ignore[assignment]
    for unit in work._queues.units.values():
        unit.trouble = "gone"  # type: ignore[misc]
    sentence = work.can_work()[1]
    assert sentence.count("gone") == MOST_TOLD
    assert sentence.endswith("; and 5 more")


@pytest.mark.parametrize(("error", "alive"), [(PermanentError("forbidden"), True), (TransientError("away"), False)])
def test_whoever_may_not_see_workqueues_says_so_and_is_not_restarted_for_it(
    worker: Worker, work: QueueWork, error: SoloistError, alive: bool
) -> None:
    worker._work = work
    worker._untold = lambda: error
    work._queues = Queues()  # type: ignore[assignment]
    assert worker._works() == (False, f"the first list is not through; WorkQueues are not followed: {error}")
    work.follow(FoundQueues())
    assert worker._works() == (False, f"there are no queues to work; WorkQueues are not followed: {error}")
    work._queues = Queues(a=0.0)  # type: ignore[assignment]
    assert worker._works() == (True, f"1 of 1 queues are worked; WorkQueues are not followed: {error}")
    worker._born -= 301
    worker._heard = lambda: float("-inf")
    assert worker._queues_are_followed()[0] is alive
