"""Each thing that may be wrong with a mapping has its finding, which names the column and says what to run or to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from soloist.domain.catalog import Catalog, Session, TableColumn, TableIndex, TableTrigger
from soloist.domain.findings import Finding, Severity
from soloist.domain.mapping_findings import mapping_findings
from soloist.domain.mapping_index import ClaimPlan
from soloist.domain.queue_parsing import Invalid, parse_queue

TABLE = {
    "name": 'app."Delivery"',
    "id": "id",
    "dueAt": "nextAttemptAt",
    "status": {"column": "status", "pending": ["PENDING"], "done": "DELIVERED", "failed": "FAILED"},
    "attempts": "attempts",
    "record": {"lastError": "error"},
    "touch": ["updatedAt"],
}
INLINE = {
    **TABLE,
    "claim": "Inline",
    "inline": {"fence": "fence", "leaseUntil": "lease", "reclaims": "lost", "claimedBy": "worker"},
}
HANDLER = {
    "name": 'app."Delivery"',
    "id": "id",
    "dueAt": "nextAttemptAt",
    "status": {"column": "status", "pending": ["PENDING"]},
    "outcome": "Handler",
}


def column(name: str, base: str, **more: Any) -> TableColumn:
    return TableColumn(name=name, type_name=base, base=base, shown=more.pop("shown", base), **more)


COLUMNS = (
    column("id", "text", not_null=True),
    column(
        "status",
        "DeliveryStatus",
        shown='app."DeliveryStatus"',
        labels=("PENDING", "DELIVERED", "FAILED"),
        not_null=True,
    ),
    column("nextAttemptAt", "timestamptz"),
    column("attempts", "int4", not_null=True),
    column("error", "text"),
    column("updatedAt", "timestamptz", not_null=True),
    column("payload", "jsonb", not_null=True),
    column("fence", "int8"),
    column("lease", "timestamptz"),
    column("lost", "int4"),
    column("worker", "text"),
)
GOOD = Catalog(
    session=Session(role="worker"),
    kind="r",
    owner="app",
    owned=True,
    fillfactor=70,
    columns={made.name: made for made in COLUMNS},
    indexes=(
        TableIndex(name="Delivery_pkey", columns=("id",), unique=True),
        TableIndex(name="Delivery_due", columns=("status", "nextAttemptAt")),
    ),
)


def found(catalog: Catalog = GOOD, table: Mapping[str, Any] = TABLE, plan: ClaimPlan | None = None) -> list[Finding]:
    http = {"url": "http://receiver.test/", "bodyColumn": "payload"}
    spec = parse_queue({"database": {"secretName": "db", "key": "uri"}, "table": table, "deliver": {"http": http}})
    assert not isinstance(spec, Invalid), spec
    return mapping_findings(spec, catalog, plan)


def having(*columns: TableColumn, without: str = "", **more: Any) -> Catalog:
    there = {name: made for name, made in GOOD.columns.items() if name != without}
    return replace(GOOD, columns={**there, **{made.name: made for made in columns}}, **more)


def with_session(**more: Any) -> Catalog:
    return replace(GOOD, session=replace(GOOD.session, **more))


PRIMARY, DUE = GOOD.indexes
NAIVE = column("nextAttemptAt", "timestamp", shown="timestamp(3) without time zone", has_default=True)
FREE = ClaimPlan(cost=812345.6, reads=("Sort", "Seq Scan"))

ERRORS = {
    "no such table": (replace(GOOD, kind=None), TABLE, "TableMissing", 'there is no table app."Delivery"'),
    "a table that others inherit from": (
        replace(GOOD, inherited=True),
        TABLE,
        "Inherited",
        "no index keeps two of them from having one key",
    ),
    "a table of another spelling": (
        replace(GOOD, kind=None, similar_tables=("app.delivery",)),
        TABLE,
        "TableMissing",
        "write app.delivery",
    ),
    "a view": (replace(GOOD, kind="v"), TABLE, "TableKind", "is a view"),
    "no such column": (having(without="error"), TABLE, "ColumnMissing", "has no column error: its columns are id, "),
    "a column of another spelling": (
        having(column("next_attempt_at", "timestamptz"), without="nextAttemptAt"),
        TABLE,
        "ColumnMissing",
        'spec.table.dueAt: app."Delivery" has no column nextAttemptAt: write next_attempt_at.',
    ),
    "no column for the body": (having(without="payload"), TABLE, "ColumnMissing", "spec.deliver.http.bodyColumn: "),
    "a due time that is a number": (
        having(column("nextAttemptAt", "int8")),
        TABLE,
        "ColumnType",
        "is int8, and has to be timestamptz, or timestamp holding UTC",
    ),
    "a due day, where a time has to be written": (
        having(column("nextAttemptAt", "date")),
        TABLE,
        "ColumnType",
        "is date",
    ),
    "attempts as text": (having(column("attempts", "text")), TABLE, "ColumnType", "has to be a whole number"),
    "an error as a number": (having(column("error", "int4")), TABLE, "ColumnType", "has to be text or json"),
    "a float for a key": (having(column("id", "float8", not_null=True)), TABLE, "ColumnType", "is float8"),
    "a body of bytes": (having(column("payload", "bytea")), TABLE, "ColumnType", "anything but bytea"),
    "a generated column": (having(column("error", "text", generated=True)), TABLE, "ColumnGenerated", "is generated"),
    "a value that the enum lacks": (
        having(column("status", "s", labels=("PENDING", "DONE"), shown="app.s")),
        TABLE,
        "EnumLabelUnknown",
        "is app.s, which has no value 'DELIVERED': it has PENDING, DONE",
    ),
    "a value that is too long": (
        having(column("status", "varchar", length=7, shown="character varying(7)")),
        TABLE,
        "ColumnType",
        "cannot hold 'DELIVERED'",
    ),
    "a word for a number": (having(column("status", "int2")), TABLE, "ColumnType", "'PENDING' is no number"),
    "a word for a boolean": (having(column("status", "bool")), TABLE, "ColumnType", "write true and false"),
    "a key that may be null": (having(column("id", "text")), TABLE, "KeyNullable", "may be NULL"),
    "a key that is not unique": (
        replace(GOOD, indexes=(DUE,)),
        TABLE,
        "KeyNotUnique",
        "several rows could share one claim",
    ),
    "a key that is unique among some": (
        replace(GOOD, indexes=(replace(PRIMARY, predicate="(status = 'PENDING')"), DUE)),
        TABLE,
        "KeyNotUnique",
        "no unique index",
    ),
    "Inline without attempts": (
        GOOD,
        {name: value for name, value in INLINE.items() if name != "attempts"},
        "AttemptsMissing",
        "spec.table.attempts is required with claim: Inline",
    ),
    "a fence that is an integer": (having(column("fence", "int4")), INLINE, "ColumnType", "has to be bigint or text"),
    "a fence that is short": (
        having(column("fence", "varchar", length=12, shown="character varying(12)")),
        INLINE,
        "ColumnType",
        "has to hold 19 digits",
    ),
    "a lease that may not be null": (
        having(column("lease", "timestamptz", not_null=True)),
        INLINE,
        "ColumnNotNull",
        'run ALTER TABLE "app"."Delivery" ALTER COLUMN "lease" DROP NOT NULL',
    ),
    "no right to the schema": (
        replace(GOOD, schema_usable=False),
        TABLE,
        "SchemaUsage",
        'GRANT USAGE ON SCHEMA "app" TO "worker";',
    ),
    "no right to read or write": (
        having(column("payload", "jsonb", readable=False, writable=False), column("error", "text", writable=False)),
        TABLE,
        "Grants",
        'GRANT SELECT ("payload"), UPDATE ("error") ON "app"."Delivery" TO "worker";',
    ),
    "no right to columns that hold claims, of which one is only written": (
        having(
            *(
                column(name, base, readable=False, writable=False)
                for name, base in (("lost", "int4"), ("worker", "text"))
            )
        ),
        INLINE,
        "Grants",
        'GRANT SELECT ("lost"), UPDATE ("lost", "worker") ON "app"."Delivery" TO "worker";',
    ),
    "no right to lock, where nothing is written": (
        replace(GOOD, columns={name: replace(made, writable=False) for name, made in GOOD.columns.items()}),
        HANDLER,
        "Grants",
        'GRANT UPDATE ("id") ON "app"."Delivery" TO "worker";',
    ),
    "no schema of ours": (with_session(soloist_schema=False), TABLE, "SchemaMissing", "run soloist migrate"),
    "no rights in our schema": (
        with_session(missing_rights=("INSERT ON soloist.claims",)),
        TABLE,
        "SchemaRights",
        "SELECT soloist.allow_work('worker');",
    ),
    "a standby": (with_session(standby=True, read_only=True), TABLE, "Standby", "target_session_attrs=read-write"),
    "another isolation": (with_session(isolation="serializable"), TABLE, "Isolation", "= 'read committed';"),
    "a role that only reads": (with_session(read_only=True), TABLE, "ReadOnly", 'ALTER ROLE "worker" RESET'),
}
WARNINGS = {
    "no index at all": (replace(GOOD, indexes=(PRIMARY,)), TABLE, "DueIndexMissing", "No index"),
    "an index that was never finished": (
        replace(GOOD, indexes=(PRIMARY, replace(DUE, valid=False))),
        TABLE,
        "DueIndexMissing",
        'CREATE INDEX CONCURRENTLY ON "app"."Delivery" ("nextAttemptAt") WHERE "status" = \'PENDING\';',
    ),
    "an index of all due times, finished ones among them": (
        replace(GOOD, indexes=(PRIMARY, replace(DUE, columns=("nextAttemptAt",)))),
        TABLE,
        "DueIndexMissing",
        "No index",
    ),
    "an index that begins with something else": (
        replace(GOOD, indexes=(PRIMARY, replace(DUE, columns=("tenant", "status", "nextAttemptAt")))),
        TABLE,
        "DueIndexMissing",
        "No index",
    ),
    "an index in which the claim is": (
        replace(GOOD, indexes=(*GOOD.indexes, TableIndex(name="by_lease", columns=("lease",)))),
        INLINE,
        "ClaimColumnIndexed",
        "The index by_lease",
    ),
    "a trigger, twice for each row": (
        replace(GOOD, triggers=(TableTrigger(name="t", function="notify_all", on_update=True),)),
        INLINE,
        "Trigger",
        "fires at every claim, every renewal and every outcome",
    ),
    "row-level security": (
        replace(GOOD, row_security=True, owned=False),
        TABLE,
        "RowSecurity",
        'ALTER ROLE "worker" BYPASSRLS;',
    ),
    "row-level security that is forced on the owner": (
        replace(GOOD, row_security=True, row_security_forced=True),
        TABLE,
        "RowSecurity",
        "Row-level security",
    ),
    "a role that replicates": (
        with_session(replication_role="replica"),
        TABLE,
        "ReplicationRole",
        "triggers do not fire",
    ),
    "commits that are not waited for": (
        with_session(durable=False),
        TABLE,
        "CommitNotWaitedFor",
        'ALTER ROLE "worker" SET synchronous_commit = on;',
    ),
    "a database without an encoding": (with_session(encoding="SQL_ASCII"), TABLE, "NoEncoding", "the encoding UTF8"),
    "a column that the client sets": (
        GOOD,
        {name: value for name, value in TABLE.items() if name != "touch"},
        "TouchMissing",
        "spec.table.touch: updatedAt is NOT NULL without a default",
    ),
    "a default that writes local time": (
        replace(having(NAIVE), session=replace(GOOD.session, time_zone="Europe/Berlin")),
        TABLE,
        "LocalTimeDefault",
        "SET DEFAULT (now() AT TIME ZONE 'UTC');",
    ),
}
NOTES = {
    "a time without zone": (having(NAIVE), TABLE, "NaiveTime", "is taken to hold UTC, as Prisma writes it"),
    "somebody else's table": (replace(GOOD, owned=False), TABLE, "NotOwner", "belongs to app"),
    "a pooler": (with_session(pooled=True), TABLE, "Pooler", "pgbouncer=true"),
    "pages without room": (
        replace(GOOD, fillfactor=100),
        INLINE,
        "NoRoom",
        'ALTER TABLE "app"."Delivery" SET (fillfactor = 50);',
    ),
    "a partitioned table": (replace(GOOD, kind="p"), TABLE, "Partitioned", "each claim looks into every partition"),
    "a trigger, once for each row": (
        replace(GOOD, triggers=(TableTrigger(name="t", function="f", on_update=True),)),
        TABLE,
        "Trigger",
        "fires once for each row, at its outcome",
    ),
}


@pytest.mark.parametrize("what", ERRORS)
def test_what_keeps_a_queue_from_being_worked_is_an_error(what: str) -> None:
    catalog, table, reason, words = ERRORS[what]
    assert [(each.severity, each.reason) for each in found(catalog, table)][:1] == [(Severity.ERROR, reason)]
    assert words in found(catalog, table)[0].message
    assert found(catalog, table)[0].message.rstrip().endswith((".", ";"))


@pytest.mark.parametrize("what", WARNINGS)
def test_what_works_but_not_well_is_a_warning(what: str) -> None:
    catalog, table, reason, words = WARNINGS[what]
    (warning,) = [each for each in found(catalog, table) if each.severity is not Severity.NOTE]
    assert (warning.severity, warning.reason) == (Severity.WARNING, reason)
    assert words in warning.message


@pytest.mark.parametrize("what", NOTES)
def test_what_is_good_to_know_is_a_note(what: str) -> None:
    catalog, table, reason, words = NOTES[what]
    (note,) = found(catalog, table)
    assert (note.severity, note.reason) == (Severity.NOTE, reason)
    assert words in note.message


@pytest.mark.parametrize(
    ("catalog", "table"),
    [
        (GOOD, TABLE),
        (replace(GOOD, fillfactor=100), TABLE),
        (GOOD, INLINE),
        (GOOD, HANDLER),
        (having(column("nextAttemptAt", "date")), HANDLER),
        (
            having(column("status", "int2")),
            {**TABLE, "status": {"column": "status", "pending": ["0"], "done": "1", "failed": "-1"}},
        ),
        (
            replace(
                GOOD, indexes=(PRIMARY, replace(DUE, columns=("nextAttemptAt",), predicate="(status = 'PENDING')"))
            ),
            TABLE,
        ),
        (replace(GOOD, row_security=True), TABLE),
        (replace(GOOD, triggers=(TableTrigger(name="t", function="f", on_update=True, columns=("payload",)),)), INLINE),
        (replace(GOOD, triggers=(TableTrigger(name="t", function="f", on_update=True),)), HANDLER),
    ],
)
def test_a_mapping_that_fits_has_no_finding(catalog: Catalog, table: Mapping[str, Any]) -> None:
    assert found(catalog, table) == []


def test_the_planners_cost_is_said_where_an_index_is_missing() -> None:
    (warning,) = found(replace(GOOD, indexes=(PRIMARY,)), plan=FREE)
    assert "812,346 (Sort, Seq Scan)" in warning.message


def test_an_index_that_claims_do_not_go_by_is_said() -> None:
    (warning,) = found(plan=FREE)
    assert warning.reason == "ClaimPlan"
    assert 'ANALYZE "app"."Delivery"' in warning.message
    assert found(plan=ClaimPlan(cost=12, reads=("Index Scan Delivery_due",))) == []


@pytest.mark.parametrize("missing", ["status", "nextAttemptAt"])
def test_no_index_is_asked_for_on_a_column_that_is_missing(missing: str) -> None:
    bare = replace(having(without=missing), indexes=(PRIMARY,))
    assert [(each.reason, each.column) for each in found(bare)] == [("ColumnMissing", missing)]
    assert "DueIndexMissing" in [each.reason for each in found(replace(having(without="error"), indexes=(PRIMARY,)))]


def test_errors_come_before_warnings_and_those_before_notes() -> None:
    everything = replace(having(NAIVE, without="error"), owned=False, indexes=(PRIMARY,))
    severities = [each.severity for each in found(everything)]
    assert severities == sorted(severities, key=list(Severity).index)
    assert set(severities) == set(Severity)


def test_one_column_that_is_missing_is_said_once() -> None:
    table = {**TABLE, "maxAttempts": {"column": "limit"}}
    assert [each.column for each in found(table=table)] == ["limit"]
