"""The leader looks after the WorkQueues: follows them, has their databases asked, and writes down how each stands.

Only the leader does, and it asks the term before each write; a write also names the resourceVersion that it was decided on,
so of two who think that they lead at most one is heard. Nothing here is waited for by what launches jobs, and no fault here
ends it: not a kind that the API server does not know, nor a database that hangs, nor an object that nobody foresaw.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

from soloist.domain.depth import Depth
from soloist.domain.errors import SoloistError
from soloist.domain.queue_name import FoundQueues
from soloist.domain.queue_status import (
    COUNTS_SECONDS,
    Learned,
    WatchedQueue,
    conditions_of,
    status_patch,
    turned_bad,
    watched_queue,
)
from soloist.domain.queue_validity import Condition, Standing
from soloist.domain.term import Term
from soloist.loops.queue_care_ports import CareReport, QueueDatabases, QueueKeys, QueueObjects, QueueStatuses
from soloist.loops.queue_surveys import Surveys
from soloist.ports import Clock, Raw, Written

REST_SECONDS = 30.0
"""After a fault that nobody foresaw."""


class QueueWatching:
    """``term`` gives the term as of now, None when none is held; ``every``: seconds between two looks into a database."""

    def __init__(
        self,
        *,
        objects: QueueObjects,
        databases: QueueDatabases,
        keys: QueueKeys,
        statuses: QueueStatuses,
        report: CareReport,
        clock: Clock,
        term: Callable[[], Term | None],
        every: float,
    ) -> None:
        self._objects, self._statuses, self._report = objects, statuses, report
        self._clock, self._term, self._every = clock, term, every
        self._some = asyncio.Event()
        self._surveys = Surveys(databases, keys, clock=clock, report=report, every=every, done=self._some.set)
        self._read: dict[tuple[str, str], WatchedQueue | None] = {}
        self._written: dict[str, tuple[float, str]] = {}

    async def run(self) -> None:
        """For ever, from the beginning of a term on."""
        following = asyncio.create_task(self._follow())
        try:
            while True:
                await self._turn()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await self._surveys.close()

    async def _follow(self) -> None:
        while True:
            try:
                await self._objects.run(self._changed)
            except Exception as error:  # noqa: BLE001 - what launches jobs must go on
                self._report.failed("queues", error)
                await asyncio.sleep(REST_SECONDS)

    def _changed(self, _: FoundQueues) -> None:
        self._some.set()

    async def _turn(self) -> None:
        self._some.clear()
        try:
            await self.step()
        except Exception as error:  # noqa: BLE001 - what launches jobs must go on
            self._report.failed("queues", error)
            await asyncio.sleep(REST_SECONDS)
        try:
            async with asyncio.timeout(self._every):
                await self._some.wait()
        except TimeoutError:
            return

    async def step(self) -> None:
        """Ask what is to be asked, and write what is to be written, by what is known now."""
        queues = self._queues()
        await self._surveys.look(queues)
        known = {queue.which: self._surveys.learned(queue) for queue in queues}
        await self._tell(queues, known)

    def _queues(self) -> list[WatchedQueue]:
        """Each object is read once, whatever else changes."""
        read: dict[tuple[str, str], WatchedQueue | None] = {}
        for obj in self._objects.objects:
            which = _which(obj)
            read[which] = self._read[which] if which in self._read else watched_queue(obj)
        self._read = read
        return [queue for queue in read.values() if queue is not None]

    async def _tell(self, queues: list[WatchedQueue], known: dict[tuple[str, int], Learned | None]) -> None:
        there = {queue.uid for queue in queues}
        self._written = {uid: written for uid, written in self._written.items() if uid in there}
        conditions = conditions_of([(queue, known[queue.which]) for queue in queues])
        standing = []
        for queue in queues:
            condition, learned = conditions.get(queue.name), known[queue.which]
            if condition is not None:
                # The rows of a table that is another queue's are counted there.
                mine = learned if condition[2] != Standing.ALREADY_SERVED else None
                standing.append((queue, condition, mine.depth if mine is not None else None))
        self._report.stand([(queue.name, condition, depth) for queue, condition, depth in standing])
        await asyncio.gather(*(self._write(*each) for each in standing))

    async def _write(self, queue: WatchedQueue, condition: Condition, depth: Depth | None) -> None:
        boot, now = self._clock.boottime(), self._now()
        at, replaced = self._written.get(queue.uid, (float("-inf"), ""))
        at_leisure = boot - at >= COUNTS_SECONDS
        if now is None or (replaced == queue.resource_version and not at_leisure):
            return  # not ours to write; or written, and the watch has not told of it yet
        patch = status_patch(queue, condition, depth, now=now, at_leisure=at_leisure)
        if patch is None:
            return
        try:
            outcome = await self._statuses.write(queue, patch)
        except SoloistError as error:
            self._report.failed("queue status", error)
            return
        self._written[queue.uid] = boot, queue.resource_version
        if isinstance(outcome, Written):
            self._report.wrote("queue status")
            if turned_bad(queue, condition):
                self._report.turned_bad(queue, condition)

    def _now(self) -> datetime | None:
        """What the term clock shows; None where there is no term that may still be believed."""
        term, boot = self._term(), self._clock.boottime()
        return term.now(boot) if term is not None and term.trusted(boot) else None


def _which(obj: Raw) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata["uid"], metadata["resourceVersion"]
