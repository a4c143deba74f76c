"""A WorkQueue's spec as one typed value: which rows, how they are claimed and delivered, and what follows a failure.

Every default is applied and every rule is checked by ``parse_queue``, so whoever holds a ``QueueSpec`` need not ask again.
The parts that speak of tables and of requests are defined beside this module and can be imported from here.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from soloist.domain.queue_delivery import (
    Deliver,
    Encoding,
    External,
    FixedUrl,
    HmacSha256,
    HttpDelivery,
    Lookup,
    StandardWebhooks,
    UrlColumn,
)
from soloist.domain.queue_tables import (
    Column,
    DatabaseRef,
    Inline,
    ManagedTable,
    MappedTable,
    OutcomeBy,
    Record,
    Sidecar,
    StatusMapping,
    TableName,
)

__all__ = [
    "AfterCrash",
    "Column",
    "Concurrency",
    "DatabaseRef",
    "Deliver",
    "Encoding",
    "External",
    "FixedUrl",
    "HmacSha256",
    "HttpDelivery",
    "Inline",
    "KeyPer",
    "Lookup",
    "ManagedTable",
    "MappedTable",
    "OnDead",
    "OutcomeBy",
    "PerKey",
    "Poll",
    "QueueSpec",
    "Record",
    "RetryRules",
    "Sidecar",
    "StandardWebhooks",
    "StatusMapping",
    "TableName",
    "UrlColumn",
]


class AfterCrash(StrEnum):
    """What becomes of a row whose claim ended without an outcome."""

    RETRY = "Retry"  # claimed again, up to ``max_reclaims`` times in a row
    HOLD = "Hold"  # parked as a dead letter for a person; so is an attempt of which nobody knows whether it arrived


class KeyPer(StrEnum):
    """What has an idempotency key of its own."""

    MESSAGE = "PerMessage"  # the row: the same for all attempts
    ATTEMPT = "PerAttempt"  # the row and the number of the attempt, which a crash does not raise
    DUE = "PerDue"  # the row and its due time, for rows that come due again (``OutcomeBy.HANDLER`` only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """How long an idle queue waits between two looks; ``listen`` asks for notifications in addition."""

    least: timedelta = timedelta(milliseconds=5)
    most: timedelta = timedelta(milliseconds=250)
    listen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """After the n-th failed try it waits ``schedule[n - 1]``, or the last of them, give or take the part ``jitter`` of it.

    ``max_attempts`` are tries in all. A receiver's Retry-After is heeded up to ``retry_after_cap``.
    """

    schedule: tuple[timedelta, ...]
    jitter: float
    max_attempts: int | Column
    retry_after_cap: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class PerKey:
    """At most ``limit`` rows at once with the same value in ``column``, in each worker."""

    column: str
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """How many rows are in one worker's hands at once."""

    per_worker: int = 64
    per_key: PerKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDead:
    """A statement in the transaction of the dead letter. ``$n`` in it is the n-th of ``values``.

    Those are words: ``id`` (``id1``, ``id2`` … of a composite key), ``queue``, ``reason``, ``error`` and ``attempt``.
    """

    statement: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """Everything about a queue but its name and namespace."""

    suspend: bool
    database: DatabaseRef
    table: ManagedTable | MappedTable
    after_crash: AfterCrash
    max_reclaims: int
    deliver: Deliver
    idempotency_key: KeyPer
    lease: timedelta
    poll: Poll
    retry: RetryRules
    concurrency: Concurrency
    on_dead: OnDead | None

    @property
    def renew_every(self) -> timedelta:
        """Three renewals may be lost before a lease ends."""
        return self.lease / 4
