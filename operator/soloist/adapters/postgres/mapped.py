"""The rows of one queue in the user's own table: the port ``Rows`` over the statements that its mapping was composed to.

A claim is one statement and commits before anything is delivered. What it finds is not always handed out: a row whose claims
came to nothing too often (or, with Hold, once), or whose attempts were used up before, is given up under the very claim
that found it, so a crash in between only means that the next claim finds it again.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from soloist.adapters.postgres.burials import Buried, handed_out, unheard
from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.inline_freeing import Freeing
from soloist.adapters.postgres.mapped_outcomes import MappedOutcomes
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape
from soloist.adapters.postgres.mapped_statements import composed
from soloist.adapters.postgres.mapped_words import GivenUp, claims_of, rows_of
from soloist.adapters.postgres.sidecar_sweeps import Sweeps
from soloist.domain.claims import Claim, Settled, Verdict
from soloist.domain.delivery_outcome import most_attempts, usual_attempts
from soloist.domain.errors import SoloistError
from soloist.domain.polling import next_from_head
from soloist.domain.queue_spec import RetryRules
from soloist.domain.unfinished import ended_too_often

SWEEP_EVERY = 10.0
LONG_WALK = 0.05
"""Seconds of a claim from the head after which the next ones do not walk the same way again."""
LATEST_COMMIT = timedelta(seconds=10)


class MappedRows:
    """One worker's view of a queue; ``boottime`` is a clock in seconds that nobody can set.

    ``buried`` hears of what became of rows that were given up when they were claimed, since nobody else is handed them.
    """

    def __init__(
        self,
        database: Database,
        shape: Shape,
        queue: ClaimRules,
        retry: RetryRules,
        *,
        boottime: Callable[[], float],
        buried: Buried = unheard,
    ) -> None:
        self._database, self._shape, self._queue, self._boottime = database, shape, queue, boottime
        self._retry, self._buried = retry, buried
        self._statements = composed(shape)
        self._outcomes = MappedOutcomes(database, shape, queue, retry, self._statements)
        self._values = {
            "lease": queue.lease,
            "worker": queue.worker,
            "hold": queue.hold,
            "max_reclaims": queue.max_reclaims,
            "limit": usual_attempts(retry),
        }
        self._asked, self._turn = [0] * len(self._statements.claims), 0
        self._after: str | None = None
        self._passed: str | None = None
        self._from_head_at = 0.0
        self._sweeps = Sweeps(database, shape, self._statements)
        self._freeing = Freeing(database, shape, self._statements)
        self._sweep_at = boottime() + SWEEP_EVERY

    async def claim(self, most: int, *, without: Collection[str] = ()) -> list[Claim]:
        if self._boottime() >= self._sweep_at:
            await self.sweep()
        return await handed_out(
            lambda asked, used_up: self._claim(asked, used_up, without),
            most,
            given_up=self._given_up,
            settle=self.settle,
            buried=self._buried,
            boottime=self._boottime,
        )

    async def renew(self, claims: Sequence[Claim]) -> set[int]:
        if not claims:
            return set()
        values = {**rows_of(self._shape, claims), "lease": self._queue.lease}
        rows = await self._database.fetch(self._statements.renew, values, ahead=BY_INDEX, renewal=True)
        return {row[0] for row in rows}

    async def settle(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        return await self._outcomes.settle(outcomes)

    async def sweep(self) -> int:
        """Looks through some hundreds of the sidecar's rows and removes those that are of no use; says how many. With Inline it
        frees what rests for no reason; where that may have left some, the next claim sweeps again."""
        self._sweep_at = self._boottime() + SWEEP_EVERY
        gone = await self._sweeps.turn()
        if await self._freeing.turn():
            self._sweep_at = self._boottime()
        return gone

    async def _claim(self, asked: int, used_up: bool, without: Collection[str]) -> tuple[list[Claim], bool]:
        began = self._boottime()
        start = None if began >= self._from_head_at else self._after or self._passed
        statements = self._statements.burials if used_up else self._statements.claims
        values = {**self._values, "most": asked, "after": start or "-infinity", "without": list(without)}
        if not used_up:  # else it goes the way of the claim that met them
            # By turns of rows, not of claims: where large ones and small ones alternate, no status gets the small ones only. What
            # a dead worker left, which comes last, has the first turn.
            self._turn = min(reversed(range(len(statements))), key=self._asked.__getitem__)
            self._asked[self._turn] += asked
        rows = await self._database.fetch(statements[self._turn], values, ahead=self._statements.planner)
        claims = sorted(claims_of(self._shape, rows), key=_due)
        if used_up and len(claims) < asked:
            return claims, True  # rows that can be worked are among those that were looked at
        # The next one starts behind the last row of a full claim, so as not to walk again through what is finished but not
        # yet vacuumed. Of several statuses each has an end of its own, and none is kept.
        full = len(claims) == asked
        ordered = len(statements) == 1 and self._shape.table.due_at is not None
        self._after = claims[-1].due_key if ordered and full else None
        if start is None:
            took = self._boottime() - began
            self._from_head_at = next_from_head(began, began + took, poll=self._queue.poll.total_seconds())
            # All before the end of this walk was looked at, and is not to be had.
            through = not without and (ordered or not full)
            self._passed = await self._end_of_walk(claims[-1:] if full else (), took) if through else None
        return claims, full or start not in (None, self._passed)

    async def _end_of_walk(self, last: Sequence[Claim], took: float) -> str | None:
        """Where the next claims start if this one was long on its way past rows that nobody is to have: those that come back are
        met by the next walk. It is not the very present: a row is due as it is written, and seen once that commits."""
        if self._statements.passed is None or took < LONG_WALK:
            return None
        values = {"ago": timedelta(seconds=took) + LATEST_COMMIT, "last": next((each.due_key for each in last), None)}
        try:
            rows = await self._database.fetch(self._statements.passed, values, ahead=BY_INDEX)
        except SoloistError:
            return None  # what was claimed has to be known to whoever asked; should the database be ill, the next claim says so
        return str(rows[0][0]) if rows else None

    def _given_up(self, claim: Claim) -> Settled | None:
        """Why a row that was found is not handed out."""
        queue = self._queue
        over = ended_too_often(claim, hold=queue.hold, max_reclaims=queue.max_reclaims)
        if over is not None:
            return over
        if claim.tries > (limit := most_attempts(claim, self._retry)):
            error = f"All {limit} attempts were used up before it was claimed."
            return GivenUp(claim=claim, error=error, retry_in=None)
        return None


def _due(claim: Claim) -> str:
    return claim.due_key
