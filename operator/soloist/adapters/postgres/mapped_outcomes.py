"""What became of claims on rows of the user's own table: one statement for a batch, and one verdict for each.

It is one transaction with the queue's own statement for the dead among them. A row that the application changed or deleted
meanwhile is left as it is, and named.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database, Row
from soloist.adapters.postgres.failures import RowRefused
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape
from soloist.adapters.postgres.mapped_statements import Statements
from soloist.adapters.postgres.mapped_words import (
    DEAD,
    Refused,
    Said,
    as_claimed,
    on_dead_values,
    outcomes_of,
    rows_of,
    said,
    verdict,
)
from soloist.adapters.postgres.on_dead import run_on_dead
from soloist.adapters.postgres.splitting import settle_apart
from soloist.domain.claims import Claim, Done, Settled, Verdict
from soloist.domain.delivery_outcome import wait_after
from soloist.domain.queue_spec import OnDead, RetryRules
from soloist.domain.queue_tables import OutcomeBy

Look = Callable[[Sequence[Settled]], Awaitable[list[Verdict]]]
TAKEN_OVER = "SO003"
SILENT = "A trigger or rule of the table lets the outcome vanish without a word: let its function give back NEW"


class MappedOutcomes:
    """Of one queue."""

    def __init__(
        self, database: Database, shape: Shape, queue: ClaimRules, retry: RetryRules, statements: Statements
    ) -> None:
        self._database, self._shape, self._queue = database, shape, queue
        self._retry, self._statements = retry, statements

    async def settle(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        """As the port says."""
        return await settle_apart(outcomes, self._write, self._park)

    def _said(self, outcome: Settled) -> Said:
        if isinstance(outcome, Done) and self._shape.table.outcome is OutcomeBy.HANDLER:
            wait = wait_after(outcome.claim, self._retry, drawn=random.random())
            return said(outcome, OutcomeBy.HANDLER, left_due=wait)
        return said(outcome, self._shape.table.outcome)

    async def _write(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        """What is done is most of it and goes a short way; what that leaves is looked at more closely."""
        inline = self._statements.end is not None
        if self._shape.table.outcome is OutcomeBy.WORKER and all(isinstance(outcome, Done) for outcome in outcomes):
            verdicts = await self._complete([outcome.claim for outcome in outcomes])
            return await self._look(outcomes, verdicts, self._end if inline else self._apart)
        verdicts = await self._write_each(outcomes)
        return await self._look(outcomes, verdicts, self._end) if inline else verdicts

    async def _complete(self, claims: Sequence[Claim]) -> list[Verdict]:
        try:
            rows = await self._database.fetch(self._statements.complete, self._values(claims), ahead=BY_INDEX)
        except RowRefused as refused:
            if refused.sqlstate != TAKEN_OVER:
                raise
            rows = []  # nothing was written: a claim was taken over meanwhile
        fences = {row[0] for row in rows}
        return [Verdict.ACCEPTED if claim.fence in fences else Verdict.LOST for claim in claims]

    async def _write_each(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        claims, words = [outcome.claim for outcome in outcomes], [self._said(outcome) for outcome in outcomes]
        verdicts = [Verdict.LOST] * len(claims)
        for number, became, same in await self._settle(claims, words, self._queue.on_dead):
            verdicts[number - 1] = verdict(words[number - 1], became, same)
        return verdicts

    async def _apart(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        return await settle_apart(outcomes, self._write_each, self._park)

    async def _look(self, outcomes: Sequence[Settled], verdicts: list[Verdict], look: Look) -> list[Verdict]:
        """Those that came out as lost, once more."""
        left = [number for number, each in enumerate(verdicts) if each is Verdict.LOST]
        if left:
            for number, each in zip(left, await look([outcomes[number] for number in left]), strict=True):
                verdicts[number] = each
        return verdicts

    def _values(self, claims: Sequence[Claim]) -> dict[str, Any]:
        keys = rows_of(self._shape, claims)
        return keys if self._shape.inline is None else keys | as_claimed(self._shape, claims)

    async def _settle(self, claims: Sequence[Claim], words: Sequence[Said], on_dead: OnDead | None) -> list[Row]:
        values = self._values(claims) | outcomes_of(claims, words)
        if on_dead is None or not any(word.may_die for word in words):
            return await self._database.fetch(self._statements.settle, values, ahead=BY_INDEX)
        async with self._database.transaction() as connection:
            await connection.execute(BY_INDEX)
            rows = await (await connection.execute(self._statements.settle, values)).fetchall()
            for number, became, same in rows:
                if same and became in DEAD:
                    claim, word = claims[number - 1], words[number - 1]
                    await run_on_dead(connection, on_dead, on_dead_values(self._queue.name, claim, word))
        return rows

    async def _park(self, outcome: Settled, refused: RowRefused) -> Verdict:
        words = [said(Refused(claim=outcome.claim, error=str(refused), retry_in=None), self._shape.table.outcome)]
        try:
            rows = await self._settle([outcome.claim], words, self._queue.on_dead)
        except RowRefused:
            # Whatever is in the way of the queue's own statement, the letter is kept without it.
            rows = await self._settle([outcome.claim], words, None)
        if not rows:
            return Verdict.LOST
        return Verdict.REFUSED if rows[0][2] else Verdict.CHANGED

    async def _end(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        """Inline: ends the claims that hold though their outcome was not written, and says what was in the way."""
        verdicts = [Verdict.LOST] * len(outcomes)
        values = self._values([outcome.claim for outcome in outcomes])
        for number, same in await self._database.fetch(self._statements.end or b"", values, ahead=BY_INDEX):
            silent = RowRefused(SILENT, sqlstate="")
            verdicts[number - 1] = await self._park(outcomes[number - 1], silent) if same else Verdict.CHANGED
        return verdicts
