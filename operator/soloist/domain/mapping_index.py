"""How claims find due rows: by an index that gives them in the order of their due times, or at the price of reading the table."""

from collections.abc import Iterator
from dataclasses import dataclass

from soloist.domain.catalog import Catalog, TableIndex
from soloist.domain.findings import Finding, note, quoted, sql_name, warning
from soloist.domain.queue_tables import Inline, MappedTable, OutcomeBy

_ROOM = 90
MANY = 1000
"""Rows that are passed over before it is worth a word: some milliseconds of each claim that begins with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlan:
    """What EXPLAIN says of a claim: the planner's cost, and how it reads the table, as ``Seq Scan`` or ``Index Scan NAME``."""

    cost: float
    reads: tuple[str, ...]

    @property
    def by_index(self) -> bool:
        return all(read.startswith(("Index Scan", "Index Only Scan")) for read in self.reads)


def index_findings(table: MappedTable, catalog: Catalog, plan: ClaimPlan | None) -> Iterator[Finding]:
    """About claims, then about what claims cost the indexes that are there."""
    if _columns(table) <= set(catalog.columns):  # nobody can make an index on a column that is missing
        yield from _claim_findings(table, catalog, plan)
    if isinstance(table.claim, Inline):
        yield from _inline_findings(table, table.claim, catalog)


def _claim_findings(table: MappedTable, catalog: Catalog, plan: ClaimPlan | None) -> Iterator[Finding]:
    field = "spec.table.dueAt" if table.due_at else "spec.table.status.column"
    if not any(_serves(index, table) for index in catalog.indexes):
        costs = "" if plan is None else f" The planner puts one claim at {plan.cost:,.0f} ({', '.join(plan.reads)})."
        yield warning(
            "DueIndexMissing",
            f"No index of {table.name} gives its due rows in their order, so each claim reads more of it the longer it "
            f"is.{costs} Run: {suggested(table)};",
            field=field,
            column=table.due_at or "",
        )
    elif plan is not None and not plan.by_index and not catalog.filtered:
        yield warning(
            "ClaimPlan",
            f"A claim does not find its rows by an index alone ({', '.join(plan.reads)}; cost {plan.cost:,.0f}): "
            f"run ANALYZE {sql_name(table.name)}; and if that does not help: {suggested(table)};",
            field=field,
        )


def _inline_findings(table: MappedTable, claim: Inline, catalog: Catalog) -> Iterator[Finding]:
    if catalog.fillfactor > _ROOM and catalog.kind == "r":
        yield note(
            "NoRoom",
            f"The pages of {table.name} are filled to {catalog.fillfactor} %, so a claim often finds no room beside its row and "
            f"writes to all indexes. For new pages: ALTER TABLE {sql_name(table.name)} SET (fillfactor = 50);",
            field="spec.table.inline",
        )
    ours = {claim.fence, claim.lease_until, claim.reclaims, claim.claimed_by}
    for index in catalog.indexes:
        if touched := ours & set(index.columns):
            yield warning(
                "ClaimColumnIndexed",
                f"The index {index.name} has a column of the claim in it, so every claim and renewal writes to all indexes of "
                f"{table.name}: drop it, or leave that column out of it.",
                field="spec.table.inline",
                column=sorted(name for name in touched if name)[0],
            )


def given_up_findings(table: MappedTable, count: int) -> Iterator[Finding]:
    """Of rows that were given up and that the table says are due as before: each claim from the head passes over them all."""
    if count < MANY:
        return
    name, wrong = sql_name(table.name), f"{count:,} rows of {table.name} were given up and are still due"
    cost = "so claims walk past all of them time and again, and depths count them before those behind them"
    key = " AND ".join(
        f"{quoted(column)} = :id{number if len(table.id) > 1 else ''}" for number, column in enumerate(table.id, 1)
    )
    if table.outcome is OutcomeBy.WORKER:
        refused = "The table refused their outcomes: mend what is in the way and run soloist queue retry, or give them the status"
        failed = "" if table.status is None else f" {table.status.failed}"
        remedy = f"{refused}{failed}"
    elif table.status is not None:
        column = quoted(table.status.column)
        remedy = (
            f"Write onDead: {{sql: UPDATE {name} SET {column} = '…' WHERE {key}}} with a status that is not among pending, grant "
            f"UPDATE ({column}) for it, and give it to those rows too, or run soloist queue retry"
        )
    else:
        column = quoted(table.due_at or "")
        remedy = (
            f"Write onDead: {{sql: UPDATE {name} SET {column} = NULL WHERE {key}}}, grant UPDATE ({column}) for it, and do the "
            "same with those rows, or run soloist queue retry"
        )
    yield warning("GivenUpStillDue", f"{wrong}, {cost}. {remedy}.", field="spec.onDead")


def _due(table: MappedTable) -> str:
    """The column by which rows are found."""
    return table.due_at or table.id[0]


def _columns(table: MappedTable) -> set[str]:
    """Those of ``suggested``."""
    return {_due(table), *([] if table.status is None else [table.status.column])}


def suggested(table: MappedTable) -> str:
    """The index to make; its WHERE keeps finished rows out of it."""
    due = quoted(_due(table))
    if table.status is None:
        return f"CREATE INDEX CONCURRENTLY ON {sql_name(table.name)} ({due})"
    values = [*table.status.pending, *([table.status.running] if table.status.running else [])]
    column = quoted(table.status.column)
    texts = ["'" + value.replace("'", "''") + "'" for value in values]
    which = f"{column} = {texts[0]}" if len(texts) == 1 else f"{column} IN ({', '.join(texts)})"
    return f"CREATE INDEX CONCURRENTLY ON {sql_name(table.name)} ({due}) WHERE {which}"


def _serves(index: TableIndex, table: MappedTable) -> bool:
    """Whether a claim finds due rows at one place of the index: behind the status, or in an index of those that wait."""
    if not index.valid or index.method != "btree":
        return False
    status = None if table.status is None else table.status.column
    of_waiting = status is None or (index.predicate is not None and status in index.predicate)
    if index.predicate is not None and not of_waiting:
        return False
    wanted = [name for name in (status, table.due_at) if name is not None]
    columns = list(index.columns)
    return columns[: len(wanted)] == wanted or (of_waiting and (table.due_at is None or columns[:1] == [table.due_at]))
