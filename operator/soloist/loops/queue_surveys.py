"""What the databases say of the queues: each is asked by itself, again and again, and none waits for another.

All queues of one database are one question. A database that does not answer holds up nothing but the answers about its own
queues; a queue whose Secret cannot be read is answered for by that alone, as is one on a good table whose deliveries lack a
Secret of theirs. An answer is about one object with one spec, so an edit is asked about anew, and at once.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from soloist.domain.errors import SoloistError, TransientError
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.queue_status import Learned, WatchedQueue
from soloist.domain.queue_validity import Unreachable, Unread, is_good
from soloist.loops.queue_care_ports import CareReport, QueueDatabase, QueueDatabases, QueueKeys
from soloist.ports import Clock

_Which = tuple[str, int]


class Surveys:
    """``every``: seconds between two looks into a database. ``done`` is called when there is an answer."""

    def __init__(
        self,
        databases: QueueDatabases,
        keys: QueueKeys,
        *,
        clock: Clock,
        report: CareReport,
        every: float,
        done: Callable[[], None],
    ) -> None:
        self._databases, self._keys, self._clock, self._report = databases, keys, clock, report
        self._every, self._done = every, done
        self._learned: dict[_Which, Learned] = {}
        self._missing: dict[_Which, str] = {}
        self._asking: dict[QueueDatabase, asyncio.Task[None]] = {}
        self._asked: dict[QueueDatabase, tuple[float, frozenset[_Which]]] = {}

    def learned(self, queue: WatchedQueue) -> Learned | None:
        """The latest answer; None before the first."""
        known, missing = self._learned.get(queue.which), self._missing.get(queue.which)
        return (
            replace(known, answer=Unread(missing)) if missing and known is not None and is_good(known.answer) else known
        )

    async def look(self, queues: Sequence[WatchedQueue]) -> None:
        """Ask whoever is to be asked by now; these are all queues there are."""
        began = self._clock.boottime()
        there = {queue.which for queue in queues}
        self._learned = {which: known for which, known in self._learned.items() if which in there}
        self._missing = {which: missing for which, missing in self._missing.items() if which in there}
        found = await asyncio.gather(*(self._find(queue) for queue in queues))
        groups: dict[QueueDatabase, list[WatchedQueue]] = defaultdict(list)
        for queue, database in zip(queues, found, strict=True):
            if database is not None:
                groups[database].append(queue)
        used = groups.keys() | self._asking.keys()
        self._asked = {database: asked for database, asked in self._asked.items() if database in used}
        await self._databases.keep(used)
        for database, those in groups.items():
            if database not in self._asking and self._is_time(database, those, began):
                self._asked[database] = began, frozenset(queue.which for queue in those)
                self._asking[database] = asyncio.create_task(self._ask(database, those))

    async def close(self) -> None:
        """Nobody is asked any more."""
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await self._databases.keep(())

    def _is_time(self, database: QueueDatabase, queues: Iterable[WatchedQueue], now: float) -> bool:
        at, about = self._asked.get(database, (float("-inf"), frozenset[_Which]()))
        return now - at >= self._every or any(queue.which not in about for queue in queues)

    async def _find(self, queue: WatchedQueue) -> QueueDatabase | None:
        if not isinstance(queue.spec, QueueSpec):
            return None
        missing = await self._keys.missing(queue.name, queue.spec)
        if missing is not None:
            self._missing[queue.which] = missing
        try:
            return await self._databases.find(queue.name, queue.spec.database)
        except SoloistError as error:
            # The API server is away: that says nothing of the database.
            if not (isinstance(error, TransientError) and queue.which in self._learned):
                kind = Unreachable if isinstance(error, TransientError) else Unread
                self._take(queue, Learned(answer=kind(str(error))))
            return None

    async def _ask(self, database: QueueDatabase, queues: Sequence[WatchedQueue]) -> None:
        specs = {queue.name: queue.spec for queue in queues if isinstance(queue.spec, QueueSpec)}
        try:
            answers = await database.learn(specs)
            for queue in queues:
                self._take(queue, answers[queue.name])
        except Exception as error:  # noqa: BLE001 - one database's fault must not stop the others
            self._report.failed("queue survey", error)
        finally:
            del self._asking[database]
            self._done()

    def _take(self, queue: WatchedQueue, learned: Learned) -> None:
        """Where a table is does not change because its database is away."""
        before = self._learned.get(queue.which)
        if not learned.installation and before is not None:
            learned = replace(learned, installation=before.installation)
        self._learned[queue.which] = learned
