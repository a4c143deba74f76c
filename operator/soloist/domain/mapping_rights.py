"""What the database lets our role do, and whether it is one that can be written to: with the very GRANT that is missing."""

from collections.abc import Iterator, Sequence

from soloist.domain.catalog import Catalog, Session
from soloist.domain.findings import Finding, error, note, quoted, sql_name, warning
from soloist.domain.mapping_columns import Named
from soloist.domain.queue_tables import MappedTable

_PREPARES_THROUGH_POOLERS = 'Behind PgBouncer older than 1.21 add "pgbouncer=true" to the URL'


def read_only(session: Session) -> Finding | None:
    """What keeps anything from being written, whatever the table."""
    if session.standby:
        return error(
            "Standby",
            "The database is a standby, which takes no writes: let the URL name the primary, or all hosts with "
            "target_session_attrs=read-write. Once it is promoted, its queues go on by themselves.",
        )
    if session.read_only:
        return error(
            "ReadOnly",
            f"Transactions of the role {session.role} are read-only here. RESET that where it was set (for the role, the database or "
            f"the server), and its queues go on by themselves: ALTER ROLE {quoted(session.role)} RESET default_transaction_read_only;",
        )
    return None


def schema_rights(session: Session) -> Finding | None:
    """What a worker lacks in the schema soloist."""
    if not session.missing_rights:
        return None
    return error(
        "SchemaRights",
        f"The role {session.role} lacks {', '.join(session.missing_rights)}. "
        f"Run, as the owner of the schema soloist: SELECT soloist.allow_work('{session.role}');",
    )


def session_findings(session: Session) -> Iterator[Finding]:
    if (found := read_only(session)) is not None:
        yield found
    if not session.soloist_schema:
        yield error(
            "SchemaMissing",
            "The schema soloist is not there or too old: run soloist migrate, with a role that may create it.",
        )
    elif (found := schema_rights(session)) is not None:
        yield found
    if session.isolation != "read committed":
        yield error(
            "Isolation",
            f"Transactions of the role {session.role} are {session.isolation} here, so whoever waits for a row fails once it has "
            f"changed: ALTER ROLE {quoted(session.role)} SET default_transaction_isolation = 'read committed';",
        )
    if not session.durable:
        yield warning(
            "CommitNotWaitedFor",
            f"synchronous_commit is off for the role {session.role}: should the server crash, it forgets the claims and outcomes of "
            "the last moments, so a row is sent again, maybe while another worker is still at it: "
            f"ALTER ROLE {quoted(session.role)} SET synchronous_commit = on;",
        )
    if session.encoding == "SQL_ASCII":
        yield warning(
            "NoEncoding",
            "The database was made with the encoding SQL_ASCII, which takes any bytes: one row that is no UTF-8 keeps all from "
            "being claimed. Dump it, and restore it into a database with the encoding UTF8.",
        )
    if session.replication_role == "replica":
        yield warning(
            "ReplicationRole",
            "session_replication_role is replica, so triggers do not fire and foreign keys are not checked when Soloist writes: "
            f"ALTER ROLE {quoted(session.role)} RESET session_replication_role;",
        )
    if session.pooled:
        yield note(
            "Pooler",
            f"A connection pooler is in front of the database. Transaction pooling is fine. {_PREPARES_THROUGH_POOLERS}; "
            "poll.listen needs a session of its own and does not work through it.",
        )


def rights_findings(table: MappedTable, uses: Sequence[Named], catalog: Catalog) -> Iterator[Finding]:
    role = quoted(catalog.session.role)
    if not catalog.schema_usable:
        schema = quoted(table.name.schema)
        yield error(
            "SchemaUsage",
            f"The role {catalog.session.role} may not use the schema {table.name.schema}. Run: GRANT USAGE ON SCHEMA {schema} TO {role};",
        )
    there = [use for use in uses if use.column in catalog.columns]
    read = list(dict.fromkeys(use.column for use in there if use.read and not catalog.columns[use.column].readable))
    write = list(dict.fromkeys(use.column for use in there if use.written and not catalog.columns[use.column].writable))
    # A row is locked before its claim is taken, and the right to lock is the right to update any one column.
    lockable = any(column.writable for column in catalog.columns.values())
    if not write and not lockable:
        write = [table.id[0]]
    if read or write:
        grants = [
            f"{verb} ({', '.join(map(quoted, columns))})"
            for verb, columns in (("SELECT", read), ("UPDATE", write))
            if columns
        ]
        yield error(
            "Grants",
            f"The role {catalog.session.role} lacks rights on {table.name}. Run: GRANT {', '.join(grants)} ON {sql_name(table.name)} TO {role};",
        )
    if catalog.filtered:
        yield warning(
            "RowSecurity",
            f"Row-level security of {table.name} applies to the role {catalog.session.role}: a row that it may not see is never "
            "delivered, and behind a policy an index serves only comparisons that are known to leak nothing, which those of "
            f"enums are not. Run: ALTER ROLE {role} BYPASSRLS;",
        )
    if not catalog.owned:
        yield note(
            "NotOwner", f"{table.name} belongs to {catalog.owner}. Soloist needs no more than rights on its columns."
        )
