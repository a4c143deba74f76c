"""Which columns a mapping names, what for, and whether each can be used so: it exists, and its type and constraints allow it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from soloist.domain.catalog import JSON, TEXTS, WHOLE, Catalog, TableColumn
from soloist.domain.findings import Finding, error, quoted, sql_name
from soloist.domain.queue_spec import Column, HttpDelivery, QueueSpec
from soloist.domain.queue_tables import Inline, MappedTable, OutcomeBy

_NUMBERS = WHOLE | {"numeric"}
_KEYS = TEXTS | _NUMBERS | {"uuid", "bool", "date", "timestamp", "timestamptz", "bytea"}
_FENCE_DIGITS = 19


class Use(StrEnum):
    """What a column is used for; the words complete "… has to be"."""

    KEY = "text, a whole number, a uuid, a time or an enum"
    DUE = "timestamptz, or timestamp holding UTC"
    STATUS = "text, an enum, a whole number or a boolean"
    NUMBER = "a whole number"
    TIME = "timestamptz or timestamp"
    ERROR = "text or json"
    TOUCH = "a time or a whole number"
    FENCE = "bigint or text"
    NAME = "text"
    READ = "anything but bytea"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """``field`` as in the manifest; ``written``: by an outcome or a claim; ``emptied``: NULL is written to it; ``read`` is
    false of what is there for people alone."""

    field: str
    column: str
    use: Use
    written: bool = False
    emptied: bool = False
    read: bool = True


def named(spec: QueueSpec, table: MappedTable) -> Iterator[Named]:
    """Every use of every column."""
    worker = table.outcome is OutcomeBy.WORKER
    for column in table.id:
        yield Named(field="id", column=column, use=Use.KEY)
    if table.due_at is not None:
        yield Named(field="dueAt", column=table.due_at, use=Use.DUE, written=worker)
    if table.status is not None:
        yield Named(field="status.column", column=table.status.column, use=Use.STATUS, written=worker)
    optional = [
        ("attempts", table.attempts, Use.NUMBER),
        ("record.lastAttemptAt", table.record.last_attempt_at, Use.TIME),
        ("record.lastError", table.record.last_error, Use.ERROR),
        ("record.doneAt", table.record.done_at, Use.TIME),
        *(("touch", column, Use.TOUCH) for column in table.touch),
    ]
    yield from (Named(field=f, column=c, use=use, written=True) for f, c, use in optional if c is not None)
    if isinstance(table.claim, Inline):
        yield from _inline(table.claim)
    yield from _read(spec, table)


def _inline(inline: Inline) -> Iterator[Named]:
    yield Named(field="inline.fence", column=inline.fence, use=Use.FENCE, written=True, emptied=True)
    yield Named(field="inline.leaseUntil", column=inline.lease_until, use=Use.TIME, written=True, emptied=True)
    yield Named(field="inline.reclaims", column=inline.reclaims, use=Use.NUMBER, written=True)
    if inline.claimed_by is not None:
        yield Named(
            field="inline.claimedBy", column=inline.claimed_by, use=Use.NAME, written=True, emptied=True, read=False
        )


def _read(spec: QueueSpec, table: MappedTable) -> Iterator[Named]:
    limit = spec.retry.max_attempts
    if isinstance(limit, Column):
        yield Named(field="maxAttempts.column", column=limit.name, use=Use.NUMBER)
    if isinstance(spec.deliver, HttpDelivery) and spec.deliver.body_column is not None:
        yield Named(field="deliver.http.bodyColumn", column=spec.deliver.body_column, use=Use.READ)
    for column in table.columns:
        yield Named(field="deliver", column=column, use=Use.READ)


def column_findings(table: MappedTable, uses: list[Named], catalog: Catalog) -> Iterator[Finding]:
    """One finding at most for each use of a column."""
    missing = set()
    for use in uses:
        column = catalog.columns.get(use.column)
        if column is None:
            if use.column not in missing:
                missing.add(use.column)
                yield _missing(use, table, catalog)
        elif (problem := _problem(use, column, table)) is not None:
            reason, words = problem
            message = f"{_path(use)}: the column {use.column} of {table.name} {words}."
            yield error(reason, message, field=_path(use), column=use.column)


def _path(use: Named) -> str:
    return f"spec.{use.field}" if use.field.startswith("deliver") else f"spec.table.{use.field}"


def _missing(use: Named, table: MappedTable, catalog: Catalog) -> Finding:
    plain = use.column.lower().replace("_", "")
    like = [name for name in catalog.columns if name.lower().replace("_", "") == plain]
    meant = f"write {like[0]}" if like else f"its columns are {', '.join(catalog.columns)}"
    message = f"{_path(use)}: {table.name} has no column {use.column}: {meant}."
    return error("ColumnMissing", message, field=_path(use), column=use.column)


def _problem(use: Named, column: TableColumn, table: MappedTable) -> tuple[str, str] | None:
    """A reason, and the end of a sentence that begins with the column."""
    if not _fits(use.use, column, table):
        return "ColumnType", f"is {column.shown or column.base}, and has to be {use.use}"
    if use.written and column.generated:
        return "ColumnGenerated", "is generated, so nobody can write it: name another one, or leave the field out"
    if use.emptied and column.not_null:
        remedy = f"ALTER TABLE {sql_name(table.name)} ALTER COLUMN {quoted(column.name)} DROP NOT NULL"
        return "ColumnNotNull", f"is NOT NULL, and is empty while nobody holds the row: run {remedy}"
    if use.use is Use.KEY and column.not_null is False:
        return "KeyNullable", "may be NULL, so it is no primary key: name the columns of the primary key"
    if use.use is Use.FENCE and column.length is not None and column.length < _FENCE_DIGITS:
        return "ColumnType", f"is {column.shown}, and has to hold {_FENCE_DIGITS} digits: make it bigint or text"
    if use.use is Use.STATUS:
        return _status(column, table)
    return None


def _fits(use: Use, column: TableColumn, table: MappedTable) -> bool:
    base, enum = column.base, bool(column.labels)
    match use:
        case Use.KEY:
            return enum or base in _KEYS
        case Use.DUE:
            return column.is_time or (base == "date" and table.outcome is OutcomeBy.HANDLER)
        case Use.STATUS:
            return enum or base in TEXTS | _NUMBERS | {"bool"}
        case Use.NUMBER:
            return base in _NUMBERS
        case Use.TIME:
            return column.is_time
        case Use.ERROR:
            return base in TEXTS | JSON
        case Use.TOUCH:
            return column.is_time or base in _NUMBERS | {"date"}
        case Use.FENCE:
            return base in TEXTS | {"int8", "numeric"}
        case Use.NAME:
            return base in TEXTS
        case Use.READ:
            return base != "bytea"


def _status(column: TableColumn, table: MappedTable) -> tuple[str, str] | None:
    """Values that the column could never hold."""
    status = table.status
    values = [] if status is None else [*status.pending, status.done, status.failed, status.running]
    for value in (value for value in values if value is not None):
        if column.labels and value not in column.labels:
            return (
                "EnumLabelUnknown",
                f"is {column.shown}, which has no value {value!r}: it has {', '.join(column.labels)}",
            )
        if column.length is not None and len(value) > column.length:
            return "ColumnType", f"is {column.shown}, which cannot hold {value!r}"
        if column.base in _NUMBERS and not value.removeprefix("-").isdecimal():
            return "ColumnType", f"is {column.shown}, and {value!r} is no number"
        if column.base == "bool" and value not in ("true", "false"):
            return "ColumnType", f"is boolean: write true and false for its values, not {value!r}"
    return None
