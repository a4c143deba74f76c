"""What a check of a queue found: how bad it is, where, and a sentence that says what to do about it."""

from dataclasses import dataclass
from enum import StrEnum

from soloist.domain.queue_tables import TableName


class Severity(StrEnum):
    """``ERROR``: the queue cannot be worked; ``WARNING``: it can, but not well or not for long; ``NOTE``: good to know."""

    ERROR = "Error"
    WARNING = "Warning"
    NOTE = "Note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``reason`` is one word for programs; ``field`` is the manifest's, ``column`` the table's; either may be empty."""

    severity: Severity
    reason: str
    message: str
    field: str = ""
    column: str = ""


def error(reason: str, message: str, *, field: str = "", column: str = "") -> Finding:
    return Finding(severity=Severity.ERROR, reason=reason, message=message, field=field, column=column)


def warning(reason: str, message: str, *, field: str = "", column: str = "") -> Finding:
    return Finding(severity=Severity.WARNING, reason=reason, message=message, field=field, column=column)


def note(reason: str, message: str, *, field: str = "", column: str = "") -> Finding:
    return Finding(severity=Severity.NOTE, reason=reason, message=message, field=field, column=column)


def quoted(*parts: str) -> str:
    """A name as SQL to run has it, in quotes whether or not it needs them: it may be a word of SQL."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def sql_name(table: TableName) -> str:
    return quoted(table.schema, table.table)
