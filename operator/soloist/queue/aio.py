"""The calls of ``soloist.queue`` to be awaited: psycopg's ``AsyncConnection``, SQLAlchemy's ``AsyncConnection``, ``AsyncSession``.

Each is one statement in the caller's own transaction, and means what its namesake means.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from soloist.queue import statements
from soloist.queue.connections import run_async
from soloist.queue.statements import ClaimedRow


async def enqueue(
    connection: Any,
    queue: str,
    payload: Any,
    *,
    due_at: datetime | None = None,
    unique_key: str | None = None,
    priority: int = 1,
) -> int | None:
    (made,) = await run_async(connection, statements.enqueue(queue, payload, due_at, unique_key, priority))
    return None if made is None else int(made)


async def enqueue_many(
    connection: Any,
    queue: str,
    payloads: Sequence[Any],
    *,
    due_at: datetime | None = None,
    unique_keys: Sequence[str | None] | None = None,
    priority: int = 1,
) -> list[int]:
    return await run_async(connection, statements.enqueue_many(queue, payloads, due_at, unique_keys, priority))


async def cancel(connection: Any, *ids: int) -> list[int]:
    return await run_async(connection, statements.cancel(ids))


async def cancel_key(connection: Any, queue: str, unique_key: str) -> list[int]:
    return await run_async(connection, statements.cancel_key(queue, unique_key))


async def complete(connection: Any, claimed: ClaimedRow) -> None:
    await run_async(connection, statements.complete(claimed))


async def once(connection: Any, key: str, fence: int) -> bool:
    return bool((await run_async(connection, statements.once(key, fence)))[0])


async def checkpoint(connection: Any, name: str, value: Any, fence: int) -> None:
    await run_async(connection, statements.checkpoint(name, value, fence))


async def read_checkpoint(connection: Any, name: str) -> Any:
    return statements.decoded((await run_async(connection, statements.read_checkpoint(name)))[0])
