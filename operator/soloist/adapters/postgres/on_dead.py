"""The queue's own statement, run with each dead letter and in its transaction, so that neither is there without the other.

It is the user's text with our values, and whatever is wrong with it is a reason to park that row and no other: no outcome
waits for somebody to mend it.
"""

from collections.abc import Mapping
from typing import Any

import psycopg

from soloist.adapters.postgres.connections import Connection
from soloist.adapters.postgres.failures import RowRefused, translated
from soloist.domain.errors import PermanentError
from soloist.domain.queue_spec import OnDead


async def run_on_dead(connection: Connection, on_dead: OnDead, values: Mapping[str, Any]) -> None:
    """Raises RowRefused where the statement cannot be run, unless a later try may succeed."""
    try:
        async with psycopg.AsyncRawCursor(connection) as cursor:
            await cursor.execute(on_dead.statement.encode(), [values[word] for word in on_dead.values])
    except psycopg.Error as problem:
        meaning = translated(problem, "onDead.sql")
        if isinstance(meaning, PermanentError):
            raise RowRefused(str(meaning), sqlstate=problem.sqlstate or "") from problem
        raise
