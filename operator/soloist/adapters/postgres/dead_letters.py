"""Dead letters of one queue: to list them, and to put them away. Where its rows are, only the statements know.

Each of these is one statement, so it has happened as a whole or not at all, wherever a connection breaks or a server
crashes; asking again does what was left to do.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.statements import statement
from soloist.domain.dead_letter import A_PERSON_WAITS, FIRST, Letter, PlaceInList


class DeadLetters:
    """Of the rows of one queue; an id of another queue's is as good as none. ``KIND``: what the statements are called by."""

    KIND: ClassVar[str]

    def __init__(self, database: Database, queue: str) -> None:
        self._database, self._queue = database, queue

    async def count(self, *, older_than: timedelta = timedelta()) -> int:
        """How many have been dead for longer."""
        values = {"queue": self._queue, "older_than": older_than}
        ((count,),) = await self._database.fetch(statement(f"count_{self.KIND}"), values, most_seconds=A_PERSON_WAITS)
        return int(count)

    async def oldest(self, most: int = 100, *, after: PlaceInList = FIRST) -> list[Letter]:
        """At most ``most`` of them, those first that died first; ``after`` is the last one of the page before."""
        died_at, id_ = after
        values = {"queue": self._queue, "died_at": died_at, "id": id_, "most": most}
        rows = await self._database.fetch(statement(self.KIND), values)
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
        """Puts letters away for good; the ids that there were."""
        values = {"queue": self._queue, "ids": list(ids)}
        return {row[0] for row in await self._database.fetch(statement(f"purge_{self.KIND}"), values)}

    async def purge_older(self, than: timedelta) -> int:
        """Likewise those that have been dead for longer, and says how many."""
        values = {"queue": self._queue, "older_than": than}
        ((count,),) = await self._database.fetch(
            statement(f"purge_old_{self.KIND}"), values, most_seconds=A_PERSON_WAITS
        )
        return int(count)
