"""The dead letters of one mapped queue: to list them, to try them again, to put them away."""

from collections.abc import Sequence

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape
from soloist.adapters.postgres.retry_sql import retry
from soloist.adapters.postgres.statements import statement
from soloist.domain.dead_letter import Letter


class DeadRows:
    """Of the rows of one queue."""

    def __init__(self, database: Database, shape: Shape) -> None:
        self._database, self._shape = database, shape
        self._retry = retry(shape).as_bytes(None)

    async def oldest(self, most: int = 100) -> list[Letter]:
        """At most ``most`` of them, those first that died first."""
        rows = await self._database.fetch(statement("dead_rows"), {"queue": self._shape.queue, "most": most})
        return [
            Letter(
                id=id_,
                row=tuple(pk),
                reason=reason,
                error=error,
                attempt=attempt,
                reclaims=reclaims,
                due=due,
                died_at=died,
            )
            for id_, pk, reason, error, attempt, reclaims, due, died in rows
        ]

    async def retry(self, ids: Sequence[int]) -> dict[int, bool]:
        """Whether each row is back; false: the application moved it on. One that is missing had no letter any more."""
        rows = await self._database.fetch(self._retry, {"ids": list(ids)}, ahead=BY_INDEX)
        return dict(rows)

    async def purge(self, ids: Sequence[int]) -> set[int]:
        """Puts letters away for good; the rows stay as they are."""
        values = {"queue": self._shape.queue, "ids": list(ids)}
        return {row[0] for row in await self._database.fetch(statement("purge_dead_rows"), values)}
