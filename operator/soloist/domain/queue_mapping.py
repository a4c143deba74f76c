"""``spec.table``: what the columns of the user's own table mean to us.

Here is refused whatever could not work with any table: a finished row that would be pending again, a column with two
meanings, columns that nobody would write. Whether the columns exist is for the database to say.
"""

from collections.abc import Iterator
from enum import StrEnum

from soloist.domain.queue_columns import parse_column, parse_columns, parse_table_name, required_column
from soloist.domain.queue_tables import Column, Inline, MappedTable, OutcomeBy, Record, Sidecar, StatusMapping
from soloist.domain.spec_fields import Fields, forbidden, required, shown, wrong

_MOST_VALUES = 16
_LONGEST_VALUE = 255


class ClaimIn(StrEnum):
    """Where a claim on a row of the user's table is kept."""

    SIDECAR = "Sidecar"
    INLINE = "Inline"


def parse_table(table: Fields) -> MappedTable:
    """Read ``spec.table``, but for ``maxAttempts``; raises ``Refusal``."""
    outcome = table.choice("outcome", OutcomeBy.WORKER)
    record = table.nested("record", "") if table.has("record") else Fields({}, table.at("record"))
    mapped = MappedTable(
        name=parse_table_name(table, "name"),
        id=_id(table),
        due_at=parse_column(table, "dueAt"),
        status=_status(table, outcome),
        attempts=parse_column(table, "attempts"),
        record=Record(
            last_attempt_at=parse_column(record, "lastAttemptAt"),
            last_error=parse_column(record, "lastError"),
            done_at=parse_column(record, "doneAt"),
        ),
        touch=parse_columns(table, "touch"),
        claim=_claim(table, outcome),
        outcome=outcome,
    )
    _check(table, mapped)
    return mapped


def parse_max_attempts(table: Fields, default: int, most: int) -> int | Column:
    """``table.maxAttempts``: a number, or {column: …}."""
    if isinstance(table.raw.get("maxAttempts"), int | float | str | None):
        return table.whole("maxAttempts", default, least=1, most=most)
    limit = table.nested("maxAttempts", "a number, or column under it")
    return Column(required_column(limit, "column", "the column that holds the number"))


def _id(table: Fields) -> tuple[str, ...]:
    if isinstance(table.raw.get("id"), list | tuple):
        columns = parse_columns(table, "id")
        if columns:
            return columns
        raise required(table.at("id"), "the columns of the primary key")
    return (required_column(table, "id", "the column of the primary key, or a list of its columns"),)


def _status(table: Fields, outcome: OutcomeBy) -> StatusMapping | None:
    if not table.has("status"):
        if outcome is OutcomeBy.HANDLER:
            return None
        what = "column, pending, done and failed under it, since outcome: Worker has to write what became of a row"
        raise required(table.at("status"), what)
    status = table.nested("status", "")
    mapping = StatusMapping(
        column=required_column(status, "column", "the column that says how far a row is"),
        pending=status.texts("pending", longest=_LONGEST_VALUE, most=_MOST_VALUES),
        done=_value(status, "done"),
        failed=_value(status, "failed"),
        running=_value(status, "running"),
    )
    if not mapping.pending:
        raise required(status.at("pending"), "the values with which a row waits for its work")
    if outcome is OutcomeBy.WORKER and (mapping.done is None or mapping.failed is None):
        raise wrong(
            status.path,
            f"{status.path}: outcome: Worker has to write what became of a row: write both done and failed, or outcome: Handler.",
        )
    if {mapping.done, mapping.failed, mapping.running} & set(mapping.pending):
        raise wrong(
            status.path,
            f"{status.path}: done, failed and running must not be among pending, or such a row would be claimed again: "
            "give each a value of its own.",
        )
    return mapping


def _value(status: Fields, name: str) -> str | None:
    return status.text(name, "a value, or remove it", longest=_LONGEST_VALUE) if status.has(name) else None


def _claim(table: Fields, outcome: OutcomeBy) -> Sidecar | Inline:
    mode = table.choice("claim", ClaimIn.SIDECAR)
    if mode is ClaimIn.SIDECAR:
        if table.has("inline"):
            path = table.at("inline")
            raise forbidden(path, f"{path} names the columns of an Inline claim: write claim: Inline, or remove it.")
        return Sidecar()
    if outcome is OutcomeBy.HANDLER:
        path = table.at("claim")
        raise wrong(
            path,
            f"{path}: Inline is not for outcome: Handler, whose failures are kept in the sidecar: remove it, or write outcome: Worker.",
        )
    if not table.has("inline"):
        raise required(table.at("inline"), "fence, leaseUntil and reclaims under it, the columns of an Inline claim")
    if not table.has("dueAt"):
        raise required(table.at("dueAt"), "the column that an Inline claim writes the next attempt's time to")
    inline = table.nested("inline", "")
    return Inline(
        fence=required_column(inline, "fence", "a bigint or text column"),
        lease_until=required_column(inline, "leaseUntil", "a timestamp column"),
        reclaims=required_column(inline, "reclaims", "an integer column"),
        claimed_by=parse_column(inline, "claimedBy"),
    )


def _check(table: Fields, mapped: MappedTable) -> None:
    """What only shows once everything is read."""
    path = table.path
    if mapped.outcome is OutcomeBy.HANDLER:
        _check_handler(table, mapped)
    if mapped.status is not None and mapped.status.running is not None and isinstance(mapped.claim, Sidecar):
        raise forbidden(
            f"{path}.status.running",
            f"{path}.status.running is not for a Sidecar claim, which writes nothing to the row: remove it, or write claim: Inline.",
        )
    seen: dict[str, str] = {}
    for meaning, column in _meanings(mapped):
        if column in seen:
            raise wrong(
                f"{path}.{meaning}",
                f"{path}.{meaning} names the column {shown(column)}, and so does {seen[column]}: give each a column of its own.",
            )
        seen[column] = meaning


def _check_handler(table: Fields, mapped: MappedTable) -> None:
    path, status = table.path, mapped.status
    end = "not for outcome: Handler, with which Soloist writes nothing to the row: remove"
    if status is None and mapped.due_at is None:
        raise wrong(path, f"{path}: outcome: Handler needs to see that a row was moved: write dueAt or status.")
    for name in ("attempts", "record", "touch"):
        if table.has(name):
            raise forbidden(table.at(name), f"{table.at(name)} is {end} it, or write outcome: Worker.")
    if status is not None and (status.done, status.failed, status.running) != (None, None, None):
        at = table.at("status")
        raise forbidden(at, f"{at}: done, failed and running are {end} them, or write outcome: Worker.")


def _meanings(mapped: MappedTable) -> Iterator[tuple[str, str]]:
    """Every column that the mapping names, with the field that names it."""
    named: list[tuple[str, str | None]] = [("id", column) for column in mapped.id]
    named += [("dueAt", mapped.due_at), ("status.column", mapped.status.column if mapped.status else None)]
    named += [("attempts", mapped.attempts), ("record.lastAttemptAt", mapped.record.last_attempt_at)]
    named += [("record.lastError", mapped.record.last_error), ("record.doneAt", mapped.record.done_at)]
    named += [("touch", column) for column in mapped.touch]
    if isinstance(mapped.claim, Inline):
        named += [("inline.fence", mapped.claim.fence), ("inline.leaseUntil", mapped.claim.lease_until)]
        named += [("inline.reclaims", mapped.claim.reclaims), ("inline.claimedBy", mapped.claim.claimed_by)]
    return ((meaning, column) for meaning, column in named if column is not None)
