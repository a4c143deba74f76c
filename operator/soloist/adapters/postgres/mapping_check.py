"""Checks the mapping of a queue against its database: reads the catalog, has a claim explained, and changes nothing.

A claim is explained twice: as the planner would run it if it were free, for what it thinks it costs, and as it is run, for
how it reads the table.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import psycopg

from soloist.adapters.postgres.catalog import read_catalog
from soloist.adapters.postgres.connections import Connection
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped_opening import shape_of, table_of
from soloist.adapters.postgres.mapped_sql import Shape
from soloist.adapters.postgres.mapped_statements import composed
from soloist.adapters.postgres.registered import registration_findings
from soloist.adapters.postgres.statements import statement
from soloist.adapters.postgres.still_due import still_due
from soloist.domain.findings import Finding, Severity
from soloist.domain.mapping_findings import mapping_findings
from soloist.domain.mapping_index import MANY, ClaimPlan, given_up_findings
from soloist.domain.queue_spec import QueueSpec

_A_CLAIM = {"most": 100, "lease": timedelta(minutes=1), "worker": "", "after": "-infinity", "without": []}
_COUNTED = 100_000


async def check_mapping(database: Database, name: str, spec: QueueSpec) -> list[Finding]:
    """Everything there is to say, errors first. Raises TransientError or PermanentError where the database says nothing."""
    catalog = await read_catalog(database, table_of(spec).name)
    found = mapping_findings(spec, catalog)
    if any(finding.severity is Severity.ERROR for finding in found):
        return found
    shape = shape_of(name, spec, catalog, source=0)
    found = [
        *mapping_findings(spec, catalog, await explained(database, shape)),
        *given_up_findings(shape.table, await _in_the_way(database, shape)),
        *await registration_findings(database, name, spec, catalog),
    ]
    return sorted(found, key=lambda finding: list(Severity).index(finding.severity))


async def _in_the_way(database: Database, shape: Shape) -> int:
    """Rows that were given up and stay due, as far as they are counted."""
    values = {"name": str(shape.table.name), "most": _COUNTED}
    ((count,),) = await database.fetch(statement("in_the_way"), values)
    if count < MANY or shape.inline is not None:
        return int(count)
    return await still_due(database, shape, most=_COUNTED)


async def explained(database: Database, shape: Shape) -> ClaimPlan:
    """What the planner makes of a claim of a hundred rows."""
    statements = composed(shape)
    claim = b"EXPLAIN (FORMAT JSON) " + statements.claims[0]
    async with database.transaction() as connection:
        free = await _plan(connection, claim)
        await connection.execute(statements.planner)
        run = await _plan(connection, claim)
    reads = [
        read for part in _nodes(run) if str(part.get("Subplan Name", "")).startswith("CTE p") for read in _reads(part)
    ]
    return ClaimPlan(cost=float(free["Total Cost"]), reads=tuple(dict.fromkeys(reads)))


async def _plan(connection: Connection, claim: bytes) -> Mapping[str, Any]:
    cursor = psycopg.AsyncClientCursor(connection)
    await cursor.execute(claim, _A_CLAIM)
    row = await cursor.fetchone()
    plan: Mapping[str, Any] = row[0][0]["Plan"] if row is not None else {}
    return plan


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _reads(part: Mapping[str, Any]) -> Iterator[str]:
    """How the user's table is read, and whether what is read has to be sorted."""
    for node in _nodes(part):
        kind, index = str(node["Node Type"]), node.get("Index Name")
        if "Sort" in kind or (str(node.get("Alias", "")).startswith("q") and "Scan" in kind):
            yield f"{kind} {index}" if index else kind
