"""The three messages of a run's transaction: begin and record, the effect, check and commit.

The first and the last are several statements in one message each, with their values written by psycopg's composer: so the
server has all of it before it begins, and a client that freezes or dies in between holds up nobody. The effect's values
never become text of a statement.
"""

import json
import logging
from typing import Any

import psycopg

from soloist.adapters.postgres.connections import Connection
from soloist.adapters.postgres.ledger import Ledger, keys_of
from soloist.adapters.postgres.one_statement import run_one
from soloist.adapters.postgres.statements import statement
from soloist.domain.actions import Order, SqlAction
from soloist.domain.sql_values import bound

IDLE = "2s"
"""For how long a transaction may wait for its client, between two messages that follow each other at once."""

CHECK = "500ms"
"""How often a statement looks whether its client is still there."""

_log = logging.getLogger(__name__)


async def begin(connection: Connection, order: Order, ledger: Ledger, seconds: float) -> bool:
    """Whether the run is recorded by this very transaction; False: it was done before."""
    milliseconds = round(seconds * 1000)
    values = {
        **keys_of(order),
        "epoch": order.fence,
        "term": ledger.term(order.fence),
        "schema": ledger.database.url.schema,
        "statement": str(milliseconds),
        # A little less, so that a wait for a lock is told as one.
        "lock": str(max(1, milliseconds * 9 // 10)),
        "idle": IDLE,
        "check": CHECK,
    }
    cursor = await _at_once(connection, "begin_run", values)
    row = await cursor.fetchone()
    return bool(row and row[0])


async def effect(connection: Connection, order: Order) -> str:
    """What there is to tell of it: what the server said of the statement."""
    if not isinstance(order.action, SqlAction):
        raise TypeError(f"{order.run_name}: not a statement.")
    return (await run_one(connection, order.action.statement.encode(), bound(order, order.action))).tag


async def end(connection: Connection, order: Order, ledger: Ledger, said: str) -> bool:
    """Whether the server said that it has committed."""
    outcome = json.dumps({"said": said})
    values = {**keys_of(order), "outcome": outcome, "shard": ledger.shard, "epoch": order.fence}
    cursor = await _at_once(connection, "end_run", values)
    return cursor.statusmessage == "COMMIT"


async def roll_back(connection: Connection) -> None:
    """So that the connection can be used again; one that cannot do even that is closed by whoever lent it."""
    try:
        await connection.execute(b"ROLLBACK")
    except psycopg.Error as error:
        _log.debug("not rolled back", extra={"error": type(error).__name__})


async def _at_once(connection: Connection, name: str, values: dict[str, Any]) -> psycopg.AsyncClientCursor[Any]:
    """Several statements in one message; the cursor stands at the result of the last."""
    cursor = psycopg.AsyncClientCursor(connection)
    await cursor.execute(statement(name), values)
    while cursor.nextset():
        pass
    return cursor
