"""The dead letters of one mapped queue: to list them, to try them again, to put them away.

Letters are ours, so they are listed and put away whatever has become of the user's table since; only to try one again do we
need that table as it was mapped.
"""

from collections.abc import Sequence

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.dead_letters import DeadLetters
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape
from soloist.adapters.postgres.retry_sql import retry


class RowLetters(DeadLetters):
    """What can be done without the table that the rows are in: they stay as they are."""

    KIND = "dead_rows"


class DeadRows(RowLetters):
    """The same with the table that the rows are in."""

    def __init__(self, database: Database, shape: Shape) -> None:
        super().__init__(database, shape.queue)
        self._retry = retry(shape).as_bytes(None)

    async def retry(self, ids: Sequence[int]) -> dict[int, bool]:
        """Whether each row is back; false: the application moved it on. One that is missing had no letter any more."""
        rows = await self._database.fetch(self._retry, {"ids": list(ids)}, ahead=BY_INDEX)
        return dict(rows)
