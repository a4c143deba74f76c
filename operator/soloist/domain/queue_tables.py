"""Where a queue's rows are, as values: our table, or the user's own and what its columns mean.

Names of columns are as the database spells them, without quotes; they go into a statement through a composer of
identifiers only. What only a database can tell (whether a column exists, of which type it is) is not said here.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from soloist.domain.actions import KeyRef


class OutcomeBy(StrEnum):
    """Who writes what became of a row of the user's table."""

    WORKER = "Worker"  # we write done, failed, the next due time
    HANDLER = "Handler"  # the application moves the row; after a success we only end the claim


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRef:
    """The key of a Secret in the WorkQueue's namespace that holds a PostgreSQL URI."""

    secret_name: str
    key: str

    @property
    def secret(self) -> KeyRef:
        return KeyRef(kind="Secret", name=self.secret_name, key=self.key)


@dataclass(frozen=True, slots=True)
class Column:
    """Says that a value is read from this column of the row."""

    name: str


@dataclass(frozen=True, slots=True)
class TableName:
    """Both parts as the database spells them. ``str()`` quotes where SQL would: for people, not for statements."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{_quoted(self.schema)}.{_quoted(self.table)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedTable:
    """Ours, in which a queue is known by its name."""

    name: ClassVar[str] = "soloist.work_items"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusMapping:
    """The column that says how far a row is. Values are text, to be cast to the column's type.

    ``done`` and ``failed`` are there with ``OutcomeBy.WORKER`` and only then; ``running`` only with ``Inline``.
    """

    column: str
    pending: tuple[str, ...]
    done: str | None = None
    failed: str | None = None
    running: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Columns that are written with an outcome, each optional."""

    last_attempt_at: str | None = None
    last_error: str | None = None
    done_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """Claims are rows of a table of ours; nothing is added to the user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """Claims are columns of the user's table. ``fence`` is a bigint or text, the database says which."""

    fence: str
    lease_until: str
    reclaims: str
    claimed_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedTable:
    """The user's own table. ``status`` is there with ``OutcomeBy.WORKER``, ``due_at`` with ``Inline``, and one of them always.

    Without ``due_at`` a pending row is always due; without ``attempts`` they are counted in the sidecar. ``columns`` are
    what ``Claim.columns`` carries, all that a delivery reads of the row: url, body, lookup, limit per key, templates, maxAttempts.
    """

    name: TableName
    id: tuple[str, ...]
    due_at: str | None = None
    status: StatusMapping | None = None
    attempts: str | None = None
    record: Record = Record()
    touch: tuple[str, ...] = ()
    claim: Sidecar | Inline = Sidecar()
    outcome: OutcomeBy = OutcomeBy.WORKER
    columns: tuple[str, ...] = ()


def _quoted(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and name == name.lower() and not name[0].isdigit()
    return name if plain else f'"{name}"'
