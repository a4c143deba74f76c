"""Writes to objects in rows: all that wait at the same moment are one statement, and one transaction.

Why that is right: each write is conditional by itself, so whether others come along changes nothing for it; no two of a
batch are of one name. What the database refuses (a value that no row can hold) is written again in halves until it stands
alone, and is refused alone. Where the connection breaks, nobody knows, and each is told that it may have happened.
"""

from collections.abc import Sequence
from typing import Any

from soloist.adapters.postgres.database import Database, Row
from soloist.adapters.postgres.failures import RowRefused
from soloist.adapters.postgres.gathering import Answers, Gathering
from soloist.adapters.postgres.row_texts import json_text
from soloist.adapters.postgres.statements import statement
from soloist.domain.errors import PermanentError, SoloistError, TransientError

Write = dict[str, Any]
Answer = tuple[str, Row]


class ObjectWrites:
    """``writer`` names this process to itself: it need not be told of its own writes."""

    def __init__(self, database: Database, *, shard: str, writer: str) -> None:
        self._database, self._shard, self._writer = database, shard, writer
        self._gathering: Gathering[Write, Answer] = Gathering(self._send, key=_name)

    async def write(self, op: str, kind: str, namespace: str, name: str, **more: Any) -> Answer:
        """One write, in the words of ``soloist.write_objects``: what came of it, and the object as it stands."""
        return await self._gathering.ask({"op": op, "kind": kind, "namespace": namespace, "name": name, **more})

    async def _send(self, writes: Sequence[Write]) -> Answers[Answer]:
        numbered = [{**write, "n": number} for number, write in enumerate(writes)]
        values = {"shard": self._shard, "writer": self._writer, "writes": json_text(numbered)}
        try:
            rows = await self._database.fetch(statement("write_objects"), values)
        except RowRefused as error:
            half = len(writes) // 2
            return [*await self._send(writes[:half]), *await self._send(writes[half:])] if half else [error]
        except SoloistError as error:
            return [_own(error) for _ in writes]
        answers = {number: (outcome, tuple(row)) for number, outcome, *row in rows}
        return [answers[number] for number in range(len(writes))]


def _name(write: Write) -> tuple[str, str, str]:
    return write["kind"], write["namespace"], write["name"]


def _own(error: SoloistError) -> SoloistError:
    """For each an error of its own, since whoever raises one writes into it."""
    own: SoloistError = PermanentError(str(error))
    if isinstance(error, TransientError):
        own = TransientError(str(error), sent=error.sent, retry_after=error.retry_after)
    own.__cause__ = error
    return own
