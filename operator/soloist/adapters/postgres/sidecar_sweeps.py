"""The turns of a sweep through one queue's part of the sidecar.

What keeps one from being read is no matter of the claims between which it is swept, so it is said in the log, once until a
whole round was well. A key may be none of the table any more (it was made anew with keys of another type), and then no part
with it can be read. So the next turn begins behind such a part, and parts are of any size from then on: whichever rows
are beside that key, some round has them in a part without it.
"""

import logging
import random

from soloist.adapters.postgres.database import Database, Row
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape
from soloist.adapters.postgres.mapped_statements import Statements
from soloist.domain.errors import SoloistError

MOST_AT_ONCE = 500
_log = logging.getLogger(__name__)


class Sweeps:
    """Of one worker."""

    def __init__(self, database: Database, shape: Shape, statements: Statements) -> None:
        self._database, self._shape = database, shape
        self._sweep, self._behind = statements.sweep, statements.sweep_behind
        self._start = self._after = f"{shape.source}:"
        self._unread = 0
        self._failed = self._failed_before = False

    async def turn(self) -> int:
        """Looks through some hundreds of rows at most and removes those that are of no use; says how many. Never raises a
        SoloistError."""
        most = self._unread
        try:
            if self._unread:
                ((last,),) = await self._ask(self._behind, self._unread)
                self._go_on(last)
                self._unread = 0
            most = int(MOST_AT_ONCE ** random.random()) if self._failed or self._failed_before else MOST_AT_ONCE
            last, gone = (await self._ask(self._sweep, most))[0]
        except SoloistError as problem:
            self._tell(problem, most)
            self._unread, self._failed = most, True
            return 0
        self._go_on(last)
        return int(gone)

    async def _ask(self, statement: bytes, most: int) -> list[Row]:
        return await self._database.fetch(statement, {"after": self._after, "most": most}, ahead=BY_INDEX)

    def _go_on(self, last: str | None) -> None:
        """Behind that key, or in the next round."""
        self._after = self._start if last is None else last
        if last is None:
            self._failed_before, self._failed = self._failed, False

    def _tell(self, problem: SoloistError, most: int) -> None:
        if self._failed or self._failed_before:
            return
        sentence = (
            f"Rows of soloist.claims behind the key {self._after} (up to {most}) cannot be held against {self._shape.table.name}, "
            f"so they stay and the sweep goes on behind them: {problem} If the table was made anew with keys of another type, "
            f"delete those rows whose key none of its rows can have."
        )
        _log.warning("the sidecar cannot be swept", extra={"queue": self._shape.queue, "sentence": sentence})
