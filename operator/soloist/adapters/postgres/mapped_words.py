"""Claims and outcomes of a mapped queue, between the port's values and the statements' arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from soloist.adapters.postgres.database import Row
from soloist.adapters.postgres.mapped_sql import Shape
from soloist.adapters.postgres.row_texts import array_of_numbers, array_of_texts, decoded, kept
from soloist.domain.catalog import JSON
from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Settled, Verdict
from soloist.domain.queue_tables import OutcomeBy
from soloist.domain.unfinished import TooOften

DEAD = ("Dead", "Park")
LARGEST = 2**31 - 1
"""Of an integer of a letter's, whatever an application wrote to its own column."""

LEFT_DUE = "The application answered that the work is done, and left the row due at the same time."


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp(Failed):
    """A row that is not handed out any more, its attempts being used up before; no attempt ends with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Failed):
    """An outcome that the table refused. Nothing of it is written; the row is kept from being claimed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An outcome in the words of the statements; see ``outcome_sql``."""

    outcome: str
    counted: bool = False
    error: str | None = None
    wait: timedelta | None = None
    reason: str | None = None

    @property
    def may_die(self) -> bool:
        return self.outcome in DEAD or (self.outcome == "Done" and self.error is not None and self.wait is None)


def said(outcome: Settled, by: OutcomeBy, *, left_due: timedelta | None = None) -> Said:
    """``left_due`` is the wait after a failure, for a row that its application was to move and did not."""
    handler = by is OutcomeBy.HANDLER
    dead = "Park" if handler else "Dead"
    match outcome:
        case Refused(error=error):
            return Said(outcome="Park", error=kept(error), reason="Refused")
        case TooOften(error=error):
            return Said(outcome=dead, error=kept(error), reason="ReclaimedTooOften")
        case GivenUp(error=error):
            return Said(outcome=dead, error=kept(error), reason="Failed")
        case Done() if handler:
            return Said(outcome="Done", counted=True, error=LEFT_DUE, wait=left_due, reason="Failed")
        case Done():
            return Said(outcome="Done", counted=True)
        case Failed(error=error, retry_in=None):
            return Said(outcome=dead, counted=True, error=kept(error), reason="Failed")
        case Failed(error=error, retry_in=wait):
            return Said(outcome="Again", counted=True, error=kept(error), wait=wait)
        case Parked(error=error):
            return Said(outcome=dead, error=kept(error), reason="Interrupted")
        case PutBack(retry_in=wait):
            return Said(outcome="PutBack", wait=wait)


def verdict(word: Said, became: str, same: bool) -> Verdict:
    """Of an outcome whose claim held. ``same``: the row was as it had been claimed; ``became``: what the statement made of it."""
    if word.outcome == "Done" != became:
        return Verdict.STILL_DUE
    moved_on = word.outcome == "Done" and word.error is not None
    return Verdict.ACCEPTED if same or moved_on else Verdict.CHANGED


def claims_of(shape: Shape, rows: Sequence[Row]) -> list[Claim]:
    """Rows as the claim's statement gives them."""
    carried, json = shape.carried, shape.body is not None and shape.columns[shape.body].base in JSON
    return [_claim_of(shape, carried, row, json=json) for row in rows]


def _claim_of(shape: Shape, carried: Sequence[str], row: Row, *, json: bool) -> Claim:
    fence, reclaims, ended, base, due, *texts = row
    keys = len(shape.table.id)
    body = texts[keys]
    columns = dict(zip(carried, texts[keys + 1 :], strict=True))
    if shape.body in shape.table.columns:
        columns[shape.body] = body
    return Claim(
        row=tuple(texts[:keys]),
        fence=fence,
        attempt=ended + 1,
        tries=ended + 1 - base,
        reclaims=reclaims,
        due=datetime.fromisoformat(due) if due is not None and due.endswith("Z") else None,
        due_key=due or "",
        payload=decoded(body) if body is not None and json else body,
        payload_text=body,
        columns=columns,
    )


def rows_of(shape: Shape, claims: Sequence[Claim]) -> dict[str, Any]:
    """Arrays: the primary keys, column by column, and the fences."""
    keys = range(len(shape.table.id))
    rows = {f"r{number}": array_of_texts([claim.row[number] for claim in claims]) for number in keys}
    return {**rows, "fence": array_of_numbers([claim.fence for claim in claims])}


def as_claimed(shape: Shape, claims: Sequence[Claim]) -> dict[str, Any]:
    """What an Inline outcome asks to find again; a sidecar remembers it by itself."""
    status = shape.table.status
    return {
        "due": array_of_texts([claim.due_key or None for claim in claims]),
        "attempts": array_of_numbers([claim.attempt - 1 for claim in claims]),
        "status": array_of_texts([None if status is None else claim.columns[status.column] for claim in claims]),
    }


def outcomes_of(claims: Sequence[Claim], words: Sequence[Said]) -> dict[str, Any]:
    return {
        "outcome": [word.outcome for word in words],
        "counted": [word.counted for word in words],
        "error": [word.error for word in words],
        "wait": [word.wait for word in words],
        "reason": [word.reason for word in words],
        "attempt": [
            max(0, min(claim.attempt + word.counted, LARGEST)) for claim, word in zip(claims, words, strict=True)
        ],
        "reclaims": [claim.reclaims for claim in claims],
    }


def on_dead_values(queue: str, claim: Claim, word: Said) -> dict[str, Any]:
    """What the queue's own statement may name."""
    row = claim.row
    ids = {"id": row[0]} if len(row) == 1 else {f"id{number}": text for number, text in enumerate(row, start=1)}
    return {**ids, "queue": queue, "reason": word.reason, "error": word.error, "attempt": claim.attempt}
