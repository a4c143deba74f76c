"""The dead letters of one queue on the managed table: to list them, to try them again, to put them away.

Each of these is one statement. A letter is back in the queue or still a letter, never both and never neither, wherever a
connection breaks or a server crashes; asking again does what was left to do.
"""

from collections.abc import Sequence

from soloist.adapters.postgres.dead_letters import DeadLetters
from soloist.adapters.postgres.statements import statement


class DeadItems(DeadLetters):
    """The same with the rows, which are the letters themselves."""

    KIND = "dead_items"

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
