"""Writes to objects in rows: all that wait at the same moment are one statement, and one transaction.

Why that is right: each write is conditional by itself, so whether others come along changes nothing for it; no two of a
batch are of one name. What the database refuses (a value that no row can hold) is written again in halves until it stands
alone, and is refused alone. Where the connection breaks, nobody knows, and each is told that it may have happened.

Two batches at a time: while the server is at one, the answers to the other are thought about. The first to ask goes at
once, so one write alone waits for nobody.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from soloist.adapters.postgres.database import Database, Row
from soloist.adapters.postgres.failures import RowRefused
from soloist.adapters.postgres.row_texts import json_text
from soloist.adapters.postgres.statements import statement
from soloist.domain.errors import PermanentError, SoloistError, TransientError

MOST = 500
AT_ONCE = 2
Name = tuple[str, str, str]


@dataclass(slots=True)
class _Waiting:
    name: Name
    write: dict[str, Any]
    answer: "asyncio.Future[tuple[str, Row]]"


class ObjectWrites:
    """``writer`` names this process to itself: it need not be told of its own writes."""

    def __init__(self, database: Database, *, shard: str, writer: str) -> None:
        self._database, self._shard, self._writer = database, shard, writer
        self._waiting: deque[_Waiting] = deque()
        self._busy: set[Name] = set()
        self._sending: set[asyncio.Task[None]] = set()

    async def write(self, op: str, kind: str, namespace: str, name: str, **more: Any) -> tuple[str, Row]:
        """One write, in the words of ``soloist.write_objects``: what came of it, and the object as it stands."""
        write = {"op": op, "kind": kind, "namespace": namespace, "name": name, **more}
        waiting = _Waiting((kind, namespace, name), write, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if len(self._sending) < AT_ONCE:
            task = asyncio.create_task(self._send_all())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return await waiting.answer

    async def _send_all(self) -> None:
        await asyncio.sleep(0)  # whoever is about to ask comes along
        while batch := self._batch():
            try:
                await self._send(batch)
            finally:
                for each in batch:
                    self._busy.discard(each.name)
                    each.answer.cancel()  # does nothing to one that is answered

    def _batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        later: list[_Waiting] = []
        while self._waiting and len(batch) < MOST:
            each = self._waiting.popleft()
            if each.answer.done():
                continue  # nobody waits for it any more, and it was not sent
            if each.name in self._busy:
                later.append(each)
                continue
            self._busy.add(each.name)
            batch.append(each)
        self._waiting.extendleft(reversed(later))
        return batch

    async def _send(self, batch: Sequence[_Waiting]) -> None:
        writes = [{**each.write, "n": number} for number, each in enumerate(batch)]
        values = {"shard": self._shard, "writer": self._writer, "writes": json_text(writes)}
        try:
            rows = await self._database.fetch(statement("write_objects"), values)
        except RowRefused as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            half = len(batch) // 2
            await self._send(batch[:half])
            await self._send(batch[half:])
            return
        except SoloistError as error:
            _fail(batch, error)
            return
        for number, outcome, *row in rows:
            answer = batch[number].answer
            if not answer.done():
                answer.set_result((outcome, tuple(row)))


def _fail(batch: Sequence[_Waiting], error: SoloistError) -> None:
    """Each has an error of its own, since whoever raises one writes into it."""
    for each in batch:
        if not each.answer.done():
            told: SoloistError = PermanentError(str(error))
            if isinstance(error, TransientError):
                told = TransientError(str(error), sent=error.sent, retry_after=error.retry_after)
            told.__cause__ = error
            each.answer.set_exception(told)
