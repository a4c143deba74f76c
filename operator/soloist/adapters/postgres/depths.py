"""The depths of a database's queues on the managed table, by one statement for all of them.

Counts are of an index alone and end at a number, so a table of any size is measured in bounded time; whoever measures
does so once for everybody, and not in each worker.
"""

from collections.abc import Sequence

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.statements import statement
from soloist.domain.depth import Depth

MOST = 100_000
"""As far as a queue is counted, in each priority."""


async def managed_depths(database: Database, queues: Sequence[str], *, most: int = MOST) -> dict[str, Depth]:
    """By the name of the queue; one without a single row has a depth of nothing."""
    rows = await database.fetch(statement("depths"), {"queues": list(queues), "most": most})
    return {
        queue: Depth(
            ready=ready, scheduled=scheduled, in_flight=in_flight, dead=dead, oldest_due=oldest_due, whole=whole
        )
        for queue, ready, scheduled, in_flight, oldest_due, dead, whole in rows
    }
