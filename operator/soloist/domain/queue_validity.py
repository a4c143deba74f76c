"""Whether a WorkQueue can be worked as it is described, and if not, what is in the way: the condition ``Valid``.

A claim belongs to a table, not to a WorkQueue, so one table has one WorkQueue: the oldest, or of two that are as old the one
with the lesser uid. Every replica that knows the same objects so names the same one, and the word changes only when an
object comes, goes, or turns to another table. A suspended queue keeps its table: resuming it must not surprise another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import DatabaseRef, External, MappedTable, QueueSpec, TableName
from soloist.domain.spec_fields import Invalid

Condition = tuple[str, str, str, str]
"""Type, status, reason and message, as ``merge_conditions`` takes them."""


class Standing(StrEnum):
    """The reasons of the condition ``Valid``, but for those of a spec that cannot be used."""

    ACCEPTED = "Accepted"
    ALREADY_SERVED = "AlreadyServed"
    SCHEMA_MISSING = "SchemaMissing"
    SCHEMA_TOO_NEW = "SchemaTooNew"
    TABLE_UNFIT = "TableUnfit"
    SECRET_UNREADABLE = "SecretUnreadable"
    DATABASE_UNREACHABLE = "DatabaseUnreachable"


UNDATED = datetime.max.replace(tzinfo=UTC)
"""When an object was made that does not say so: after all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A WorkQueue that would work a table. ``installation`` tells the database from every other, however it is reached."""

    queue: QueueName
    uid: str
    created: datetime
    installation: str
    table: TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The version of the schema soloist that the database has (None: it has none), and the one that this program needs."""

    found: int | None
    needed: int


@dataclass(frozen=True, slots=True)
class Unfit:
    """What the database says of the mapping cannot work; ``sentence`` says what to do."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The database could not be asked; ``sentence`` says why, without its password."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Unread:
    """Whoever looks after the queue may not read what it needs, or it is not there; ``sentence`` names it."""

    sentence: str


Answer = Schema | Unfit | Unread | Unreachable
"""What was learned from the database. A ``Schema`` that is as needed means that all is well."""


def is_good(answer: Answer) -> bool:
    """Whether nothing of the database is in the way."""
    return isinstance(answer, Schema) and answer.found == answer.needed


def served_by(claimants: Iterable[Claimant]) -> Mapping[QueueName, QueueName]:
    """For each queue whose table is another's: that other one. ``claimants`` are all living ones with a table of their own."""
    holders: dict[tuple[str, TableName], QueueName] = {}
    others: dict[QueueName, QueueName] = {}
    for each in sorted(claimants, key=lambda claimant: (claimant.created, claimant.uid)):
        holder = holders.setdefault((each.installation, each.table), each.queue)
        if holder != each.queue:
            others[each.queue] = holder
    return others


def validity(spec: QueueSpec | Invalid, answer: Answer, other: QueueName | None = None) -> Condition:
    """The condition. ``other`` serves this queue's table already. The first thing in the way is named, not all of them."""
    if isinstance(spec, Invalid):
        return "Valid", "False", spec.reason, spec.message
    if other is not None and isinstance(spec.table, MappedTable):
        return "Valid", "False", Standing.ALREADY_SERVED, already_served(spec.table, other)
    match answer:
        case Schema(found=found, needed=needed):
            return _accepted(spec) if found == needed else _wrong_schema(spec.database, found, needed)
        case Unfit(sentence=sentence):
            return "Valid", "False", Standing.TABLE_UNFIT, sentence
        case Unread(sentence=sentence):
            # Unknown, since a worker has rights of its own, and may have been given the database otherwise.
            return "Valid", "Unknown", Standing.SECRET_UNREADABLE, sentence
        case Unreachable(sentence=sentence):
            return "Valid", "Unknown", Standing.DATABASE_UNREACHABLE, f"Nothing is known of the table: {sentence}"


def already_served(table: MappedTable, other: QueueName) -> str:
    """What is said of a queue whose table is another's."""
    return (
        f"The table {table.name} is already served by {other}: one WorkQueue works a table, so delete one of the two, "
        "or name another table in spec.table.name."
    )


def _accepted(spec: QueueSpec) -> Condition:
    if isinstance(spec.deliver, External):
        message = "Workers of your own can work the queue."
    elif spec.suspend:
        message = "The queue can be worked once spec.suspend is false."
    else:
        message = "The queue can be worked."
    return "Valid", "True", Standing.ACCEPTED, message


def _wrong_schema(database: DatabaseRef, found: int | None, needed: int) -> Condition:
    place = f"The database of Secret {database.secret_name}, key {database.key},"
    if found is None:
        message = f"{place} has no schema soloist: run soloist migrate with that URI."
        return "Valid", "False", Standing.SCHEMA_MISSING, message
    if found < needed:
        message = f"{place} has version {found} of the schema soloist, and {needed} is needed: run soloist migrate with that URI."
        return "Valid", "False", Standing.SCHEMA_MISSING, message
    message = (
        f"{place} has version {found} of the schema soloist, and this program knows versions up to {needed}: run a release of "
        "Soloist that is as new as the one that migrated it."
    )
    return "Valid", "False", Standing.SCHEMA_TOO_NEW, message
