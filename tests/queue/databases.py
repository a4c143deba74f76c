"""A ``Database`` of the product on a database of the tests, and coroutines that get one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.url import database_url

T = TypeVar("T")


def opened(dsn: str, **changed: Any) -> Database:
    """As the URL says, but for what is `changed`: `statement_timeout=0.5`."""
    return Database(replace(database_url(dsn), **changed), program="tests")


def with_database(dsn: str, body: Callable[[Database], Awaitable[T]], **changed: Any) -> T:
    """Runs the coroutine and closes the database."""

    async def inside() -> T:
        database = opened(dsn, **changed)
        try:
            return await body(database)
        finally:
            await database.close()

    return asyncio.run(inside())
