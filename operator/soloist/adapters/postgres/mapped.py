"""The rows of one queue in the user's own table: the port ``Rows`` over the statements that its mapping was composed to.

A claim is one statement and commits before anything is delivered. What it finds is not always handed out: a row whose claims
came to nothing too often (or, with Hold, once), or whose attempts were used up before, is given up under the very claim
that found it, so a crash in between only means that the next claim finds it again.
"""

from collections.abc import Callable, Collection, Sequence

from soloist.adapters.postgres.burials import Buried, handed_out, unheard
from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped_outcomes import MappedOutcomes
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape
from soloist.adapters.postgres.mapped_statements import composed
from soloist.adapters.postgres.mapped_words import GivenUp, claims_of, rows_of
from soloist.domain.claims import Claim, Settled, Verdict
from soloist.domain.delivery_outcome import most_attempts
from soloist.domain.polling import next_from_head
from soloist.domain.queue_spec import RetryRules
from soloist.domain.unfinished import ended_too_often

SWEEP_EVERY = 10.0


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
        self._claims = 0
        self._after: str | None = None
        self._from_head_at = 0.0
        self._swept_to = ""
        self._sweep_at = boottime() + SWEEP_EVERY

    async def claim(self, most: int, *, without: Collection[str] = ()) -> list[Claim]:
        if self._boottime() >= self._sweep_at:
            await self.sweep()
        return await handed_out(
            lambda asked: self._claim(asked, without),
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
        """Looks through some hundreds of the sidecar's rows and removes those that are of no use; says how many."""
        self._sweep_at = self._boottime() + SWEEP_EVERY
        if self._statements.sweep is None:
            return 0
        values = {"after": self._swept_to or f"{self._shape.source}:"}
        ((last, gone),) = await self._database.fetch(self._statements.sweep, values, ahead=BY_INDEX)
        self._swept_to = last or ""
        return int(gone)

    async def _claim(self, asked: int, without: Collection[str]) -> tuple[list[Claim], bool]:
        began = self._boottime()
        after = None if began >= self._from_head_at else self._after
        statements = self._statements.claims
        values = {
            "most": asked,
            "lease": self._queue.lease,
            "worker": self._queue.worker,
            "after": after or "-infinity",
            "without": list(without),
        }
        self._claims += 1
        claim = statements[self._claims % len(statements)]
        rows = await self._database.fetch(claim, values, ahead=self._statements.planner)
        claims = sorted(claims_of(self._shape, rows), key=_due)
        # The next one starts behind the last row of a full claim, so as not to walk again through what is finished but not
        # yet vacuumed. Of several statuses each has an end of its own, and none is kept.
        ordered = len(statements) == 1 and self._shape.table.due_at is not None
        self._after = claims[-1].due_key if ordered and len(claims) == asked else None
        if after is None:
            self._from_head_at = next_from_head(began, self._boottime(), poll=self._queue.poll.total_seconds())
        return claims, len(claims) == asked or after is not None

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
