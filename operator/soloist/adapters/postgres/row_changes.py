"""What others change in rows: told at once where notices come through, else by a look.

Why nothing is missed: a look asks for everything that was written after the version of the last one, and versions rise in
the order of the commits. A notice is only a reason to look, and comes with what concerns others (specs, annotations, runs
that a person asks for); a leader's own bookkeeping wakes nobody. What a look cannot see is what is no longer there: a
notice tells of that, and whoever has not been listening for a while is told to list anew.

Looks are made on the very connection that listens, so one that is dead is found out by the next look. Behind a pooler in
transaction mode no notice comes through, and looks are made more often instead.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from soloist.adapters.postgres.connections import Connection
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.listener import listening
from soloist.adapters.postgres.row_objects import JOB
from soloist.adapters.postgres.row_store import RowStore, found
from soloist.adapters.postgres.statements import statement
from soloist.domain.errors import SoloistError
from soloist.ports import Raw

CHANNEL = "soloist_changes"
LOOKS_EVERY, DEAF_LOOKS_EVERY = 15.0, 2.0
LOOK_SECONDS = 30.0
TOGETHER = 0.05
"""Seconds after a notice in which others may follow that one look is enough for."""
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0
_log = logging.getLogger(__name__)


class RowChanges:
    """``changed`` is given each object that somebody else wrote; ``gap`` asks for a list."""

    def __init__(
        self,
        database: Database,
        store: RowStore,
        *,
        changed: Callable[[Raw], None],
        gap: Callable[[], None],
        boottime: Callable[[], float],
    ) -> None:
        self._database, self._store, self._boottime = database, store, boottime
        self._changed, self._gap = changed, gap
        self._kinds = [JOB]
        self._since: int | None = None
        self.heard = float("-inf")
        """CLOCK_BOOTTIME of the last look, at its send; -inf before the first."""

    def follow(self, kind: str) -> None:
        """Tell of this kind too from now on; list it after this call."""
        if kind not in self._kinds:
            self._kinds.append(kind)

    async def run(self) -> NoReturn:
        """For ever. What goes wrong is logged once and tried again."""
        failures = 0
        while True:
            began = self._boottime()
            try:
                await self._listen()
            except SoloistError as error:
                failures = 0 if self._boottime() - began > LONGEST_WAIT else failures + 1
                if failures <= 1:
                    _log.warning("changes are not heard of; trying again", extra={"error": str(error)})
                await asyncio.sleep(min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(failures, 10)))

    async def _listen(self) -> NoReturn:
        async with listening(self._database, CHANNEL) as (connection, hears):
            if not hears:
                _log.warning(
                    "the database delivers no notices: a pooler in transaction mode lies in between",
                    extra={"database": self._database.name, "looks_every": DEAF_LOOKS_EVERY},
                )
            await self._look(connection)
            self._gap()
            while True:
                await self._wait(connection, LOOKS_EVERY if hears else DEAF_LOOKS_EVERY)
                await self._look(connection)

    async def _look(self, connection: Connection) -> None:
        sent = self._boottime()
        kinds = self._kinds if self._since is not None else []
        async with asyncio.timeout(LOOK_SECONDS):
            cursor = connection.cursor(binary=True)
            await cursor.execute(statement("objects"), self._store.asked(kinds, since=self._since))
            self._since, changed = found(await cursor.fetchall())
        self.heard = sent
        for raw in changed:
            self._changed(raw)

    async def _wait(self, connection: Connection, seconds: float) -> None:
        """Until somebody else has written, or for that time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0:
            async for notice in connection.notifies(timeout=left, stop_after=1):
                if self._concerns(notice.payload):
                    until = min(until, loop.time() + TOGETHER)

    def _concerns(self, payload: str) -> bool:
        """Whether there is something to look for."""
        what = concerns(payload, self._store.shard, but=self._store.writer)
        if what == "removed":
            self._gap()
        return what in ("objects", "removed")


def concerns(payload: str, shard: str, *, but: str = "") -> str:
    """What a notice is of, ``lease``, ``objects`` or ``removed``; nothing where it is of another shard, or by writer ``but``."""
    what, _, rest = payload.partition(" ")
    writer, _, named = rest.partition(" ")  # the shard comes last: it may have spaces in it
    return what if named == shard and writer != but else ""
