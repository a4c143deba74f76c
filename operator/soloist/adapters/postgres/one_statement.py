"""One statement of somebody else's, in whatever transaction the connection is in, of whose rows only the first is kept.

By the extended protocol, so that it is one statement and its values are never part of its text. Row by row, so that a
result of any size passes through without being held. Values are given the types that they would have as literals; text
has none, so that the statement decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen

from soloist.adapters.postgres.connections import Connection

Value = str | int | float | bool | None

_BOOLEAN, _BIGINT, _INTEGER, _FLOAT, _NUMERIC, _UNTYPED = 16, 20, 23, 701, 1700, 0
_GOOD = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.EMPTY_QUERY)
_COPYING = (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH)


class WantsData(psycopg.NotSupportedError):
    """It is a COPY from or to the client, which has nothing to give and wants nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the server said at the end, such as ``UPDATE 3``, and the first row as text."""

    tag: str
    first: tuple[str | None, ...] = ()


async def run_one(connection: Connection, statement: bytes, values: Sequence[Value]) -> Said:
    """Raises psycopg.Error."""
    return await connection.wait(_run(connection.pgconn, statement, values))


def _run(pgconn: "pq.abc.PGconn", statement: bytes, values: Sequence[Value]) -> PQGen[Said]:
    dumped = [_dumped(value) for value in values]
    pgconn.send_query_params(statement, [text for text, _ in dumped], [oid for _, oid in dumped])
    pgconn.set_single_row_mode()
    yield from generators.send(pgconn)
    tag, first, failed = "", None, None
    while (result := (yield from generators.fetch(pgconn))) is not None:
        if result.status in _COPYING:
            # The connection is in a state of its own from here on, and is closed by whoever lent it.
            raise WantsData("COPY from or to the client is not for a job: write to a table, or to a file of the server")
        if result.status not in _GOOD:
            failed = failed or psycopg.errors.error_from_result(result, encoding="utf-8")
        elif result.status == pq.ExecStatus.SINGLE_TUPLE:
            first = first if first is not None else _row(result)
        else:
            tag = (result.command_status or b"").decode()
    if failed is not None:
        raise failed
    return Said(tag=tag, first=first or ())


def _row(result: "pq.abc.PGresult") -> tuple[str | None, ...]:
    values = (result.get_value(0, column) for column in range(result.nfields))
    return tuple(None if value is None else value.decode("utf-8", "replace") for value in values)


def _dumped(value: Value) -> tuple[bytes | None, int]:
    match value:
        case None:
            return None, _UNTYPED
        case bool():
            return (b"true" if value else b"false"), _BOOLEAN
        case int():
            kind = _INTEGER if abs(value) < 2**31 else _BIGINT if abs(value) < 2**63 else _NUMERIC
            return str(value).encode(), kind
        case float():
            return repr(value).encode(), _FLOAT
    return value.encode(), _UNTYPED
