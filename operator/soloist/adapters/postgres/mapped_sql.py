"""What statements on a user's own table are made of, by the mapping and the types of its columns.

Composed once for each queue: names go through a composer of identifiers, the mapping's values stand in the text as constants
of the column's type (only so can a partial index serve), and whatever differs from batch to batch is a parameter.

A row is known in the schema soloist by one text, its key: the source's number, a colon, and the primary key as text; of
a composite one the array of its texts, so that no two rows can share a key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql
from psycopg.sql import Composable

from soloist.adapters.postgres.column_sql import NOW, Name, constant, instant, key_text, key_value, moment
from soloist.domain.catalog import TableColumn
from soloist.domain.queue_tables import Inline, MappedTable

NO_TIME = sql.SQL("NULL::pg_catalog.timestamptz")
NO_TEXT = sql.SQL("NULL::pg_catalog.text")
NO_NUMBER = sql.SQL("NULL::pg_catalog.int8")
COMMA, AND = sql.SQL(", "), sql.SQL(" AND ")
LIFTED = sql.SQL("lifted AS MATERIALIZED (SELECT soloist.lift_fence() FROM due LIMIT 1)")
IS_LIFTED = sql.SQL("(SELECT pg_catalog.count(*) FROM lifted) >= 0")
"""The fence is lifted to the present before any is handed out. Where there is none to hand out nothing is written: an idle
queue is asked often, and would wait for the disk each time. The latter is true, and what has it in its WHERE comes after."""

# What the planner may not do, whatever its statistics say: they are taken while a table is full, or empty, and lie. Rows
# are found by an index, in its order, and looked up one by one; what a claim in the sidecar joins are two batches. Such a
# plan is the right one for any values, so it is kept.
_PLANNER = """SELECT pg_catalog.set_config(s.name, s.value, true)
FROM (VALUES {}, ('jit', 'off'), ('plan_cache_mode', 'force_generic_plan')) AS s(name, value)"""
_OFF = "('enable_{}', 'off')"


def _without(*ways: str) -> bytes:
    return _PLANNER.format(", ".join(map(_OFF.format, ways))).encode()


BY_INDEX = _without("seqscan", "bitmapscan", "hashjoin", "mergejoin")
SIDECAR_CLAIM = _without("seqscan", "bitmapscan", "sort", "nestloop", "mergejoin")
INLINE_CLAIM = _without("seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A mapping that was held against the catalog. ``body``, ``per_key`` and ``limit`` (of attempts) are columns, or None."""

    table: MappedTable
    columns: Mapping[str, TableColumn]
    source: int
    queue: str
    body: str | None = None
    per_key: str | None = None
    limit: str | None = None

    @property
    def relation(self) -> Composable:
        return Name(self.table.name.schema, self.table.name.table)

    @property
    def inline(self) -> Inline | None:
        return self.table.claim if isinstance(self.table.claim, Inline) else None

    @property
    def carried(self) -> tuple[str, ...]:
        """``Claim.columns`` but for the body: what a delivery reads; with Inline the status, which an outcome looks for again."""
        status = self.table.status
        names = [*self.table.columns, *([status.column] if self.inline is not None and status is not None else [])]
        return tuple(name for name in dict.fromkeys(names) if name != self.body)

    def rows(self, alias: str) -> list[Composable]:
        """The primary key of ``alias``, one text for each of its columns."""
        return [key_text(Name(alias, column), self.columns[column]) for column in self.table.id]

    def said_rows(self, *alias: str) -> list[Composable]:
        """What those texts are called where they are not read from the table."""
        return [sql.Identifier(*alias, f"r{number}") for number in range(len(self.table.id))]

    def key(self, rows: Sequence[Composable]) -> Composable:
        one = rows[0] if len(rows) == 1 else sql.SQL("ARRAY[{}]::pg_catalog.text").format(COMMA.join(rows))
        return sql.SQL("{} || {}").format(sql.Literal(f"{self.source}:"), one)

    def values(self, rows: Sequence[Composable]) -> list[Composable]:
        """Those texts as values of the primary key's types."""
        return [key_value(text, self.columns[column]) for text, column in zip(rows, self.table.id, strict=True)]

    def match(self, alias: str, rows: Sequence[Composable]) -> Composable:
        pairs = zip(self.table.id, self.values(rows), strict=True)
        return AND.join(sql.SQL("{} = {}").format(Name(alias, column), value) for column, value in pairs)

    def due(self, alias: str) -> Composable:
        column = self.table.due_at
        return NO_TIME if column is None else instant(Name(alias, column), self.columns[column])

    def status(self, alias: str) -> Composable:
        status = self.table.status
        return NO_TEXT if status is None else sql.SQL("{}::pg_catalog.text").format(Name(alias, status.column))

    def attempts(self, alias: str) -> Composable:
        column = self.table.attempts
        return NO_NUMBER if column is None else sql.SQL("coalesce({}, 0)::pg_catalog.int8").format(Name(alias, column))

    def carried_texts(self, alias: str) -> list[Composable]:
        """The body, then the columns that a claim carries."""
        texts = [sql.SQL("{}::pg_catalog.text").format(Name(alias, name)) for name in self.carried]
        body = NO_TEXT if self.body is None else sql.SQL("{}::pg_catalog.text").format(Name(alias, self.body))
        return [body, *texts]

    def carried_as(self, *alias: str) -> list[Composable]:
        return [sql.Identifier(*alias, f"c{number}") for number in range(len(self.carried) + 1)]

    def statuses(self, alias: str) -> list[Composable]:
        """One condition for each value with which a row may be claimed; true where the mapping names no status."""
        status = self.table.status
        if status is None:
            return [sql.SQL("true")]
        values = status.pending if status.running is None else (*status.pending, status.running)
        equal = sql.SQL("{} = {}")
        return [
            equal.format(Name(alias, status.column), constant(value, self.columns[status.column])) for value in values
        ]

    def is_due(self, alias: str) -> list[Composable]:
        """What else a row has to be like for a claim."""
        due, found = self.table.due_at, list[Composable]()
        if due is not None:
            after = moment(sql.SQL("%(after)s::pg_catalog.timestamptz"), self.columns[due])
            now = moment(NOW, self.columns[due])
            found.append(sql.SQL("{at} <= {now} AND {at} >= {after}").format(at=Name(alias, due), now=now, after=after))
        if self.per_key is not None:
            key = Name(alias, self.per_key)
            found.append(sql.SQL("coalesce({}::pg_catalog.text <> ALL (%(without)s), true)").format(key))
        return found


def due_rows(
    shape: Shape, selected: Sequence[Composable], free: Composable, first: int, only: Composable | None
) -> Composable:
    """``p0 AS (…), …, due AS (…)``: at most ``%(most)s`` due rows, locked, roughly by due time, those in use passed over.

    One part for each status, since an index that begins with the status gives the order only within one. A part that is
    never reached locks nothing. ``first`` says which status goes first; whoever claims turns it, or the last would starve.
    ``only`` says which of those rows, so many and no more, are meant.
    """
    statuses = shape.statuses("q")
    names = [sql.Identifier(f"p{number}") for number in range(len(statuses))]
    if only is not None:
        selected = [*selected, sql.SQL("{} AS meant").format(only)]
    due_at, parts = shape.table.due_at, list[Composable]()
    for number, status in enumerate([*statuses[first:], *statuses[:first]]):
        taken = [sql.SQL("(SELECT count(*) FROM {})").format(earlier) for earlier in names[:number]]
        part = sql.SQL(
            "{name} AS MATERIALIZED (SELECT {selected} FROM {relation} AS q WHERE {where}{order} LIMIT {most}"
            " FOR NO KEY UPDATE OF q SKIP LOCKED)"
        ).format(
            name=names[number],
            selected=COMMA.join(selected),
            relation=shape.relation,
            where=AND.join([status, *shape.is_due("q"), free]),
            order=sql.SQL("") if due_at is None else sql.SQL(" ORDER BY {}").format(Name("q", due_at)),
            most=sql.SQL(" - ").join([sql.SQL("%(most)s::pg_catalog.int8"), *taken]),
        )
        parts.append(part)
    which = sql.SQL("SELECT * FROM {}" if only is None else "SELECT * FROM {} WHERE meant")
    every = sql.SQL(" UNION ALL ").join(which.format(name) for name in names)
    return sql.SQL("{}, due AS MATERIALIZED ({})").format(COMMA.join(parts), every)


def said(shape: Shape, *more: tuple[str, LiteralString], fixed: Composable | None = None) -> Composable:
    """``x``: the rows a caller speaks of, in the order of their keys.

    They come as arrays of one length: r0, r1 … (the primary key), fence, and ``more`` (name and type). ``fixed`` is the
    same for all.
    """
    rows: list[tuple[str, LiteralString]] = [(f"r{number}", "text") for number in range(len(shape.table.id))]
    named = [*rows, ("fence", "int8"), *more]
    arrays = [sql.SQL("{}::pg_catalog.{}[]").format(sql.Placeholder(name), sql.SQL(kind)) for name, kind in named]
    return sql.SQL(
        "x AS MATERIALIZED (SELECT u.*, {key} AS key{fixed}"
        " FROM unnest({arrays}) WITH ORDINALITY AS u({names}, n) ORDER BY {order})"
    ).format(
        key=shape.key(shape.said_rows("u")),
        fixed=sql.SQL("") if fixed is None else sql.SQL(", {}").format(fixed),
        arrays=COMMA.join(arrays),
        names=COMMA.join(sql.Identifier(name) for name, _ in named),
        order=COMMA.join(shape.values(shape.said_rows("u"))),
    )
