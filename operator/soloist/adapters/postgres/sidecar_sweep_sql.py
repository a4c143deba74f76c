"""Removing from the sidecar what no claim and no outcome would meet again.

A worker died, and the application deleted or finished the row it had claimed; or it did so with a row that was resting.
Nobody can claim such a row, so nobody would end what is left of its claim.

A row with any other status (a pause, say) may yet come to be claimed, and keeps what is known of it: that it waits for a
person, how often it was tried. At most one row of the sidecar is kept so for each of the user's, and it goes with that.
"""

from psycopg import sql
from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import NOW, Name, constant
from soloist.adapters.postgres.inline_parked_sql import parked
from soloist.adapters.postgres.mapped_sql import AND, Shape
from soloist.domain.queue_tables import OutcomeBy

_PART = SQL(
    "FROM soloist.claims AS w WHERE w.key > %(after)s AND w.key < {end} ORDER BY w.key LIMIT %(most)s::pg_catalog.int8"
)
_END = SQL("(SELECT max(key) FROM looked HAVING count(*) = %(most)s)")


def sweep(shape: Shape) -> Composable:
    """Looks through the next rows after a key and removes what is no claim's and of no use: its row is gone, or finished, or
    (Handler, Inline) due at another time. Gives the last key it looked at (null: it is through) and how many went.

    What was written since it was looked at stays: an outcome may remember the very same of its row again."""
    texts = [SQL("substr(w.key, {})").format(sql.Literal(len(f"{shape.source}:") + 1))]
    if len(shape.table.id) > 1:
        texts = [
            SQL("({}::pg_catalog.text[])[{}]").format(texts[0], sql.Literal(n + 1)) for n in range(len(shape.table.id))
        ]
    return SQL(
        "WITH looked AS MATERIALIZED (SELECT w.key, w.xmin, (SELECT true FROM {relation} AS q WHERE {where} LIMIT 1) AS of_use {part}),"
        " gone AS (DELETE FROM soloist.claims AS k USING looked AS l WHERE k.key = l.key AND k.xmin = l.xmin AND l.of_use IS NULL"
        " AND (k.fence IS NULL OR k.held_until <= {now}) RETURNING k.key)"
        " SELECT {end}, (SELECT count(*) FROM gone)"
    ).format(
        relation=shape.relation,
        where=AND.join([shape.match("q", texts), *_of_use(shape)]),
        part=_part(shape),
        now=NOW,
        end=_END,
    )


def behind(shape: Shape) -> Composable:
    """Gives the last key of the rows that a sweep would look at (null: there are no more), and does not look at them."""
    return SQL("WITH looked AS MATERIALIZED (SELECT w.key {part}) SELECT {end}").format(part=_part(shape), end=_END)


def _part(shape: Shape) -> Composable:
    return _PART.format(end=sql.Literal(f"{shape.source};"))


def _of_use(shape: Shape) -> list[Composable]:
    """Conditions for a row ``q`` of the user's, to which ``w`` belongs."""
    found, status = list[Composable](), shape.table.status
    if status is not None:
        over = [value for value in (status.done, status.failed) if value is not None]
        name, column = Name("q", status.column), shape.columns[status.column]
        # Not "is another": a status may be null.
        found += [SQL("({} = {}) IS NOT TRUE").format(name, constant(value, column)) for value in over]
    if shape.inline is not None:
        found.append(parked(shape, shape.inline, "q"))  # of such rows nothing else is remembered
    if shape.inline is not None or shape.table.outcome is OutcomeBy.HANDLER:
        found.append(SQL("{} IS NOT DISTINCT FROM w.due").format(shape.due("q")))
    return found
