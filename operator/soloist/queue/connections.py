"""Runs a call in the transaction that the caller's connection is in: psycopg 3, or SQLAlchemy 2 over psycopg or psycopg2.

SQLAlchemy is known by what it offers and never imported. The rows come as tuples, whatever row factory the application has
chosen. What belongs into a transaction with the application's own writes is refused where there is none to be in.
"""

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from soloist.queue.errors import typed
from soloist.queue.statements import Call

ALONE = (
    "This connection commits each statement by itself, so what you write afterwards would not be in one transaction with "
    "this call: open a transaction first (with connection.transaction(): …)."
)


def run(connection: Any, call: Call) -> list[Any]:
    """The one column of the answer."""
    with typed():
        if isinstance(connection, psycopg.Connection):
            _together(connection, call)
            with connection.cursor(row_factory=tuple_row) as cursor:
                return [row[0] for row in cursor.execute(call.text.encode(), call.values).fetchall()]
        if isinstance(connection, psycopg.AsyncConnection):
            raise TypeError("This is an AsyncConnection: use the calls of soloist.queue.aio, and await them.")
        if hasattr(connection, "get_bind") and not hasattr(connection, "exec_driver_sql"):
            connection = connection.connection()  # a Session's
        if not hasattr(connection, "exec_driver_sql"):
            raise _unknown(connection)
        _pyformat(connection)
        _together(_driver(connection), call)
        return list(connection.exec_driver_sql(call.text, dict(call.values)).scalars())


async def run_async(connection: Any, call: Call) -> list[Any]:
    """The same where everything is awaited."""
    with typed():
        if isinstance(connection, psycopg.AsyncConnection):
            _together(connection, call)
            async with connection.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(call.text.encode(), call.values)
                return [row[0] for row in await cursor.fetchall()]
        if hasattr(connection, "sync_session"):
            connection = await connection.connection()  # an AsyncSession's
        if not hasattr(connection, "sync_connection"):
            raise _unknown(connection)
        _pyformat(connection)
        _together(_driver(connection.sync_connection), call)
        return list((await connection.exec_driver_sql(call.text, dict(call.values))).scalars())


def _together(driver: Any, call: Call) -> None:
    if not call.together or not getattr(driver, "autocommit", False):
        return
    ours = isinstance(driver, psycopg.Connection | psycopg.AsyncConnection)
    if not ours or driver.info.transaction_status == TransactionStatus.IDLE:
        raise ValueError(ALONE)


def _driver(connection: Any) -> Any:
    return getattr(connection.connection, "driver_connection", None)


def _pyformat(connection: Any) -> None:
    style = connection.dialect.paramstyle
    if style != "pyformat":
        name = connection.dialect.driver
        raise TypeError(f"The driver {name} binds by {style}: use psycopg (postgresql+psycopg://…) or psycopg2.")


def _unknown(connection: Any) -> TypeError:
    kind = f"{type(connection).__module__}.{type(connection).__name__}"
    return TypeError(f"{kind} is no connection of psycopg 3 and none of SQLAlchemy 2: pass one of those.")
