"""Depths that are measured when somebody asks: once for all who ask at once, and no oftener than every few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from soloist.domain.depth import Depth
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import DatabaseRef, QueueSpec
from soloist.domain.queue_status import Learned
from soloist.domain.queue_validity import Schema, Unfit, Unreachable
from soloist.loops.depths_on_demand import GOOD_SECONDS, IDLE_SECONDS, DepthsOnDemand
from tests.loops.virtual_time import LoopClock, run

START = datetime(2026, 10, 15, 12, 0, tzinfo=UTC)
EMAILS, MAILS = QueueName("billing", "emails"), QueueName("billing", "mails")


class Clock(LoopClock):
    def now(self) -> datetime:
        return START + timedelta(seconds=self.boottime())


class Place:
    """A database that takes a second to answer."""

    def __init__(self) -> None:
        self.asked: list[QueueName] = []
        self.answer: Schema | Unfit | Unreachable = Schema(found=1, needed=1)

    async def learn(self, queues: Mapping[QueueName, QueueSpec]) -> dict[QueueName, Learned]:
        self.asked += queues
        number = len(self.asked)
        await asyncio.sleep(1)
        good = isinstance(self.answer, Schema)
        depth = Depth(ready=number, scheduled=0, in_flight=0, dead=0, oldest_due=None, whole=True)
        return {queue: Learned(answer=self.answer, depth=depth if good else None) for queue in queues}


class Places:
    """One database for each queue."""

    def __init__(self) -> None:
        self.of = {EMAILS: Place(), MAILS: Place()}
        self.kept: Collection[object] = ()

    async def find(self, name: QueueName, ref: DatabaseRef) -> Place:
        return self.of[name]

    async def keep(self, used: Collection[object]) -> None:
        self.kept = used


async def read(namespace: str, name: str) -> QueueSpec:
    if name == "gone":
        raise PermanentError(f"WorkQueue {namespace}/{name} does not exist: create it, or name another one.")
    found = parse_queue({"database": {"secretName": "db", "key": "uri"}, "deliver": {"external": {}}})
    assert isinstance(found, QueueSpec)
    return found


def test_all_who_ask_at_once_share_one_measurement_and_it_is_good_for_a_while() -> None:
    async def body() -> None:
        places = Places()
        depths = DepthsOnDemand(read, places, clock=Clock())
        found = await asyncio.gather(*(depths.measure(EMAILS) for _ in range(50)))
        assert {(at, depth.ready) for at, depth in found} == {(START + timedelta(seconds=1), 1)}
        await asyncio.sleep(GOOD_SECONDS - 0.1)
        assert (await depths.measure(EMAILS))[1].ready == 1
        await asyncio.sleep(0.2)
        assert (await depths.measure(EMAILS))[1].ready == 2
        assert places.of[EMAILS].asked == [EMAILS, EMAILS]
        assert places.of[MAILS].asked == []

    run(body())


def test_whoever_gives_up_ends_nothing_for_the_others() -> None:
    async def body() -> None:
        places = Places()
        depths = DepthsOnDemand(read, places, clock=Clock())
        waiting = asyncio.create_task(depths.measure(EMAILS))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await depths.measure(EMAILS)
        assert (await waiting)[1].ready == 1

    run(body())


def test_what_cannot_be_measured_is_said_and_is_not_asked_about_all_the_time_either() -> None:
    async def body() -> None:
        places = Places()
        depths = DepthsOnDemand(read, places, clock=Clock(), namespaces=("billing",))
        places.of[EMAILS].answer = Unreachable("the server cannot be reached")
        for _ in range(2):
            with pytest.raises(TransientError, match=r"billing/emails cannot be measured: .*cannot be reached"):
                await depths.measure(EMAILS)
        assert len(places.of[EMAILS].asked) == 1
        places.of[MAILS].answer = Unfit("spec.table.name: there is no such table")
        with pytest.raises(PermanentError, match="no such table"):
            await depths.measure(MAILS)
        with pytest.raises(PermanentError, match="does not exist"):
            await depths.measure(QueueName("billing", "gone"))
        with pytest.raises(PermanentError, match="Queues in mail are not served"):
            await depths.measure(QueueName("mail", "emails"))
        places.of[EMAILS].answer = Schema(found=1, needed=1)
        await asyncio.sleep(GOOD_SECONDS)
        assert (await depths.measure(EMAILS))[1].ready == 2

    run(body())


def test_a_database_is_kept_while_it_is_asked_about_and_let_go_after() -> None:
    async def body() -> None:
        places = Places()
        depths = DepthsOnDemand(read, places, clock=Clock())
        await depths.measure(EMAILS)
        for _ in range(3):
            await asyncio.sleep(GOOD_SECONDS)
            asked = asyncio.create_task(depths.measure(EMAILS))
            await depths.measure(MAILS)
            assert places.of[EMAILS] in places.kept, "also while it is measured anew"
            await asked
        await asyncio.sleep(IDLE_SECONDS)
        await depths.measure(MAILS)
        assert places.of[EMAILS] not in places.kept
        await depths.close()
        assert places.kept == ()

    run(body())
