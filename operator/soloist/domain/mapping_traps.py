"""What works and yet surprises: times without a zone, columns that only clients set, triggers that fire for us as well."""

import re
from collections.abc import Iterator, Sequence

from soloist.domain.catalog import Catalog, TableTrigger
from soloist.domain.findings import Finding, note, quoted, sql_name, warning
from soloist.domain.mapping_columns import Named
from soloist.domain.queue_tables import Inline, MappedTable, OutcomeBy

_SET_BY_CLIENTS = re.compile(r"updat|modif|chang", re.IGNORECASE)
_UTC = frozenset(
    {"utc", "etc/utc", "gmt", "etc/gmt", "uct", "etc/uct", "zulu", "etc/zulu", "universal", "etc/universal"}
)


def time_findings(table: MappedTable, catalog: Catalog) -> Iterator[Finding]:
    column = catalog.columns.get(table.due_at or "")
    if column is None or column.base != "timestamp":
        return
    zone = catalog.session.time_zone
    if column.has_default and zone.lower() not in _UTC:
        yield warning(
            "LocalTimeDefault",
            f"spec.table.dueAt: {column.name} is {column.shown} without time zone, which is taken to hold UTC, and has a default; "
            f"a default such as now() writes the local time of the session, and the zone here is {zone}. "
            f"""Run: ALTER TABLE {sql_name(table.name)} ALTER COLUMN {quoted(column.name)} SET DEFAULT (now() AT TIME ZONE 'UTC');""",
            field="spec.table.dueAt",
            column=column.name,
        )
        return
    yield note(
        "NaiveTime",
        f"spec.table.dueAt: {column.name} is {column.shown} and is taken to hold UTC, as Prisma writes it. "
        "Should your application write local time, rows come due hours off: make it timestamptz.",
        field="spec.table.dueAt",
        column=column.name,
    )


def client_findings(table: MappedTable, uses: Sequence[Named], catalog: Catalog) -> Iterator[Finding]:
    """A column that an ORM sets in the client at each write: it has to be set by us, too."""
    if table.outcome is OutcomeBy.HANDLER:
        return
    ours = {use.column for use in uses if use.written}
    mends = any(trigger.on_update and trigger.before for trigger in catalog.triggers)
    for column in catalog.columns.values():
        set_by_client = (
            column.not_null and not column.has_default and column.is_time and _SET_BY_CLIENTS.search(column.name)
        )
        if set_by_client and column.name not in ours and not mends:
            yield warning(
                "TouchMissing",
                f"spec.table.touch: {column.name} is NOT NULL without a default, as a column that an ORM sets in the client at "
                f"each write; it would keep its old value when Soloist writes: add it to touch.",
                field="spec.table.touch",
                column=column.name,
            )


def trigger_findings(table: MappedTable, uses: Sequence[Named], catalog: Catalog) -> Iterator[Finding]:
    if table.outcome is OutcomeBy.HANDLER:
        return  # nothing is written to the row
    ours = {use.column for use in uses if use.written}
    for trigger in catalog.triggers:
        if not trigger.on_update or (trigger.columns and not ours & set(trigger.columns)):
            continue
        if isinstance(table.claim, Inline):
            yield warning(
                "Trigger",
                f"{_called(trigger, table)} fires at every claim, every renewal and every outcome. If it sends, notifies or "
                "refuses, let it look at the columns that changed, or write claim: Sidecar.",
            )
        else:
            yield note(
                "Trigger",
                f"{_called(trigger, table)} fires once for each row, at its outcome. What it refuses is parked.",
            )


def _called(trigger: TableTrigger, table: MappedTable) -> str:
    return f"The trigger {trigger.name} of {table.name} ({trigger.function})"
