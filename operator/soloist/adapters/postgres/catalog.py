"""Reads what a database says about a table of the user's. Catalog queries only: it changes nothing and locks nothing."""

from collections.abc import Sequence

from soloist.adapters.postgres.connections import Connection
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.statements import statement
from soloist.domain.catalog import Catalog, Session, TableColumn, TableIndex, TableTrigger
from soloist.domain.queue_tables import TableName


async def read_catalog(database: Database, table: TableName) -> Catalog:
    """Raises TransientError or PermanentError. A table that is not there is a catalog without a kind."""
    names = {"schema": table.schema, "table": table.table}
    async with database.transaction() as connection:
        session = await _session(connection, ("claims", "dead_rows", "sources"))
        found = await (await connection.execute(statement("catalog_table"), names)).fetchall()
        if not found:
            similar = await (await connection.execute(statement("catalog_similar"), names)).fetchall()
            return Catalog(session=session, similar_tables=tuple(row[0] for row in similar))
        oid, kind, owner, owned, usable, security, forced, rows, fillfactor, inherited = found[0]
        columns = await (await connection.execute(statement("catalog_columns"), {"oid": oid})).fetchall()
        indexes = await (await connection.execute(statement("catalog_indexes"), {"oid": oid})).fetchall()
        triggers = await (await connection.execute(statement("catalog_triggers"), {"oid": oid})).fetchall()
    return Catalog(
        session=session,
        kind=kind,
        owner=owner,
        owned=owned,
        schema_usable=usable,
        row_security=security,
        row_security_forced=forced,
        rows=rows,
        fillfactor=fillfactor,
        inherited=inherited,
        columns={row[0]: _column(row) for row in columns},
        indexes=tuple(
            TableIndex(name=name, columns=tuple(names), unique=unique, valid=valid, predicate=predicate, method=method)
            for name, names, unique, valid, predicate, method in indexes
        ),
        triggers=tuple(
            TableTrigger(
                name=name, function=function, on_update=update, columns=tuple(names), before=before, per_row=row
            )
            for name, function, update, names, before, row in triggers
        ),
    )


async def read_session(database: Database) -> Session:
    """For rows in soloist.work_items: who we are, and which of the rights that a worker needs are missing."""
    async with database.transaction() as connection:
        return await _session(connection, ("work_items", "dead_items"))


async def _session(connection: Connection, tables: Sequence[str]) -> Session:
    """``tables`` are those of the schema soloist that are written to."""
    found = await connection.execute(statement("catalog_session"), {"tables": list(tables)})
    ((*facts, backend),) = await found.fetchall()
    (
        role,
        superuser,
        bypasses,
        standby,
        read_only,
        replication,
        zone,
        isolation,
        durable,
        encoding,
        version,
        schema,
        missing,
    ) = facts
    connection.stale = read_only
    return Session(
        role=role,
        superuser=superuser,
        bypasses_row_security=bypasses,
        standby=standby,
        read_only=read_only,
        replication_role=replication,
        # A pooler tells its clients a process number of its own making.
        pooled=backend != connection.info.backend_pid,
        time_zone=zone,
        isolation=isolation,
        durable=durable,
        encoding=encoding,
        version=version,
        soloist_schema=schema,
        missing_rights=tuple(missing),
    )


def _column(row: tuple[object, ...]) -> TableColumn:
    name, schema, type_name, base, shown, length, scale, labels, not_null, default, generated, readable, writable = row
    return TableColumn(
        name=str(name),
        type_schema=str(schema),
        type_name=str(type_name),
        base=str(base),
        shown=str(shown),
        length=length if isinstance(length, int) else None,
        scale=scale if isinstance(scale, int) else None,
        labels=tuple(labels) if isinstance(labels, list) else (),
        not_null=bool(not_null),
        has_default=bool(default),
        generated=bool(generated),
        readable=bool(readable),
        writable=bool(writable),
    )
