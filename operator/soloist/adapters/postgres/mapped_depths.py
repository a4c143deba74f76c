"""The depth of one mapped queue, by one statement that reads the user's table as a claim does, and changes nothing.

What is due is looked at in the order in which it is claimed, up to a number, and each such row is held against its claim: in
hand, resting until a later time, parked for a person, or free to be had. A parked row is dead also when its letter was put
away; one that a sweep will free is free. So a table of any size is measured in bounded time where it has the index that
claims need.
"""

from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.catalog import read_catalog
from soloist.adapters.postgres.column_sql import NOW, Name, instant, moment
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.inline_parked_sql import has_letter, known, parked
from soloist.adapters.postgres.mapped_opening import shape_of, table_of
from soloist.adapters.postgres.mapped_sql import AND, BY_INDEX, COMMA, Shape
from soloist.domain.depth import Depth
from soloist.domain.queue_spec import QueueSpec

MOST = 10_000
"""As far as rows of each status are counted: unlike ours, they are looked up in the table one by one."""

_SOURCE = b"SELECT coalesce((SELECT s.id FROM soloist.sources AS s WHERE s.name = %(name)s), 0)"
_CLAIMS = SQL(
    " LEFT JOIN LATERAL (SELECT c.held_until AS until, c.fence IS NOT NULL AS claimed FROM soloist.claims AS c"
    " WHERE c.key = s.key AND c.held_until > {now} AND (c.fence IS NOT NULL OR c.due IS NOT DISTINCT FROM s.due) LIMIT 1)"
    " AS k ON true"
).format(now=NOW)

_IN_COLUMNS = SQL("CASE WHEN s.key IS NULL OR {} THEN s.until END AS until, s.claimed").format(
    known(SQL("s.key"), SQL("s.due"))
)


class MappedDepth:
    """Of one queue whose mapping was found to be good."""

    def __init__(self, database: Database, shape: Shape) -> None:
        self._database, self._queue = database, shape.queue
        self._statement = measuring(shape).as_bytes(None)

    async def measure(self, *, most: int = MOST) -> Depth:
        values = {"queue": self._queue, "most": most}
        ((ready, scheduled, in_flight, dead, oldest_due, whole),) = await self._database.fetch(
            self._statement, values, ahead=BY_INDEX
        )
        return Depth(
            ready=ready, scheduled=scheduled, in_flight=in_flight, dead=dead, oldest_due=oldest_due, whole=whole
        )


async def mapped_depth(database: Database, name: str, spec: QueueSpec) -> MappedDepth:
    """A table that nobody claimed from yet has no number; none of its rows can be in hand."""
    table = table_of(spec).name
    ((source,),) = await database.fetch(_SOURCE, {"name": str(table)})
    return MappedDepth(database, shape_of(name, spec, await read_catalog(database, table), source=source))


def measuring(shape: Shape) -> Composable:
    """Gives one row: ready, scheduled, in flight, dead, seconds, and whether nothing was left uncounted."""
    statuses, sidecar = shape.statuses("q"), shape.inline is None
    due = [SQL("d{}").format(SQL(str(number))) for number in range(len(statuses))]
    parts = [
        SQL("{} AS MATERIALIZED {}").format(name, due_rows(shape, status))
        for name, status in zip(due, statuses, strict=True)
    ]
    later = [_counted(shape, status) for status in statuses] if shape.table.due_at is not None else [SQL("(SELECT 0)")]
    return SQL(
        "WITH {parts}, seen AS (SELECT s.key, s.due, {held} FROM ({every}) AS s{claims}),"
        " later AS (SELECT sum(n)::pg_catalog.int8 AS n, bool_and(n < %(most)s) AS whole FROM (VALUES {later}) AS l(n)),"
        " dead AS (SELECT count(*) AS n FROM"
        " (SELECT FROM soloist.dead_rows AS r WHERE r.queue = %(queue)s LIMIT %(most)s::pg_catalog.int8) AS r)"
        " SELECT count(*) FILTER (WHERE s.until IS NULL),"
        " (SELECT n FROM later) + count(*) FILTER (WHERE NOT coalesce(s.claimed, false) AND isfinite(s.until)),"
        " count(*) FILTER (WHERE s.claimed),"
        " (SELECT n FROM dead) + count(*) FILTER (WHERE NOT coalesce(s.claimed, false) AND NOT isfinite(s.until) AND NOT {letter}),"
        " extract(epoch FROM {now} - min(s.due) FILTER (WHERE s.until IS NULL AND isfinite(s.due)))::float8,"
        " {whole} AND (SELECT whole FROM later) AND (SELECT n < %(most)s FROM dead) FROM seen AS s"
    ).format(
        parts=COMMA.join(parts),
        every=SQL(" UNION ALL ").join(SQL("SELECT * FROM {}").format(name) for name in due),
        held=SQL("k.until, coalesce(k.claimed, false) AS claimed") if sidecar else _IN_COLUMNS,
        letter=has_letter(SQL("s.key"), SQL("s.due")),
        claims=_CLAIMS if sidecar else SQL(""),
        later=COMMA.join(SQL("({})").format(each) for each in later),
        now=NOW,
        whole=AND.join(SQL("(SELECT count(*) < %(most)s FROM {})").format(name) for name in due),
    )


def due_rows(shape: Shape, status: Composable) -> Composable:
    """Those of one status that are due, those first that have been for longest: when, and by what a claim of each is known."""
    order = SQL("") if shape.table.due_at is None else SQL(" ORDER BY {}").format(Name("q", shape.table.due_at))
    return SQL(
        "(SELECT {due} AS due, {held} FROM {relation} AS q WHERE {where}{order} LIMIT %(most)s::pg_catalog.int8)"
    ).format(
        due=shape.due("q"),
        held=_held(shape),
        relation=shape.relation,
        where=AND.join([status, *_at(shape, SQL("<="))]),
        order=order,
    )


def _held(shape: Shape) -> Composable:
    """By what the claim of a row is known: its key in the sidecar, or its columns, and the key of one that is parked."""
    if shape.inline is None:
        return SQL("{} AS key").format(shape.key(shape.rows("q")))
    lease, fence = Name("q", shape.inline.lease_until), Name("q", shape.inline.fence)
    column = shape.columns[shape.inline.lease_until]
    return SQL(
        "CASE WHEN {parked} THEN {key} END AS key,"
        " CASE WHEN {lease} > {now} THEN {until} END AS until, {lease} > {now} AND {fence} IS NOT NULL AS claimed"
    ).format(
        parked=parked(shape, shape.inline, "q"),
        key=shape.key(shape.rows("q")),
        lease=lease,
        now=moment(NOW, column),
        until=instant(lease, column),
        fence=fence,
    )


def _counted(shape: Shape, status: Composable) -> Composable:
    return SQL(
        "(SELECT count(*) FROM (SELECT FROM {relation} AS q WHERE {where} LIMIT %(most)s::pg_catalog.int8) AS c)"
    ).format(relation=shape.relation, where=AND.join([status, *_at(shape, SQL(">"))]))


def _at(shape: Shape, compared: Composable) -> list[Composable]:
    column = shape.table.due_at
    if column is None:
        return []
    return [SQL("{} {} {}").format(Name("q", column), compared, moment(NOW, shape.columns[column]))]
