"""The rows of one queue in ``soloist.work_items``: the port ``Rows`` over the SQL functions of the schema.

Nothing is decided here that the functions do not decide: what is due, whose claim holds, what dies. Each call is one
statement, so it has happened as a whole or not at all. A claim that comes back full lets the next one start behind its
last row, so that it does not walk again through what is finished but not yet vacuumed. Such a start is never the last
word: where it brings less than was asked for, and once in each poll interval anyway, a claim starts from the head, or a
row that came back to an earlier place would wait for ever.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from soloist.adapters.postgres.database import Database, Row
from soloist.adapters.postgres.failures import RowRefused
from soloist.adapters.postgres.row_texts import decoded, kept
from soloist.adapters.postgres.splitting import settle_apart
from soloist.adapters.postgres.statements import statement
from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Settled, Verdict

MOST_AT_ONCE = 500
Start = tuple[datetime, int, int]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedQueue:
    """What a claim needs to know of its queue. ``worker`` is for people who look at the table; no rule reads it."""

    name: str
    worker: str
    lease: timedelta = timedelta(seconds=60)
    hold: bool = False
    max_reclaims: int = 5
    poll: timedelta = timedelta(milliseconds=250)


class ManagedRows:
    """One worker's view of a queue; ``boottime`` is a clock in seconds that nobody can set."""

    def __init__(self, database: Database, queue: ManagedQueue, *, boottime: Callable[[], float]) -> None:
        self._database, self._queue, self._boottime = database, queue, boottime
        self._start: Start | None = None
        self._from_head_at = 0.0

    async def claim(self, most: int, *, without: Collection[str] = ()) -> list[Claim]:
        found: list[Claim] = []
        while most > len(found):
            asked = min(most - len(found), MOST_AT_ONCE)
            start = self._start if self._boottime() < self._from_head_at else None
            rows = await self._claim(asked, start)
            found += map(_claim_of, rows)
            if len(rows) == asked:
                self._start = _behind(rows)
            elif start is None:
                break
            else:
                self._from_head_at = 0.0
        return found

    async def renew(self, claims: Sequence[Claim]) -> set[int]:
        if not claims:
            return set()
        values = {**_keys(claims), "lease": self._queue.lease}
        held = {row[0] for row in await self._database.fetch(statement("renew"), values, renewal=True)}
        return {claim.fence for claim in _latest(claims) if int(claim.row[0]) in held}

    async def settle(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        return await settle_apart(outcomes, self._write, self._park)

    async def _claim(self, asked: int, start: Start | None) -> list[Row]:
        began = self._boottime()
        after_due, after_id, after_priority = start or (None, None, 3)
        queue = self._queue
        values = {
            "queue": queue.name,
            "most": asked,
            "lease": queue.lease,
            "worker": queue.worker,
            "max_reclaims": queue.max_reclaims,
            "hold": queue.hold,
            "after_due": after_due,
            "after_id": after_id,
            "after_priority": after_priority,
        }
        rows = await self._database.fetch(statement("claim"), values)
        if start is None:
            # Counted from its end, and rarer where it takes long: at most a fifth of the time goes into it.
            ended = self._boottime()
            self._from_head_at = ended + max(queue.poll.total_seconds(), 4 * (ended - began))
        return rows

    async def _write(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        claims = [outcome.claim for outcome in outcomes]
        if all(isinstance(outcome, Done) for outcome in outcomes):
            rows = await self._database.fetch(statement("complete"), _keys(claims))
        else:
            words, errors, waits = zip(*map(_said, outcomes), strict=True)
            values = {"outcomes": list(words), "errors": list(errors), "retry_in": list(waits)}
            rows = await self._database.fetch(statement("settle"), _keys(claims) | values)
        return _verdicts(claims, {row[0] for row in rows})

    async def _park(self, outcome: Settled, refused: RowRefused) -> Verdict:
        values = {"outcomes": ["Refused"], "errors": [kept(str(refused))], "retry_in": [None]}
        rows = await self._database.fetch(statement("settle"), _keys([outcome.claim]) | values)
        return Verdict.REFUSED if rows else Verdict.LOST


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


def _keys(claims: Sequence[Claim]) -> dict[str, Any]:
    """Ids and fences as array literals, which takes psycopg a twentieth of the time that two lists of numbers take."""
    ids, fences = ",".join([claim.row[0] for claim in claims]), ",".join([str(claim.fence) for claim in claims])
    return {"ids": f"{{{ids}}}", "fences": f"{{{fences}}}"}


def _latest(claims: Sequence[Claim]) -> list[Claim]:
    """Of several claims of one row the one with the highest fence: only that can hold, and an id does not tell them apart."""
    latest: Mapping[tuple[str, ...], Claim] = {
        claim.row: claim for claim in sorted(claims, key=lambda each: each.fence)
    }
    return list(latest.values())


def _verdicts(claims: Sequence[Claim], accepted: set[int]) -> list[Verdict]:
    if len(accepted) == len(claims):
        return [Verdict.ACCEPTED] * len(claims)
    held = {claim.fence for claim in _latest(claims) if int(claim.row[0]) in accepted}
    return [Verdict.ACCEPTED if claim.fence in held else Verdict.LOST for claim in claims]


def _said(outcome: Settled) -> tuple[str, str | None, timedelta | None]:
    """An outcome in the words of ``soloist.settle``."""
    match outcome:
        case Done():
            return "Done", None, None
        case Failed(error=error, retry_in=wait):
            return "Failed", kept(error), wait
        case Parked(error=error):
            return "Interrupted", kept(error), None
        case PutBack(retry_in=wait):
            return "PutBack", None, wait
