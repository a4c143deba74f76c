"""A mapping of a user's table held against what the database says of it: everything that is wrong, and what to do.

Pure: it decides over a ``Catalog`` that somebody has read. A queue with an error is not worked; everything else is said, and
nothing is changed for anybody.
"""

from collections.abc import Iterator

from soloist.domain.catalog import Catalog
from soloist.domain.findings import Finding, Severity, error, note
from soloist.domain.mapping_columns import column_findings, named
from soloist.domain.mapping_index import ClaimPlan, index_findings
from soloist.domain.mapping_rights import rights_findings, session_findings
from soloist.domain.mapping_traps import client_findings, time_findings, trigger_findings
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.queue_tables import Inline, MappedTable

_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "i": "an index",
    "c": "a type",
}


def mapping_findings(spec: QueueSpec, catalog: Catalog, plan: ClaimPlan | None = None) -> list[Finding]:
    """Errors first, then warnings, then notes."""
    table = spec.table
    if not isinstance(table, MappedTable):
        return []
    found = list(session_findings(catalog.session))
    if (absent := _absent(table, catalog)) is not None:
        found.append(absent)
    else:
        uses = list(named(spec, table))
        found += column_findings(table, uses, catalog)
        found += _keys(table, catalog)
        found += rights_findings(table, uses, catalog)
        found += time_findings(table, catalog)
        found += client_findings(table, uses, catalog)
        found += trigger_findings(table, uses, catalog)
        found += index_findings(table, catalog, plan)
    return sorted(found, key=lambda finding: list(Severity).index(finding.severity))


def _absent(table: MappedTable, catalog: Catalog) -> Finding | None:
    field = "spec.table.name"
    if catalog.kind is None:
        meant = (
            f": write {' or '.join(catalog.similar_tables)}"
            if catalog.similar_tables
            else ", or our role may not see it"
        )
        return error("TableMissing", f"{field}: there is no table {table.name} in the database{meant}.", field=field)
    if catalog.kind not in ("r", "p"):
        kind = _KINDS.get(catalog.kind, "no table")
        return error(
            "TableKind",
            f"{field}: {table.name} is {kind}, whose rows cannot be locked: name the table itself.",
            field=field,
        )
    return None


def _keys(table: MappedTable, catalog: Catalog) -> Iterator[Finding]:
    key = set(table.id)
    whole = [
        i
        for i in catalog.indexes
        if i.unique and i.valid and i.predicate is None and i.columns and set(i.columns) <= key
    ]
    if not whole and key <= set(catalog.columns):
        yield error(
            "KeyNotUnique",
            f"spec.table.id: no unique index of {table.name} is on {', '.join(table.id)} alone, so several rows could share one "
            "claim: name the columns of the primary key.",
            field="spec.table.id",
        )
    if catalog.inherited:
        yield error(
            "Inherited",
            f"Other tables inherit from {table.name}, so its rows include theirs, and no index keeps two of them from having one "
            "key: make it a partitioned table, or let no table inherit from it.",
            field="spec.table.name",
        )
    if isinstance(table.claim, Inline) and table.attempts is None:
        yield error(
            "AttemptsMissing",
            "spec.table.attempts is required with claim: Inline, since there is no other place to count them: name the column.",
            field="spec.table.attempts",
        )
    if catalog.kind == "p":
        yield note(
            "Partitioned", f"{table.name} is partitioned: each claim looks into every partition that may hold due rows."
        )
