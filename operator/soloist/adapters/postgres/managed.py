"""The rows of one queue in ``soloist.work_items``: the port ``Rows`` over the SQL functions of the schema.

Nothing is decided here that the functions do not decide: what is due, whose claim holds, what dies. Each call is one
statement, so it has happened as a whole or not at all. A claim that comes back full lets the next one start behind its
last row, so that it does not walk again through what is finished but not yet vacuumed. Such a start is never the last
word: where it brings less than was asked for, and once in each poll interval anyway, a claim starts from the head, or a
row that came back to an earlier place would wait for ever.

A row whose claims came to nothing too often is claimed once more and given up under that very claim, together with the
queue's own statement for the dead, if it has one; so a crash in between only means that the next claim finds it again.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta

from soloist.adapters.postgres.burials import Buried, handed_out, unheard
from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database, Row
from soloist.adapters.postgres.managed_outcomes import ManagedOutcomes, keys, latest
from soloist.adapters.postgres.row_texts import decoded
from soloist.adapters.postgres.statements import statement
from soloist.domain.claims import Claim, Settled, Verdict
from soloist.domain.polling import next_from_head
from soloist.domain.unfinished import ended_too_often

Start = tuple[datetime, int, int]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ManagedRows:
    """One worker's view of a queue; ``boottime`` is a clock in seconds that nobody can set.

    ``buried`` hears of what became of rows that were given up when they were claimed, since nobody else is handed them.
    """

    def __init__(
        self,
        database: Database,
        queue: ClaimRules,
        *,
        boottime: Callable[[], float],
        buried: Buried = unheard,
    ) -> None:
        self._database, self._queue, self._boottime, self._buried = database, queue, boottime, buried
        self._outcomes = ManagedOutcomes(database, queue.name, queue.on_dead)
        # An answer that comes when much of the lease is over is of little use; the server is not to work on it for longer.
        self._patience = min(database.url.statement_timeout, max(1.0, queue.lease.total_seconds() / 4))
        self._start: Start | None = None
        self._from_head_at = 0.0

    async def claim(self, most: int, *, without: Collection[str] = ()) -> list[Claim]:
        return await handed_out(
            self._claim,
            most,
            given_up=self._given_up,
            settle=self.settle,
            buried=self._buried,
            boottime=self._boottime,
        )

    async def renew(self, claims: Sequence[Claim]) -> set[int]:
        if not claims:
            return set()
        values = {**keys(claims), "lease": self._queue.lease}
        rows = await self._database.fetch(statement("renew"), values, renewal=True, most_seconds=self._patience)
        held = {row[0] for row in rows}
        return {claim.fence for claim in latest(claims) if int(claim.row[0]) in held}

    async def settle(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        return await self._outcomes.settle(outcomes)

    async def _claim(self, asked: int, doomed: bool) -> tuple[list[Claim], bool]:
        began = self._boottime()
        start = self._start if began < self._from_head_at else None
        after_due, after_id, after_priority = start or (None, None, 3)
        queue = self._queue
        values = {
            "queue": queue.name,
            "most": asked,
            "lease": queue.lease,
            "worker": queue.worker,
            "max_reclaims": queue.max_reclaims,
            "hold": queue.hold,
            "spare": True,
            "doomed": doomed,
            "after_due": after_due,
            "after_id": after_id,
            "after_priority": after_priority,
        }
        rows = await self._database.fetch(statement("claim"), values, most_seconds=self._patience)
        if start is None:
            self._from_head_at = next_from_head(began, self._boottime(), poll=queue.poll.total_seconds())
        if len(rows) == asked:
            self._start = _behind(rows)
        elif start is not None and not doomed:
            self._from_head_at = 0.0
        return list(map(_claim_of, rows)), doomed or len(rows) == asked or start is not None

    def _given_up(self, claim: Claim) -> Settled | None:
        """Why a row that was found is not handed out."""
        return ended_too_often(claim, hold=self._queue.hold, max_reclaims=self._queue.max_reclaims)


def _claim_of(row: Row) -> Claim:
    key, fence, attempt, tries, reclaims, priority, due, unique_key, payload = row
    return Claim(
        row=(str(key),),
        fence=fence,
        attempt=attempt,
        tries=tries,
        reclaims=reclaims,
        priority=priority,
        due=_EPOCH + timedelta(microseconds=due),
        due_key=str(due),
        unique_key=unique_key,
        payload=decoded(payload),
        payload_text=payload,
    )


def _behind(rows: Sequence[Row]) -> Start:
    """Where the next claim may start: due time, id and priority of the last row of the least urgent priority that came."""
    least = max(row[5] for row in rows)
    due, key = max((row[6], row[0]) for row in rows if row[5] == least)
    return _EPOCH + timedelta(microseconds=due), key, least
