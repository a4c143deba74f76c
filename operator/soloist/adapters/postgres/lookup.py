"""Where a row goes, read from another table of the user's just before the send: address, secret, whether it is active.
The address may as well be in the row itself.

Read at that moment and kept for none, so an endpoint that was switched off, moved or given a new secret gets nothing more
by the old way. One statement answers for all rows that ask while the one before it is out: with sixty-four deliveries at
once that is a few statements a second instead of thousands, and nobody waits for company.

Each key is cast to the column's own type and looked for by itself, so an index on the column serves, whatever the planner
takes the table for. A key that the type will not have is its own row's fault, and not that of the others it asked with.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from psycopg import sql

from soloist.adapters.postgres.database import Database, Row
from soloist.adapters.postgres.failures import RowRefused
from soloist.domain.actions import FailedKnown
from soloist.domain.claims import Claim
from soloist.domain.delivery_request import Endpoint, refused
from soloist.domain.errors import PermanentError
from soloist.domain.queue_spec import HmacSha256, Lookup, StandardWebhooks
from soloist.domain.signature import split_secrets

_TYPE = b"""
SELECT n.nspname, t.typname
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace AS s ON s.oid = c.relnamespace
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
WHERE s.nspname = %(schema)s AND c.relname = %(table)s AND a.attname = %(column)s AND a.attnum > 0 AND NOT a.attisdropped
"""

_ENDPOINTS = """
SELECT k.key, e.url, e.secret, e.active
FROM pg_catalog.unnest(%(keys)s::pg_catalog.text[]) AS k(key)
CROSS JOIN LATERAL (
    SELECT {url} AS url, {secret} AS secret, {active} AS active
    FROM {table} AS t
    WHERE t.{by} = k.key::{type}
    LIMIT 1
) AS e
"""


@dataclass(frozen=True, slots=True)
class _Found:
    url: str | None
    secret: str | None = field(repr=False)
    active: bool


_TEXT = "t.{}::pg_catalog.text"
# A boolean, or what an ORM writes for one where there is none. Null is not true.
_ACTIVE = "coalesce(pg_catalog.lower(t.{}::pg_catalog.text) IN ('true', 't', '1'), false)"


class EndpointLookup:
    """Finds endpoints as ``lookup`` says; the deliverer of a queue calls it with each claim."""

    def __init__(self, database: Database, lookup: Lookup, signature: StandardWebhooks | HmacSha256 | None) -> None:
        self._database, self._lookup, self._signature = database, lookup, signature
        self._statement: bytes | None = None
        self._waiting: dict[str, asyncio.Future[_Found | FailedKnown | None]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def __call__(self, claim: Claim) -> Endpoint | FailedKnown:
        """Raises ``TransientError`` or ``PermanentError`` where the table cannot be read."""
        key = claim.columns.get(self._lookup.key)
        if key is None:
            return refused(f"The column {self._lookup.key} is null, so the row has no endpoint.")
        found = await self._ask(key)
        return found if isinstance(found, FailedKnown) else self._endpoint(key, found, claim)

    def _endpoint(self, key: str, found: _Found | None, claim: Claim) -> Endpoint | FailedKnown:
        lookup = self._lookup
        place = f"{lookup.table}: the row whose {lookup.by} is {key!r}"
        if found is None:
            return refused(f"The endpoint is not there in {place}.")
        if not found.active:
            return refused(f"The endpoint is switched off ({lookup.active}) in {place}.")
        url = found.url if lookup.url_column is None else claim.columns.get(lookup.url_column)
        if not url and lookup.url_column is None:
            return refused(f"The endpoint has no address ({lookup.url}) in {place}.")
        if not url:
            return refused(f"The column {lookup.url_column} holds no address.")
        return Endpoint(url=url, secrets=split_secrets(self._signature, found.secret or ""))

    async def _ask(self, key: str) -> _Found | FailedKnown | None:
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._answer())
        return await asyncio.shield(future)

    async def _answer(self) -> None:
        """Ask for all that wait, until nobody does. Whoever comes during a statement is answered by the next."""
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            try:
                found = await self._found(list(waiting))
            except Exception as error:  # noqa: BLE001 - it is whoever waits that is told
                for future in waiting.values():
                    future.set_exception(error)
            else:
                for key, future in waiting.items():
                    future.set_result(found.get(key))

    async def _found(self, keys: list[str]) -> Mapping[str, _Found | FailedKnown]:
        try:
            return await self._read(keys)
        except RowRefused as refusal:
            if len(keys) == 1:
                return {keys[0]: refused(f"The endpoint cannot be looked up: {refusal}.")}
        found: dict[str, _Found | FailedKnown] = {}
        for key in keys:
            found |= await self._found([key])
        return found

    async def _read(self, keys: list[str]) -> dict[str, _Found]:
        statement = self._statement or _composed(self._lookup, await self._type())
        try:
            rows = await self._database.fetch(statement, {"keys": keys})
        except PermanentError:
            self._statement = None  # the column may have another type since
            raise
        self._statement = statement
        return {key: _Found(url, secret, active) for key, url, secret, active in rows}

    async def _type(self) -> Row:
        table = self._lookup.table
        values = {"schema": table.schema, "table": table.table, "column": self._lookup.by}
        rows = await self._database.fetch(_TYPE, values)
        if not rows:
            raise PermanentError(
                f"{self._database.name} has no table {table} with a column {self._lookup.by}: correct deliver.http.lookup."
            )
        return rows[0]


def _composed(lookup: Lookup, type_: Row) -> bytes:
    """A column without a mapping reads as: no secret, always active."""
    url, secret, active = lookup.url, lookup.secret, lookup.active
    return (
        sql.SQL(_ENDPOINTS)
        .format(
            table=_name(lookup.table.schema, lookup.table.table),
            by=_name(lookup.by),
            type=_name(*type_),
            url=sql.SQL(_TEXT).format(_name(url)) if url else sql.SQL("NULL"),
            secret=sql.SQL(_TEXT).format(_name(secret)) if secret else sql.SQL("NULL"),
            active=sql.SQL(_ACTIVE).format(_name(active)) if active else sql.SQL("true"),
        )
        .as_bytes()
    )


def _name(*parts: str) -> sql.Identifier:
    """psycopg looks for its placeholders in names as well."""
    return sql.Identifier(*(part.replace("%", "%%") for part in parts))
