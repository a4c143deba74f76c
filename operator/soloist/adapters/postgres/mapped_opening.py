"""Makes the rows of a mapped queue ready: holds its mapping against the catalog, and composes its statements."""

from collections.abc import Callable

from soloist.adapters.postgres.burials import Buried, unheard
from soloist.adapters.postgres.catalog import read_catalog
from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped import MappedRows
from soloist.adapters.postgres.mapped_dead import DeadRows
from soloist.adapters.postgres.mapped_sql import Shape
from soloist.adapters.postgres.statements import statement
from soloist.domain.catalog import Catalog
from soloist.domain.errors import PermanentError
from soloist.domain.findings import Severity
from soloist.domain.mapping_findings import mapping_findings
from soloist.domain.queue_spec import Column, HttpDelivery, QueueSpec
from soloist.domain.queue_tables import MappedTable


async def open_mapped(
    database: Database,
    name: str,
    spec: QueueSpec,
    *,
    worker: str,
    boottime: Callable[[], float],
    buried: Buried = unheard,
) -> MappedRows:
    """Raises PermanentError with what stands in the way, or TransientError."""
    shape, queue = await shape_in(database, name, spec), ClaimRules.of(name, spec, worker=worker)
    return MappedRows(database, shape, queue, spec.retry, boottime=boottime, buried=buried)


async def open_dead_rows(database: Database, name: str, spec: QueueSpec) -> DeadRows:
    """Likewise."""
    return DeadRows(database, await shape_in(database, name, spec))


async def shape_in(database: Database, name: str, spec: QueueSpec) -> Shape:
    """What all statements on the table are composed from."""
    table = table_of(spec)
    catalog = await read_catalog(database, table.name)
    errors = [found.message for found in mapping_findings(spec, catalog) if found.severity is Severity.ERROR]
    if errors:
        raise PermanentError(" ".join(errors))
    ((source,),) = await database.fetch(statement("source"), {"name": str(table.name)})
    return shape_of(name, spec, catalog, source=source)


def shape_of(name: str, spec: QueueSpec, catalog: Catalog, *, source: int) -> Shape:
    """``catalog`` has every column that the mapping names."""
    per_key, limit = spec.concurrency.per_key, spec.retry.max_attempts
    return Shape(
        table=table_of(spec),
        columns=catalog.columns,
        source=source,
        queue=name,
        body=spec.deliver.body_column if isinstance(spec.deliver, HttpDelivery) else None,
        per_key=None if per_key is None else per_key.column,
        limit=limit.name if isinstance(limit, Column) else None,
    )


def table_of(spec: QueueSpec) -> MappedTable:
    """For queues that have one."""
    if not isinstance(spec.table, MappedTable):
        raise TypeError("the queue's rows are in soloist.work_items")
    return spec.table
