"""What became of claims on the managed table, written under their fences.

A batch is one statement, and one transaction with the queue's own statement where rows of it die and the queue has one. A
row that dies under the claim that found it (its claims ended too often, or once and the queue holds such rows) goes the
same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from soloist.adapters.postgres.connections import Connection
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.failures import RowRefused
from soloist.adapters.postgres.on_dead import run_on_dead
from soloist.adapters.postgres.row_texts import array_of_numbers, kept
from soloist.adapters.postgres.splitting import settle_apart
from soloist.adapters.postgres.statements import statement
from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Settled, Verdict
from soloist.domain.queue_spec import OnDead
from soloist.domain.unfinished import TooOften

LIVES = frozenset({"Done", "PutBack"})


@dataclass(frozen=True, slots=True)
class _Said:
    """An outcome in the words of ``soloist.settle``."""

    outcome: str
    error: str | None = None
    wait: timedelta | None = None

    @property
    def dies(self) -> bool:
        return self.outcome not in LIVES and self.wait is None


class ManagedOutcomes:
    """Of one queue."""

    def __init__(self, database: Database, queue: str, on_dead: OnDead | None) -> None:
        self._database, self._queue, self._on_dead = database, queue, on_dead

    async def settle(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        return await settle_apart(outcomes, self._write, self._park)

    async def _write(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        claims = [outcome.claim for outcome in outcomes]
        if all(isinstance(outcome, Done) for outcome in outcomes):
            rows = await self._database.fetch(statement("complete"), keys(claims))
            return _verdicts(claims, {row[0] for row in rows})
        return await self._settle(claims, [_said(outcome) for outcome in outcomes], self._on_dead)

    async def _park(self, outcome: Settled, refused: RowRefused) -> Verdict:
        claims, said = [outcome.claim], [_Said("Refused", kept(str(refused)))]
        try:
            (verdict,) = await self._settle(claims, said, self._on_dead)
        except RowRefused:
            # Whatever is in the way of the queue's own statement, the letter is kept without it.
            (verdict,) = await self._settle(claims, said, None)
        return Verdict.REFUSED if verdict is Verdict.ACCEPTED else verdict

    async def _settle(self, claims: Sequence[Claim], said: Sequence[_Said], on_dead: OnDead | None) -> list[Verdict]:
        values = keys(claims) | {
            "outcomes": [word.outcome for word in said],
            "errors": [word.error for word in said],
            "retry_in": [word.wait for word in said],
        }
        if on_dead is None or not any(word.dies for word in said):
            rows = await self._database.fetch(statement("settle"), values)
            return _verdicts(claims, {row[0] for row in rows})
        async with self._database.transaction() as connection:
            cursor = await connection.execute(statement("settle"), values)
            verdicts = _verdicts(claims, {row[0] for row in await cursor.fetchall()})
            for claim, word, verdict in zip(claims, said, verdicts, strict=True):
                if word.dies and verdict is Verdict.ACCEPTED:
                    await self._mourn(connection, on_dead, claim, word)
        return verdicts

    async def _mourn(self, connection: Connection, on_dead: OnDead, claim: Claim, word: _Said) -> None:
        values = {
            "id": claim.row[0],
            "queue": self._queue,
            "reason": word.outcome,
            "error": word.error,
            "attempt": claim.attempt,
        }
        await run_on_dead(connection, on_dead, values)


def keys(claims: Sequence[Claim]) -> dict[str, Any]:
    """Ids and fences."""
    ids, fences = [claim.row[0] for claim in claims], [claim.fence for claim in claims]
    return {"ids": array_of_numbers(ids), "fences": array_of_numbers(fences)}


def latest(claims: Sequence[Claim]) -> list[Claim]:
    """Of several claims of one row the one with the highest fence: only that can hold, and an id does not tell them apart."""
    last: Mapping[tuple[str, ...], Claim] = {claim.row: claim for claim in sorted(claims, key=lambda each: each.fence)}
    return list(last.values())


def _verdicts(claims: Sequence[Claim], accepted: set[int]) -> list[Verdict]:
    if len(accepted) == len(claims):
        return [Verdict.ACCEPTED] * len(claims)
    held = {claim.fence for claim in latest(claims) if int(claim.row[0]) in accepted}
    return [Verdict.ACCEPTED if claim.fence in held else Verdict.LOST for claim in claims]


def _said(outcome: Settled) -> _Said:
    match outcome:
        case Done():
            return _Said("Done")
        case TooOften(error=error):
            return _Said("ReclaimedTooOften", kept(error))
        case Failed(error=error, retry_in=wait):
            return _Said("Failed", kept(error), wait)
        case Parked(error=error):
            return _Said("Interrupted", kept(error))
        case PutBack(retry_in=wait):
            return _Said("PutBack", None, wait)
