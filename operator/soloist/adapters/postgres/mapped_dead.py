"""The dead letters of one mapped queue: to list them, to try them again, to put them away.

Letters are ours, so they are listed and put away whatever has become of the user's table since; only to try one again do we
need that table as it was mapped.
"""

from collections.abc import Sequence
from datetime import timedelta

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape
from soloist.adapters.postgres.retry_sql import retry
from soloist.adapters.postgres.statements import statement
from soloist.domain.dead_letter import A_PERSON_WAITS, FIRST, Letter, PlaceInList


class RowLetters:
    """Of the rows of one queue."""

    def __init__(self, database: Database, queue: str) -> None:
        self._database, self._queue = database, queue

    async def count(self, *, older_than: timedelta = timedelta()) -> int:
        """How many have been dead for longer."""
        values = {"queue": self._queue, "older_than": older_than}
        ((count,),) = await self._database.fetch(statement("count_dead_rows"), values, most_seconds=A_PERSON_WAITS)
        return int(count)

    async def oldest(self, most: int = 100, *, after: PlaceInList = FIRST) -> list[Letter]:
        """At most ``most`` of them, those first that died first; ``after`` is the last one of the page before."""
        died_at, id_ = after
        values = {"queue": self._queue, "died_at": died_at, "id": id_, "most": most}
        rows = await self._database.fetch(statement("dead_rows"), values)
        return [
            Letter(
                id=id_,
                row=tuple(pk),
                reason=reason,
                error=error,
                attempt=attempt,
                reclaims=reclaims,
                due=due,
                died_at=died_at,
            )
            for id_, pk, reason, error, attempt, reclaims, due, died_at in rows
        ]

    async def purge(self, ids: Sequence[int]) -> set[int]:
        """Puts letters away for good; the rows stay as they are."""
        values = {"queue": self._queue, "ids": list(ids)}
        return {row[0] for row in await self._database.fetch(statement("purge_dead_rows"), values)}

    async def purge_older(self, than: timedelta) -> int:
        """Likewise those that have been dead for longer, and says how many."""
        values = {"queue": self._queue, "older_than": than}
        ((count,),) = await self._database.fetch(statement("purge_old_dead_rows"), values, most_seconds=A_PERSON_WAITS)
        return int(count)


class DeadRows(RowLetters):
    """The same with the table that the rows are in."""

    def __init__(self, database: Database, shape: Shape) -> None:
        super().__init__(database, shape.queue)
        self._retry = retry(shape).as_bytes(None)

    async def retry(self, ids: Sequence[int]) -> dict[int, bool]:
        """Whether each row is back; false: the application moved it on. One that is missing had no letter any more."""
        rows = await self._database.fetch(self._retry, {"ids": list(ids)}, ahead=BY_INDEX)
        return dict(rows)
