"""What an outcome writes to the user's row and to the dead letters, the same for both ways of claiming.

An outcome is a word: Done; Again, which is a failure with a wait; Dead; PutBack; and Park, which leaves the row as it is and
keeps it from being claimed, for what the table refused and for rows that are the application's to move. ``counted`` says
that an attempt ended, not only a claim.
"""

from typing import LiteralString

from psycopg import sql
from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import NOW, Name, Text, constant, error_text, moment, touched
from soloist.adapters.postgres.mapped_sql import COMMA, Shape, said
from soloist.domain.queue_tables import StatusMapping

FULL: tuple[tuple[str, LiteralString], ...] = (
    ("outcome", "text"),
    ("counted", "bool"),
    ("error", "text"),
    ("wait", "interval"),
    ("reason", "text"),
)
"""What is said of each row."""


def outcomes(shape: Shape, *more: tuple[str, LiteralString]) -> Composable:
    """``x``, as ``said`` has it."""
    return said(shape, *FULL, *more)


def all_done(shape: Shape, *more: tuple[str, LiteralString]) -> Composable:
    """The same of a batch of nothing but Done, of which less has to be said."""
    fixed = "'Done' AS outcome, true AS counted, NULL::pg_catalog.text AS error, NULL::pg_catalog.interval AS wait"
    return said(shape, *more, fixed=SQL(fixed))


def written(shape: Shape, row: str, outcome: str) -> list[Composable]:
    """What is assigned to the columns of ``row``. Only Done, Again and Dead change what is there."""
    table, columns = shape.table, shape.columns
    record, found = table.record, list[Composable]()

    def assign(column: str | None, cases: SQL, **more: Composable) -> None:
        if column is not None:
            old, now = Name(row, column), moment(NOW, columns[column])
            when = cases.format(h=sql.Identifier(outcome), old=old, now=now, **more)
            found.append(SQL("{} = CASE {} ELSE {} END").format(Name(column), when, old))

    if table.status is not None:
        found.append(_status(shape, table.status, row, outcome))
    assign(table.attempts, SQL("WHEN {h}.counted THEN coalesce({old}, 0) + 1"))
    if table.due_at is not None:
        later = moment(SQL("({} + {}.wait)").format(NOW, sql.Identifier(outcome)), columns[table.due_at])
        assign(table.due_at, SQL("WHEN {h}.outcome = 'Again' THEN {later}"), later=later)
    assign(record.last_attempt_at, SQL("WHEN {h}.counted THEN {now}"))
    assign(record.done_at, SQL("WHEN {h}.outcome = 'Done' THEN {now}"))
    if record.last_error is not None:
        column = columns[record.last_error]
        error = error_text(SQL("{}.error").format(sql.Identifier(outcome)), column)
        none = Name(row, record.last_error) if column.not_null else SQL("NULL")
        cases = SQL("WHEN {h}.outcome = 'Done' THEN {none} WHEN {h}.outcome IN ('Again', 'Dead') THEN {error}")
        assign(record.last_error, cases, error=error, none=none)
    for name in table.touch:
        value = touched(columns[name], Name(row, name))
        assign(name, SQL("WHEN {h}.outcome IN ('Done', 'Again', 'Dead') THEN {value}"), value=value)
    return found


def _status(shape: Shape, status: StatusMapping, row: str, outcome: str) -> Composable:
    """``running`` ends with every claim; a row that the application moved on is left where it is."""
    column, old = shape.columns[status.column], Name(row, status.column)
    left: Composable = old
    if status.running is not None:
        again = SQL("CASE WHEN {} = {} THEN {} ELSE {} END")
        left = again.format(old, constant(status.running, column), constant(status.pending[0], column), old)
    return SQL("{name} = CASE {h}.outcome WHEN 'Done' THEN {done} WHEN 'Dead' THEN {failed} ELSE {left} END").format(
        name=Name(status.column),
        h=sql.Identifier(outcome),
        done=constant(status.done or "", column),
        failed=constant(status.failed or "", column),
        left=left,
    )


def died(shape: Shape, outcome: str, *, where: Composable) -> Composable:
    """A letter for each row of ``outcome`` that died; it takes the place of one for the same row and due time."""
    return SQL(
        "died AS (INSERT INTO soloist.dead_rows AS d"
        " (key, queue, source, pk, due_at, fence, attempt, reclaims, reason, last_error)"
        " SELECT h.key, {queue}, {source}, ARRAY[{rows}], h.due, h.fence, h.attempt, h.reclaims, h.reason, h.error"
        " FROM {outcome} AS h WHERE h.outcome IN ('Dead', 'Park') AND {where}"
        " ON CONFLICT (key, (coalesce(due_at, '-infinity'::pg_catalog.timestamptz))) DO UPDATE"
        " SET (queue, died_at, fence, attempt, reclaims, reason, last_error) = (excluded.queue, excluded.died_at,"
        " excluded.fence, excluded.attempt, excluded.reclaims, excluded.reason, excluded.last_error))"
    ).format(
        queue=Text(shape.queue),
        source=Text(str(shape.table.name)),
        rows=COMMA.join(shape.said_rows("h")),
        outcome=sql.Identifier(outcome),
        where=where,
    )


def forgotten(keys: Composable) -> Composable:
    """A row that is done has no letter any more. Rows that their application moves keep theirs: it is of another time."""
    return SQL("forgotten AS (DELETE FROM soloist.dead_rows AS d WHERE d.key = ANY (ARRAY({})))").format(keys)
