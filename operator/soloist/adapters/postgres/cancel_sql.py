"""Rows of the user's table that are no longer wanted, by an SQL function: they get the status of those that were given up.

A row that is locked is waited for, and left alone where it is done by then. Nobody claims a row that is written here until
all of it commits, so its claim, if it has one, is ended by a statement of its own afterwards, which sees the latest: locks
are taken in the order of ``sidecar_sql``.
"""

from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.mapped_sql import COMMA, Shape, said
from soloist.adapters.postgres.outcome_sql import written

_AS_DEAD = SQL(
    "'Dead' AS outcome, false AS counted, 'It was cancelled.'::pg_catalog.text AS error, NULL::pg_catalog.interval AS wait"
)


def cancel(shape: Shape) -> Composable:
    """Gives the keys of those that waited or were being worked, as the rows have them, however the caller writes them."""
    return SQL(
        "WITH {said} UPDATE {relation} AS q SET {assigned} FROM x WHERE {match} AND ({waits}) RETURNING {key}"
    ).format(
        said=said(shape, fixed=_AS_DEAD),
        relation=shape.relation,
        assigned=COMMA.join(written(shape, "q", "x")),
        match=shape.match("q", shape.said_rows("x")),
        waits=SQL(" OR ").join(shape.statuses("q")),
        key=shape.key(shape.rows("q")),
    )
