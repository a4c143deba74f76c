"""The calls for connections that are not awaited: psycopg's ``Connection``, SQLAlchemy's ``Connection`` and ``Session``.

Each is one statement in the caller's own transaction. Nothing here commits or rolls back, so a row is enqueued if and only
if the application's own writes are there.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from soloist.queue import statements
from soloist.queue.connections import run
from soloist.queue.statements import ClaimedRow


def enqueue(
    connection: Any,
    queue: str,
    payload: Any,
    *,
    due_at: datetime | None = None,
    unique_key: str | None = None,
    priority: int = 1,
) -> int | None:
    """One row to do; its id, or None where a row with that ``unique_key`` waits or is under way in the queue.

    ``queue`` is NAMESPACE/NAME of a WorkQueue, or the name that your own worker asks for. ``priority``: 0 goes first, 3 last.
    """
    (made,) = run(connection, statements.enqueue(queue, payload, due_at, unique_key, priority))
    return None if made is None else int(made)


def enqueue_many(
    connection: Any,
    queue: str,
    payloads: Sequence[Any],
    *,
    due_at: datetime | None = None,
    unique_keys: Sequence[str | None] | None = None,
    priority: int = 1,
) -> list[int]:
    """Many rows by one statement; the ids of those that were made. ``unique_keys`` has one for each payload."""
    return run(connection, statements.enqueue_many(queue, payloads, due_at, unique_keys, priority))


def cancel(connection: Any, *ids: int) -> list[int]:
    """Take rows back, also those that somebody works on: their claim is then lost. The ids that were still there."""
    return run(connection, statements.cancel(ids))


def cancel_key(connection: Any, queue: str, unique_key: str) -> list[int]:
    """The same by the row's ``unique_key``."""
    return run(connection, statements.cancel_key(queue, unique_key))


def complete(connection: Any, claimed: ClaimedRow) -> None:
    """End the claim in the transaction of the effect, so that both commit or neither. ``ClaimLost``: roll back."""
    run(connection, statements.complete(claimed))


def once(connection: Any, key: str, fence: int) -> bool:
    """First in the transaction of an effect. True: go on. False: it was done before. ``StaleFence``: you were replaced."""
    return bool(run(connection, statements.once(key, fence))[0])


def checkpoint(connection: Any, name: str, value: Any, fence: int) -> None:
    """Keep ``value`` under ``name``; ``StaleFence`` where a later fence has written it."""
    run(connection, statements.checkpoint(name, value, fence))


def read_checkpoint(connection: Any, name: str) -> Any:
    """What was last kept under ``name``; None where nothing was."""
    return statements.decoded(run(connection, statements.read_checkpoint(name))[0])
