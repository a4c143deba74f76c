"""How deep a queue is, for whoever asks: measured when it is asked for, by any replica, and for all that ask at once.

A queue is measured once at a time and an answer is good for some seconds, so however many ask, its database hears of it no
oftener than that. Whoever gives up waiting ends nothing for the others. Databases that nobody has asked about for a while are
let go.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from soloist.domain.depth import Depth
from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.queue_status import Learned
from soloist.domain.queue_validity import Unreachable, validity
from soloist.loops.election_ports import Clocks
from soloist.loops.queue_care_ports import QueueDatabase, QueueDatabases

GOOD_SECONDS = 5.0
IDLE_SECONDS = 300.0

Measured = tuple[datetime, Depth]


class ReadQueue(Protocol):
    """One WorkQueue's spec; ``SoloistError`` with a sentence where there is none that can be used."""

    def __call__(self, namespace: str, name: str, /) -> Awaitable[QueueSpec]: ...


@dataclass(slots=True)
class _Asked:
    """What is known of one queue: since ``at`` (CLOCK_BOOTTIME) the task's answer, from ``database``."""

    database: QueueDatabase | None
    at: float = float("inf")
    task: asyncio.Task[Measured] = field(init=False)


class DepthsOnDemand:
    """``namespaces``: those that are served; none at all means every one."""

    def __init__(
        self, read: ReadQueue, databases: QueueDatabases, *, clock: Clocks, namespaces: Sequence[str] = ()
    ) -> None:
        self._read, self._databases, self._clock, self._namespaces = read, databases, clock, namespaces
        self._asked: dict[QueueName, _Asked] = {}

    async def measure(self, queue: QueueName) -> Measured:
        """When, and how deep. ``PermanentError`` for one that cannot be measured, ``TransientError`` for one that cannot now."""
        if self._namespaces and queue.namespace not in self._namespaces:
            raise PermanentError(f"Queues in {queue.namespace} are not served: ask about one in --namespace.")
        now = self._clock.boottime()
        asked = self._asked.get(queue)
        if asked is None or now - asked.at >= GOOD_SECONDS:
            asked = self._asked[queue] = self._begin(queue)
            await self._forget(now)
        return await asyncio.shield(asked.task)

    async def close(self) -> None:
        """Nothing is measured any more."""
        tasks = [asked.task for asked in self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._databases.keep(())

    def _begin(self, queue: QueueName) -> _Asked:
        before = self._asked.get(queue)
        # The database that it was in is not let go meanwhile.
        asked = _Asked(None if before is None else before.database)

        def done(task: asyncio.Task[Measured]) -> None:
            asked.at = self._clock.boottime()
            if not task.cancelled():
                task.exception()  # whoever asked has it; by now nobody may be left who did

        asked.task = asyncio.create_task(self._measure(queue, asked))
        asked.task.add_done_callback(done)
        return asked

    async def _measure(self, queue: QueueName, asked: _Asked) -> Measured:
        spec = await self._read(queue.namespace, queue.name)
        asked.database = database = await self._databases.find(queue, spec.database)
        learned = (await database.learn({queue: spec}))[queue]
        if learned.depth is None:
            raise _unmeasured(queue, spec, learned)
        return self._clock.now(), learned.depth

    async def _forget(self, now: float) -> None:
        self._asked = {queue: asked for queue, asked in self._asked.items() if now - asked.at < IDLE_SECONDS}
        await self._databases.keep({asked.database for asked in self._asked.values() if asked.database is not None})


def _unmeasured(queue: QueueName, spec: QueueSpec, learned: Learned) -> SoloistError:
    sentence = f"WorkQueue {queue} cannot be measured: {validity(spec, learned.answer)[3]}"
    return TransientError(sentence) if isinstance(learned.answer, Unreachable) else PermanentError(sentence)
