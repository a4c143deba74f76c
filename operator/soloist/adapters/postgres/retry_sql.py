"""Dead rows of the user's table back to work, when a person says so: due now, with a fresh budget of tries.

The attempt's number goes on where the sidecar can remember that the tries before do not count; an Inline table has no
place for that, so there the count of a row that had failed begins anew, and with it a key per attempt. Rows that the
application moved on meanwhile are not touched; their letter goes, for it speaks of something that is no more. But what
keeps such a row back for ever is let go, though it is out of work for a while (a pause), or, with Inline, due at another
time: with the letter would go the last that says so. With Inline a row that waits is then back.

Locks are taken as by an outcome: the users' rows first, by their key, and then ours.
"""

from psycopg import sql
from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import NOW, Name, Text, constant, moment, touched
from soloist.adapters.postgres.inline_parked_sql import parked
from soloist.adapters.postgres.mapped_sql import AND, COMMA, Shape
from soloist.domain.queue_tables import Inline, OutcomeBy


def retry(shape: Shape) -> Composable:
    """Gives the id of each letter that was there, and whether its row is back."""
    rows = [SQL("d.pk[{}] AS {}").format(sql.Literal(number), name) for number, name in enumerate(shape.said_rows(), 1)]
    handler = shape.table.outcome is OutcomeBy.HANDLER
    parts = [
        SQL(
            "x AS MATERIALIZED (SELECT d.id, d.key, d.reason, d.due_at, d.attempt, {rows} FROM soloist.dead_rows AS d"
            " WHERE d.id = ANY (%(ids)s) AND d.source = {source} ORDER BY {order})"
        ).format(
            rows=COMMA.join(rows),
            source=Text(str(shape.table.name)),
            order=COMMA.join(shape.values([SQL("d.pk[{}]").format(sql.Literal(n + 1)) for n in range(len(rows))])),
        ),
        SQL(
            "locked AS MATERIALIZED (SELECT x.*, coalesce(q.dead, false) AS dead, {held} AS held,"
            " coalesce(q.rests AND q.waits, false) AS freed FROM x LEFT JOIN LATERAL (SELECT {dead} AS dead, {rests} AS rests,"
            " {waits} AS waits FROM {relation} AS q WHERE {match} LIMIT 1 FOR NO KEY UPDATE) AS q ON true)"
        ).format(
            dead=_dead(shape),
            held=_HELD if shape.inline is None else SQL("coalesce(q.rests, false)"),
            rests=SQL("false") if shape.inline is None else parked(shape, shape.inline, "q"),
            waits=SQL(" OR ").join(shape.statuses("q")),
            relation=shape.relation,
            match=shape.match("q", shape.said_rows("x")),
        ),
        # One letter for a row, should it have left several: two of one statement would write the row twice.
        SQL(
            "chosen AS MATERIALIZED (SELECT DISTINCT ON (l.key) l.* FROM locked AS l WHERE l.dead OR l.held"
            " ORDER BY l.key, l.dead DESC, l.id DESC)"
        ),
    ]
    parts.append(_remembered(shape) if shape.inline is None else _FORGOTTEN)
    if not handler:
        parts.append(_back(shape))
    if shape.inline is not None:
        parts.append(_freed(shape, shape.inline))
    which: Composable = SQL("SELECT l.id FROM locked AS l")
    if not handler:
        # A row that is back leaves none; one that is not may have died again since, of which another letter speaks.
        which = SQL("{} UNION ALL SELECT o.id FROM soloist.dead_rows AS o JOIN chosen AS c ON o.key = c.key").format(
            which
        )
    parts.append(SQL("gone AS (DELETE FROM soloist.dead_rows AS d WHERE d.id = ANY (ARRAY({})))").format(which))
    return SQL("WITH {} SELECT l.id, l.dead OR l.freed FROM locked AS l").format(COMMA.join(parts))


def _dead(shape: Shape) -> Composable:
    """Whether the row is as its letter left it."""
    status, same_due = shape.table.status, SQL("{} IS NOT DISTINCT FROM x.due_at").format(shape.due("q"))
    waits = SQL("({}) AND {}").format(SQL(" OR ").join(shape.statuses("q")), same_due)
    if shape.inline is not None:
        waits = SQL("{} AND {} IS NULL").format(waits, Name("q", shape.inline.fence))
    if shape.table.outcome is OutcomeBy.HANDLER or status is None:
        return waits
    failed = SQL("{} = {}").format(
        Name("q", status.column), constant(status.failed or "", shape.columns[status.column])
    )
    return SQL("CASE x.reason WHEN 'Refused' THEN {} ELSE {} END").format(waits, failed)


_HELD = SQL(
    "(SELECT true FROM soloist.claims AS k WHERE k.key = x.key AND k.held_until = 'infinity'"
    " AND k.due IS NOT DISTINCT FROM x.due_at LIMIT 1) IS NOT NULL"
)
_FORGOTTEN = SQL(
    "forgotten AS (DELETE FROM soloist.claims AS k WHERE k.key = ANY (ARRAY(SELECT c.key FROM chosen AS c)) AND k.fence IS NULL)"
)


def _freed(shape: Shape, inline: Inline) -> Composable:
    return SQL("freed AS (UPDATE {} AS q SET {} = NULL FROM chosen AS c WHERE NOT c.dead AND {})").format(
        shape.relation, Name(inline.lease_until), shape.match("q", shape.said_rows("c"))
    )


def _remembered(shape: Shape) -> Composable:
    return SQL(
        "remembered AS (INSERT INTO soloist.claims AS k (key, held_until, due, attempt, retry_base)"
        " SELECT c.key, {now}, c.due_at, c.attempt - 1, c.attempt - 1 FROM chosen AS c ORDER BY c.key"
        " ON CONFLICT ON CONSTRAINT claims_pkey DO UPDATE SET (held_until, attempt, retry_base, reclaims) ="
        " (excluded.held_until, excluded.attempt, excluded.retry_base, 0) WHERE k.fence IS NULL)"
    ).format(now=NOW)


def _back(shape: Shape) -> Composable:
    table, columns, inline = shape.table, shape.columns, shape.inline
    assigned: list[Composable] = []
    if table.status is not None:
        value = constant(table.status.pending[0], columns[table.status.column])
        assigned.append(SQL("{} = {}").format(Name(table.status.column), value))
    if table.due_at is not None:
        assigned.append(SQL("{} = {}").format(Name(table.due_at), moment(NOW, columns[table.due_at])))
    if inline is not None:
        assigned += [SQL("{} = NULL").format(Name(name)) for name in (inline.fence, inline.lease_until)]
        assigned.append(SQL("{} = 0").format(Name(inline.reclaims)))
        if table.attempts is not None:
            at = Name("q", table.attempts)
            left = SQL("{} = CASE c.reason WHEN 'Failed' THEN 0 ELSE {} END").format(Name(table.attempts), at)
            assigned.append(left)
    assigned += [SQL("{} = {}").format(Name(name), touched(columns[name], Name("q", name))) for name in table.touch]
    return SQL("back AS (UPDATE {} AS q SET {} FROM chosen AS c WHERE c.dead AND {})").format(
        shape.relation, COMMA.join(assigned), AND.join([shape.match("q", shape.said_rows("c"))])
    )
