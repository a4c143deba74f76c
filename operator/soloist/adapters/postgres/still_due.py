"""How many rows were given up in their places and are due as before, so that claims pass over them.

The sidecar alone does not tell: it keeps what it knows of such a row also while the application has it out of work. So the
rows are looked at as a claim finds them, those first that have been due for longest.
"""

from dataclasses import replace

from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.inline_parked_sql import remembered
from soloist.adapters.postgres.mapped_depths import due_rows
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape

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
    return SQL("SELECT count(*) FROM ({}) AS s WHERE {}").format(
        SQL(" UNION ALL ").join(due_rows(shape, status) for status in shape.statuses("q")),
        remembered(SQL("s.key"), SQL("s.due")),
    )
