"""Removing from the sidecar what no claim and no outcome would meet again.

A worker died, and the application deleted or finished the row it had claimed; or it did so with a row that was resting.
Nobody can claim such a row, so nobody would end what is left of its claim.
"""

from psycopg import sql
from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import NOW
from soloist.adapters.postgres.mapped_sql import AND, Shape
from soloist.domain.queue_tables import OutcomeBy

MOST_AT_ONCE = 500


def sweep(shape: Shape) -> Composable:
    """Looks through the next rows after a key and removes what is no claim's and of no use: its row is gone, or waits no
    more, or is due at another time. Gives the last key it looked at (null: it is through) and how many went."""
    texts = [SQL("substr(w.key, {})").format(sql.Literal(len(f"{shape.source}:") + 1))]
    if len(shape.table.id) > 1:
        texts = [
            SQL("({}::pg_catalog.text[])[{}]").format(texts[0], sql.Literal(n + 1)) for n in range(len(shape.table.id))
        ]
    waits = [SQL("({})").format(SQL(" OR ").join(shape.statuses("q")))]
    if shape.table.outcome is OutcomeBy.HANDLER:
        waits.append(SQL("{} IS NOT DISTINCT FROM w.due").format(shape.due("q")))
    return SQL(
        "WITH looked AS MATERIALIZED (SELECT w.key, (SELECT true FROM {relation} AS q WHERE {where} LIMIT 1) AS waits"
        " FROM soloist.claims AS w WHERE w.key > %(after)s AND w.key < {end} ORDER BY w.key LIMIT {most}),"
        " gone AS (DELETE FROM soloist.claims AS k WHERE k.key = ANY (ARRAY(SELECT l.key FROM looked AS l WHERE l.waits IS NULL))"
        " AND (k.fence IS NULL OR k.held_until <= {now}) RETURNING k.key)"
        " SELECT (SELECT max(key) FROM looked HAVING count(*) = {most}), (SELECT count(*) FROM gone)"
    ).format(
        relation=shape.relation,
        where=AND.join([shape.match("q", texts), *waits]),
        end=sql.Literal(f"{shape.source};"),
        now=NOW,
        most=sql.Literal(MOST_AT_ONCE),
    )
