"""SQL for one value of a column of the user's: how it is compared, written and named, by the column's type.

Whatever depends on a session (DateStyle, TimeZone) is avoided: two sessions have to spell a primary key and a due time
alike, or one row would be claimed under two names. So instants are compared as such, a timestamp without zone is taken to
hold UTC, and times become text by a fixed pattern.
"""

from psycopg import sql
from psycopg.abc import AdaptContext
from psycopg.sql import Composable

from soloist.domain.catalog import JSON, WHOLE, TableColumn


class Name(sql.Identifier):
    """A name of the user's, in a text whose %(…)s are parameters."""

    def as_bytes(self, context: AdaptContext | None = None) -> bytes:
        return super().as_bytes(context).replace(b"%", b"%%")


class Text(sql.Literal):
    """A constant of the user's, likewise."""

    def as_bytes(self, context: AdaptContext | None = None) -> bytes:
        return super().as_bytes(context).replace(b"%", b"%%")


NOW = sql.SQL("pg_catalog.statement_timestamp()")
LONGEST_ERROR = 4000
# to_char has no sign for years before the first: without the letters, two of them would read alike.
_ISO = sql.SQL(
    """CASE WHEN pg_catalog.isfinite({0}) THEN pg_catalog.to_char({0} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
    " || CASE WHEN {0} < '0001-01-01 00:00:00+00'::pg_catalog.timestamptz THEN ' BC' ELSE '' END"
    " ELSE {0}::pg_catalog.text END"
)
_MOST_ENDED = 2**31 - 3


def cast(value: Composable, column: TableColumn) -> Composable:
    """``value`` as the column's own type; a constant so written matches a partial index."""
    return sql.SQL("{}::{}").format(value, Name(column.type_schema, column.type_name))


def constant(text: str, column: TableColumn) -> Composable:
    return cast(Text(text), column)


def instant(value: Composable, column: TableColumn) -> Composable:
    """A value of the column as timestamp with time zone."""
    if column.base == "date":
        value = sql.SQL("{}::pg_catalog.timestamp").format(value)
    return sql.SQL("({} AT TIME ZONE 'UTC')").format(value) if column.naive else value


def moment(value: Composable, column: TableColumn) -> Composable:
    """An instant as the column has it. Not rounded to its digits: for comparisons with an index."""
    if not column.naive:
        return value
    naive = sql.SQL("({} AT TIME ZONE 'UTC')").format(value)
    return sql.SQL("{}::pg_catalog.date").format(naive) if column.base == "date" else naive


def iso(value: Composable) -> Composable:
    """An instant as text that reads the same in every session."""
    return _ISO.format(value)


def key_text(value: Composable, column: TableColumn) -> Composable:
    """A primary key's value as text, the same in every session."""
    if column.base in ("timestamp", "timestamptz", "date"):
        return iso(instant(value, column))
    if column.base == "bytea":
        return sql.SQL("pg_catalog.encode({}, 'hex')").format(value)
    return sql.SQL("{}::pg_catalog.text").format(value)


def key_value(text: Composable, column: TableColumn) -> Composable:
    """Back from ``key_text``: of the column's type, so that an index finds it."""
    if column.base in ("timestamp", "timestamptz", "date"):
        return moment(sql.SQL("{}::pg_catalog.timestamptz").format(text), column)
    if column.base == "bytea":
        return sql.SQL("pg_catalog.decode({}, 'hex')").format(text)
    return cast(text, column)


def error_text(value: Composable, column: TableColumn) -> Composable:
    """An error as the column takes one, cut to what fits."""
    cut = sql.SQL("pg_catalog.left({}, {})").format(
        value, sql.Literal(min(column.length or LONGEST_ERROR, LONGEST_ERROR))
    )
    if column.base in JSON:
        return cast(sql.SQL("pg_catalog.to_jsonb({})").format(cut), column)
    return cast(cut, column)


def counted(value: Composable) -> Composable:
    """A count of attempts that ended, as an integer to which two more can be added, whatever an application wrote there."""
    return sql.SQL("greatest(least({}, {}), 0)::pg_catalog.int4").format(value, sql.Literal(_MOST_ENDED))


def touched(column: TableColumn, name: Composable) -> Composable:
    """What an ORM would set at an update: the time, or the next number of a version."""
    if column.base in WHOLE or column.base == "numeric":
        return sql.SQL("coalesce({}, 0) + 1").format(name)
    return moment(NOW, column)
