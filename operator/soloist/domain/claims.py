"""A claim on a row of a queue, and what came of it, as values. The same for our table and for the user's own.

A claim is known by its fence, which no other claim of any row ever had. Whatever is written for a row later carries it,
and a write that finds another fence writes nothing: that claim is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One row in one worker's hands. ``row`` is the primary key as text, one text for each of its columns.

    ``attempt`` rises with outcomes only and is what a key per attempt is made of; ``tries`` counts against the limit of
    attempts; ``reclaims`` are claims in a row that ended without an outcome. ``due`` is the due time as it was claimed
    (None: a row of a table that knows none), ``due_key`` the same as the database writes it. ``columns`` holds the mapped
    columns that a delivery may name, as text. ``payload`` is decoded JSON, or the text of a column that holds none;
    ``payload_text`` is the same as the database writes it, where it has it: Python would round a number of twenty digits.
    """

    row: tuple[str, ...]
    fence: int
    attempt: int
    tries: int
    reclaims: int = 0
    priority: int = 1
    due: datetime | None = None
    due_key: str = ""
    unique_key: str | None = None
    payload: Any = None
    payload_text: str | None = None
    columns: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The row's work was accepted."""

    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An attempt failed for a known reason. ``retry_in`` counts on the database's clock; None gives the row up."""

    claim: Claim
    error: str
    retry_in: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """Nobody knows whether the attempt arrived, and the queue holds such rows for a person (``afterCrash: Hold``)."""

    claim: Claim
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """Untried: no attempt used. ``retry_in`` is how long nobody shall take it, on the database's clock: nothing, and another
    worker takes it at once; longer where its endpoint is not to be asked for now (an open breaker). ``shut_for`` is how long
    no other row of that endpoint could be tried here either, which with ``for_all`` is that of every row.
    """

    claim: Claim
    retry_in: timedelta = timedelta(0)
    shut_for: timedelta = timedelta(0)
    for_all: bool = False


Settled = Done | Failed | Parked | PutBack


class Verdict(StrEnum):
    """What became of a ``Settled`` that was written."""

    ACCEPTED = "Accepted"
    LOST = "Lost"  # another claim, a cancellation or an outcome came first; nothing was written
    CHANGED = "Changed"  # the application changed or deleted the row underneath; only our claim was ended
    REFUSED = (
        "Refused"  # a constraint or a trigger of the table refused the outcome; the row is parked as a dead letter
    )
    STILL_DUE = "StillDue"  # outcome Handler: the application left the row due at the same time; counted as failed
