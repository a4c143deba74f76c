"""How many rows were given up in their places and are due as before, so that claims pass over them.

The sidecar alone does not tell: it keeps what it knows of such a row also while the application has it out of work. So the
rows are looked at as a claim finds them, those first that have been due for longest.
"""

from dataclasses import replace

from psycopg.sql import SQL, Composable, Composed

from soloist.adapters.postgres.column_sql import NOW, Name, moment
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped_sql import AND, BY_INDEX, Shape

_SOURCE = b"SELECT s.id FROM soloist.sources AS s WHERE s.name = %(name)s"


async def still_due(database: Database, shape: Shape, *, most: int) -> int:
    """Of the first ``most`` of each status. ``shape.source`` may be none yet."""
    sources = await database.fetch(_SOURCE, {"name": str(shape.table.name)})
    if not sources:
        return 0
    statement = counting(replace(shape, source=sources[0][0])).as_bytes(None)
    ((count,),) = await database.fetch(statement, {"most": most}, ahead=BY_INDEX)
    return int(count)


def counting(shape: Shape) -> Composable:
    return SQL(
        "SELECT count(*) FROM ({}) AS s WHERE (SELECT true FROM soloist.claims AS k WHERE k.key = s.key AND k.fence IS NULL"
        " AND k.held_until = 'infinity' AND k.due IS NOT DISTINCT FROM s.due LIMIT 1)"
    ).format(SQL(" UNION ALL ").join(_due(shape, status) for status in shape.statuses("q")))


def _due(shape: Shape, status: Composable) -> Composable:
    where, column, order = [status], shape.table.due_at, Composed([])
    if column is not None:
        at = Name("q", column)
        where.append(SQL("{} <= {}").format(at, moment(NOW, shape.columns[column])))
        order = SQL(" ORDER BY {}").format(at)
    return SQL(
        "(SELECT {key} AS key, {due} AS due FROM {relation} AS q WHERE {where}{order} LIMIT %(most)s::pg_catalog.int8)"
    ).format(
        key=shape.key(shape.rows("q")), due=shape.due("q"), relation=shape.relation, where=AND.join(where), order=order
    )
