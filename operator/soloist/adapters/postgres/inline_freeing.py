"""Freeing what rests for no reason in an Inline queue, between the claims of one worker.

A row may be refused (by a constraint that is not yet valid, by a trigger), and must keep no other from being freed. So some
of a refused batch are written one by one, and whichever is refused then is passed over until all others were looked at. That
is no matter of the claims: it is said in the log, once until everything was well.
"""

import logging
from collections.abc import Sequence

from soloist.adapters.postgres.database import Database, Row
from soloist.adapters.postgres.failures import RowRefused
from soloist.adapters.postgres.inline_parked_sql import MOST_AT_ONCE
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape
from soloist.adapters.postgres.mapped_statements import Statements
from soloist.domain.errors import SoloistError

ONE_BY_ONE = 50
_log = logging.getLogger(__name__)


class Freeing:
    def __init__(self, database: Database, shape: Shape, statements: Statements) -> None:
        self._database, self._shape = database, shape
        self._stuck, self._freed = statements.stuck, statements.freed
        self._refused = set[str]()
        self._said = False

    async def turn(self) -> bool:
        """Frees some hundreds of rows at most, and says whether another turn may free more. Never raises a SoloistError."""
        if self._stuck is None:
            return False
        before = len(self._refused)
        try:
            found = await self._database.fetch(self._stuck, {"without": list(self._refused)}, ahead=BY_INDEX)
            tried, freed = await self._free(found)
        except SoloistError as problem:
            self._tell(problem)
            return False
        if len(found) < tried and len(self._refused) == before:
            self._said = self._said and before > 0
            self._refused.clear()  # the next turn tries them again
        return freed > 0 and len(found) >= tried

    async def _free(self, found: Sequence[Row]) -> tuple[int, int]:
        """How many it would have tried, and how many it freed."""
        try:
            return MOST_AT_ONCE, await self._write(found)
        except RowRefused:
            freed = 0
        for row in found[:ONE_BY_ONE]:
            try:
                freed += await self._write([row])
            except RowRefused as problem:
                self._tell(problem)
                self._refused.add(row[0])
        return ONE_BY_ONE, freed

    async def _write(self, rows: Sequence[Row]) -> int:
        if not rows:
            return 0
        values = {f"r{n}": [row[n + 1] for row in rows] for n in range(len(self._shape.table.id))}
        return len(await self._database.fetch(self._freed or b"", values, ahead=BY_INDEX))

    def _tell(self, problem: SoloistError) -> None:
        if self._said:
            return
        self._said = True
        sentence = (
            f"Rows of {self._shape.table.name} that were queued anew after a refused outcome cannot be freed, so they rest on: "
            f"{str(problem).removesuffix('.')}. Mend what is in the way of an UPDATE; they are tried again until then."
        )
        _log.warning("parked rows cannot be freed", extra={"queue": self._shape.queue, "sentence": sentence})
