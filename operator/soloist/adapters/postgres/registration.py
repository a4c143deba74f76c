"""Puts what a mapping means in SQL into the database, so that workers in any language claim its rows by functions.

They are the statements that our own workers send, with numbers for parameters. What time it is is one too, since the clock of
a statement stands still in a procedure that works row after row; and a renewal may be of a transaction that goes on. The
functions run them with the rights of their caller, so only the owner of the schema soloist may put any there; whoever is not
is told so.

Where claims are in the sidecar only: it remembers how a row was when it was claimed, which a caller cannot be trusted to.
"""

import re
from collections.abc import Mapping
from typing import Any

from psycopg.sql import SQL, Composable, Composed, Placeholder

from soloist.adapters.postgres.cancel_sql import cancel
from soloist.adapters.postgres.column_sql import NOW, Text, counted
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped_opening import shape_in
from soloist.adapters.postgres.mapped_sql import COMMA, Shape
from soloist.adapters.postgres.retry_sql import retry
from soloist.adapters.postgres.sidecar_outcome_sql import settle
from soloist.adapters.postgres.sidecar_sql import claim_giving, lock_free, renew
from soloist.adapters.postgres.statements import statement
from soloist.domain.errors import PermanentError
from soloist.domain.queue_spec import AfterCrash, Column, QueueSpec
from soloist.domain.queue_tables import OutcomeBy

_PLACE = re.compile(r"%%|%\((\w+)\)s")
_CLAIM = {"most": "$1", "lease": "$2", "worker": "$3", "now": "$4", "after": "'-infinity'", "without": "'{}'"}
_SETTLE = {"fence": "$2", "outcome": "$3", "counted": "$4", "error": "$5", "wait": "$6", "reason": "$7", "now": "$8"}


async def register(database: Database, name: str, spec: QueueSpec) -> None:
    """Also again, after a change of the WorkQueue. Raises PermanentError or TransientError."""
    shape = await shape_in(database, name, spec)
    if shape.inline is not None:
        raise PermanentError(
            f"spec.table.claim of {name} is Inline, and the SQL functions are for claims in the sidecar: "
            "write claim: Sidecar, or leave the field out."
        )
    await database.fetch(statement("register_queue"), registration(shape, spec))


def registration(shape: Shape, spec: QueueSpec) -> Mapping[str, Any]:
    """One row of soloist.mapped_queues."""
    limit, waits = spec.retry.max_attempts, list(spec.retry.schedule)
    keys, handler = _keys(shape), shape.table.outcome is OutcomeBy.HANDLER
    return {
        "queue": shape.queue,
        "source": shape.source,
        "hold": spec.after_crash is AfterCrash.HOLD,
        "handler": handler,
        "max_reclaims": spec.max_reclaims,
        "max_attempts": len(waits) + 1 if isinstance(limit, Column) else limit,
        "attempts_column": limit.name if isinstance(limit, Column) else None,
        "waits": waits,
        "jitter": spec.retry.jitter,
        "claims": [_text(_claim(shape, first), _CLAIM) for first in range(len(shape.statuses("q")))],
        "lock": _text(lock_free(shape), {**keys, "fence": "$2"}),
        "renew": _text(renew(shape), {**keys, "fence": "$2", "lease": "$3", "now": "$4"}),
        "settle": _text(settle(shape), {**keys, **_SETTLE}),
        "retry": _text(retry(shape), {"ids": "$1", "now": "$2"}),
        "cancel": None if handler else _text(cancel(shape), {**keys, "fence": "NULL", "now": "$2"}),
    }


def _claim(shape: Shape, first: int) -> Composable:
    rows = shape.said_rows("d")
    pk = rows[0] if len(rows) == 1 else SQL("ARRAY[{}]::pg_catalog.text").format(COMMA.join(rows))
    body, *others = shape.carried_as("d")
    named = [SQL("{}, {}").format(Text(name), value) for name, value in zip(shape.carried, others, strict=True)]
    columns = SQL("pg_catalog.jsonb_build_object({})").format(COMMA.join(named))
    numbers = SQL("{} + 1").format(counted(SQL("coalesce(d.attempts, t.attempt)")))
    given = SQL("{attempt}, {attempt} - t.retry_base, d.due, {pk}, {body}, {columns}").format(
        attempt=numbers, pk=pk, body=body, columns=columns
    )
    return claim_giving(shape, first, SQL("t.fence, t.reclaims, {}").format(given))


def _keys(shape: Shape) -> dict[str, str]:
    """The columns of the primary keys in ``$1``, each as an array."""
    if len(shape.table.id) == 1:
        return {"r0": "$1"}
    part = "ARRAY(SELECT (p.pk::pg_catalog.text[])[{}] FROM unnest($1) WITH ORDINALITY AS p(pk, n) ORDER BY p.n)"
    return {f"r{number}": part.format(number + 1) for number in range(len(shape.table.id))}


def _text(composed: Composable, places: Mapping[str, str]) -> str:
    """Numbers where psycopg would look for names; a percent sign of the user's is doubled for it, and single again here."""
    text = _timed(composed).as_string(None)
    return _PLACE.sub(lambda match: "%" if match[1] is None else places[match[1]], text)


def _timed(composed: Composable) -> Composable:
    """With ``%(now)s`` for the time. A parameter is one value for all of a statement and good for an index, as a volatile
    clock in its text would not be."""
    if isinstance(composed, Composed):
        return Composed([_timed(part) for part in composed])
    return Placeholder("now") if composed == NOW else composed
