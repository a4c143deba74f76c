"""Rows of an Inline queue that rest for ever, since the table refused their outcomes: what says so, and what ends it.

Their lease is infinite, which keeps claims off whatever the application does to the row. The sidecar remembers when each was
due, as it does of rows that it parked itself, since the letter that says so too may be put away. A row of which neither says
so (it was queued anew for another time, or tried again while the queue was claimed by the sidecar) would wait for ever: a
sweep sets its lease to NULL.
"""

from psycopg import sql
from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import NOW, Name, moment
from soloist.adapters.postgres.mapped_sql import COMMA, Shape
from soloist.domain.queue_tables import Inline

AS_FAR_AS = 10_000
"""As many due rows of each status are looked at, those first that have been due for longest: one that nobody claims is
among them before long."""
_MOST_AT_ONCE = 500
EVER = SQL("'infinity'::pg_catalog.timestamptz")

REMEMBER = SQL(
    "remembered AS (INSERT INTO soloist.claims AS k (key, held_until, due)"
    " SELECT w.key, {ever}, w.due FROM written AS w WHERE w.outcome = 'Park' ORDER BY w.key"
    " ON CONFLICT ON CONSTRAINT claims_pkey DO UPDATE SET (held_until, fence, due, worker) ="
    " (excluded.held_until, NULL, excluded.due, NULL) WHERE k.fence IS NULL OR k.held_until <= {now})"
).format(ever=EVER, now=NOW)


def parked(shape: Shape, inline: Inline, alias: str) -> Composable:
    """Whether the row's columns say that it rests for ever."""
    ever = moment(EVER, shape.columns[inline.lease_until])
    return SQL("({} IS NULL AND {} = {})").format(Name(alias, inline.fence), Name(alias, inline.lease_until), ever)


def known(key: Composable, due: Composable) -> Composable:
    """Whether the sidecar or a letter says so of a row that is due at this time."""
    return SQL(
        "coalesce((SELECT true FROM soloist.claims AS c WHERE c.key = {key} AND c.due IS NOT DISTINCT FROM {due}"
        " AND c.fence IS NULL AND c.held_until = {ever} LIMIT 1), {letter})"
    ).format(key=key, due=due, ever=EVER, letter=has_letter(key, due))


def has_letter(key: Composable, due: Composable) -> Composable:
    """By the index of letters, whose very expression this is."""
    return SQL(
        "((SELECT true FROM soloist.dead_rows AS d WHERE d.key = {key} AND coalesce(d.due_at, {never}) = coalesce({due}, {never})"
        " LIMIT 1) IS NOT NULL)"
    ).format(key=key, due=due, never=SQL("'-infinity'::pg_catalog.timestamptz"))


def freed(shape: Shape, inline: Inline) -> Composable:
    """Frees what rests for ever by its columns alone, and passes over rows that are locked. Gives one row for each."""
    walks = [_walk(shape, inline, status) for status in shape.statuses("q")]
    named = [*zip(shape.rows("q"), shape.said_rows(), strict=True), (shape.due("q"), SQL("due"))]
    found = SQL("SELECT {selected} FROM ({walk}) AS q WHERE {parked} AND NOT {known}")
    parts = [
        found.format(
            selected=COMMA.join(SQL("{} AS {}").format(value, name) for value, name in named),
            walk=walk,
            parked=parked(shape, inline, "q"),
            known=known(shape.key(shape.rows("q")), shape.due("q")),
        )
        for walk in walks
    ]
    return SQL(
        "WITH x AS MATERIALIZED ({every} LIMIT {most}), sorted AS MATERIALIZED (SELECT * FROM x ORDER BY {order}),"
        " locked AS MATERIALIZED (SELECT x.* FROM sorted AS x CROSS JOIN LATERAL (SELECT FROM {relation} AS q"
        " WHERE {match} AND {parked} AND {due} IS NOT DISTINCT FROM x.due LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS q)"
        " UPDATE {relation} AS q SET {lease} = NULL FROM locked AS x WHERE {match} RETURNING true"
    ).format(
        every=SQL(" UNION ALL ").join(parts),
        most=sql.Literal(_MOST_AT_ONCE),
        order=COMMA.join(shape.values(shape.said_rows("x"))),
        relation=shape.relation,
        match=shape.match("q", shape.said_rows("x")),
        parked=parked(shape, inline, "q"),
        due=shape.due("q"),
        lease=Name(inline.lease_until),
    )


def _walk(shape: Shape, inline: Inline, status: Composable) -> Composable:
    due = shape.table.due_at or ""
    named = dict.fromkeys([*shape.table.id, due, inline.fence, inline.lease_until])
    return SQL(
        "SELECT {names} FROM {relation} AS q WHERE {status} AND {due} <= {now} ORDER BY {due} LIMIT {most}"
    ).format(
        names=COMMA.join(Name("q", name) for name in named),
        relation=shape.relation,
        status=status,
        due=Name("q", due),
        now=moment(NOW, shape.columns[due]),
        most=sql.Literal(AS_FAR_AS),
    )
