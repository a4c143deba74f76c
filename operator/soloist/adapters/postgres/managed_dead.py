"""The dead letters of one queue on the managed table: to list them, to try them again, to put them away.

Each of these is one statement. A letter is back in the queue or still a letter, never both and never neither, wherever a
connection breaks or a server crashes; asking again does what was left to do.
"""

from collections.abc import Sequence
from datetime import timedelta

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.statements import statement
from soloist.domain.dead_letter import A_PERSON_WAITS, FIRST, Letter, PlaceInList


class DeadItems:
    """Of the rows of one queue; an id of another queue's is as good as none."""

    def __init__(self, database: Database, queue: str) -> None:
        self._database, self._queue = database, queue

    async def count(self, *, older_than: timedelta = timedelta()) -> int:
        """How many have been dead for longer."""
        values = {"queue": self._queue, "older_than": older_than}
        ((count,),) = await self._database.fetch(statement("count_dead_items"), values, most_seconds=A_PERSON_WAITS)
        return int(count)

    async def oldest(self, most: int = 100, *, after: PlaceInList = FIRST) -> list[Letter]:
        """At most ``most`` of them, those first that died first; ``after`` is the last one of the page before."""
        died_at, id_ = after
        values = {"queue": self._queue, "died_at": died_at, "id": id_, "most": most}
        return [
            Letter(
                id=id_,
                row=(str(id_),),
                reason=reason,
                error=error,
                attempt=attempt,
                reclaims=reclaims,
                due=due,
                died_at=died,
            )
            for id_, reason, error, attempt, reclaims, due, died in await self._database.fetch(
                statement("dead_items"), values
            )
        ]

    async def look(self, id_: int) -> tuple[str | None, str] | None:
        """Its last error and its payload as the database writes it; None where there is no such letter."""
        rows = await self._database.fetch(statement("dead_item"), {"queue": self._queue, "id": id_})
        return (rows[0][0], rows[0][1]) if rows else None

    async def retry(self, ids: Sequence[int]) -> dict[int, bool]:
        """Whether each row is back; false: its unique_key is in use again. One that is missing had no letter any more."""
        values = {"queue": self._queue, "ids": list(ids)}
        back = {row[0] for row in await self._database.fetch(statement("retry_dead_items"), values)}
        if len(back) == len(set(ids)):
            return dict.fromkeys(back, True)
        dead = {row[0] for row in await self._database.fetch(statement("still_dead_items"), values)}
        return dict.fromkeys(back, True) | dict.fromkeys(dead, False)

    async def retry_oldest(self, most: int = 1000) -> set[int]:
        """The ids of those that are back: of the ``most`` that died first, all but those whose unique_key is in use."""
        values = {"queue": self._queue, "most": most}
        return {row[0] for row in await self._database.fetch(statement("retry_oldest_dead_items"), values)}

    async def purge(self, ids: Sequence[int]) -> set[int]:
        """Deletes them for good; the ids that there were."""
        values = {"queue": self._queue, "ids": list(ids)}
        return {row[0] for row in await self._database.fetch(statement("purge_dead_items"), values)}

    async def purge_older(self, than: timedelta) -> int:
        """Deletes those that have been dead for longer, and says how many."""
        values = {"queue": self._queue, "older_than": than}
        ((count,),) = await self._database.fetch(statement("purge_old_dead_items"), values, most_seconds=A_PERSON_WAITS)
        return int(count)
