"""The ledger of runs in one database, and the shutting out of earlier terms.

Why a run is done once there: its row in ``soloist.job_runs`` and its effect commit together, and the primary key of that
row admits one. Why a new leader knows: it takes the epoch first, after which no transaction of an earlier term can commit
(each checks the epoch as its last statement, and keeps it by a lock until it has committed), and only then reads.
So what is not there then will never be.

The epoch is taken once in a term, at the first use of the database; a term that finds a later epoch is over.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.statements import statement
from soloist.domain.actions import Order
from soloist.domain.errors import SoloistError, TransientError

KEPT = "7 days"
"""How long rows are kept; of scheduled runs the tick is remembered for ever."""

STALE_EPOCH = "SO002"
PRUNES_EVERY = 3600.0
MOST_AT_ONCE = 10_000
_log = logging.getLogger(__name__)


class Pending(StrEnum):
    """How a transaction may end other than with an outcome."""

    LOST = "the commit was asked for, and nobody answered"
    BEFORE = "the run was in the ledger already"
    STALE = "the database has another epoch than this term's"


class TermIsOver(TransientError):
    """Another leader has taken the database; nothing of this term commits there any more."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} belongs to a later term: another leader took over.", sent=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run that was committed. ``outcome`` is what was said of it; None where only its tick is remembered."""

    outcome: Mapping[str, Any] | None
    epoch: int | None
    at: datetime | None


class Ledger:
    """``shard`` is what the epochs are counted of: the installation. ``holder`` is for people who look at the table."""

    def __init__(self, database: Database, *, shard: str, holder: str, boottime: Callable[[], float]) -> None:
        self.database, self.shard = database, shard
        self._holder, self._boottime = holder, boottime
        self._mark = f"soloist {hashlib.sha256(shard.encode()).hexdigest()[:12]}"
        self._taken: int | None = None
        self._taking = asyncio.Lock()
        self._pruned = boottime() - PRUNES_EVERY

    def term(self, epoch: int) -> str:
        """How connections call themselves in a transaction of that term."""
        return f"{self._mark} {epoch}"

    async def shut_out(self, epoch: int) -> None:
        """See to it that no earlier term commits here. Raises ``TermIsOver``, or what the database said."""
        if self._taken == epoch:
            return
        async with self._taking:
            if self._taken == epoch:
                return
            values = {"shard": self.shard, "epoch": epoch, "holder": self._holder}
            ((holds,),) = await self.database.fetch(
                b"SELECT soloist.take_epoch(%(shard)s, %(epoch)s, %(holder)s)", values
            )
            if holds != epoch:
                raise TermIsOver(self.database.name)
            await self._end_older(epoch)
            self._taken = epoch

    def forget(self) -> None:
        """The epoch is not what it was taken to be: take it again, or learn that the term is over."""
        self._taken = None

    async def recorded(self, order: Order) -> Recorded | None:
        """What is known of the run. None is for good where ``shut_out`` came first."""
        rows = await self.database.fetch(statement("recorded_run"), keys_of(order))
        return Recorded(outcome=rows[0][0], epoch=rows[0][1], at=rows[0][2]) if rows else None

    def wants_pruning(self) -> bool:
        return self._boottime() - self._pruned >= PRUNES_EVERY

    async def prune(self) -> None:
        """Forget old rows. What goes wrong is tried again the next time."""
        if not self.wants_pruning():
            return
        self._pruned = self._boottime()
        try:
            gone = MOST_AT_ONCE
            while gone >= MOST_AT_ONCE:
                ((gone,),) = await self.database.fetch(
                    b"SELECT soloist.prune_runs(%s::interval, %s)", (KEPT, MOST_AT_ONCE)
                )
        except SoloistError as error:
            _log.warning("the ledger was not pruned", extra={"error": str(error)})

    async def _end_older(self, epoch: int) -> None:
        """They cannot commit, but what they have locked stays locked; they may be those of a frozen process."""
        try:
            values = {"shard": self._mark, "term": self.term(epoch)}
            ended = await self.database.fetch(statement("end_older_terms"), values)
        except SoloistError as error:
            _log.warning("transactions of earlier terms are left to their time-outs", extra={"error": str(error)})
            return
        if ended:
            _log.info("transactions of earlier terms ended", extra={"count": len(ended)})


def keys_of(order: Order) -> dict[str, Any]:
    """A run as the ledger knows it. Only a run of the schedule has a tick there; others have a key of their own."""
    scheduled = order.key != order.run_uid
    return {"job": order.job_uid, "key": order.key, "tick": order.scheduled_time if scheduled else None}
