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
"""As many due rows of each status are looked at, those first that have been due for longest. What comes behind as many that
stay pending (parked ones, say, of which it is known) is not freed before some of those are gone."""
MOST_AT_ONCE = 500
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
    return SQL("coalesce({}, {})").format(remembered(key, due), has_letter(key, due))


def remembered(key: Composable, due: Composable) -> Composable:
    """Whether the sidecar does; null where it does not."""
    return SQL(
        "(SELECT true FROM soloist.claims AS c WHERE c.key = {key} AND c.due IS NOT DISTINCT FROM {due}"
        " AND c.fence IS NULL AND c.held_until = {ever} LIMIT 1)"
    ).format(key=key, due=due, ever=EVER)


def has_letter(key: Composable, due: Composable) -> Composable:
    """By the index of letters, whose very expression this is."""
    return SQL(
        "((SELECT true FROM soloist.dead_rows AS d WHERE d.key = {key} AND coalesce(d.due_at, {never}) = coalesce({due}, {never})"
        " LIMIT 1) IS NOT NULL)"
    ).format(key=key, due=due, never=SQL("'-infinity'::pg_catalog.timestamptz"))


def stuck(shape: Shape, inline: Inline) -> Composable:
    """Finds what rests for ever by its columns alone, but for ``without``. Gives the key, then its parts."""
    key = shape.key(shape.rows("q"))
    found = SQL(
        "SELECT {key}, {rows} FROM ({walk}) AS q WHERE {stuck} AND {key} NOT IN (SELECT unnest(%(without)s::pg_catalog.text[]))"
    )
    parts = [
        found.format(key=key, rows=COMMA.join(shape.rows("q")), walk=walk, stuck=_stuck(shape, inline))
        for walk in (_walk(shape, inline, status) for status in shape.statuses("q"))
    ]
    return SQL("{every} LIMIT {most}").format(every=SQL(" UNION ALL ").join(parts), most=sql.Literal(MOST_AT_ONCE))


def freed(shape: Shape, inline: Inline) -> Composable:
    """Frees those of the rows that it still finds so, and passes over what is locked. Gives one row for each."""
    arrays = [SQL("{}::pg_catalog.text[]").format(sql.Placeholder(f"r{n}")) for n in range(len(shape.table.id))]
    return SQL(
        "WITH x AS MATERIALIZED (SELECT u.* FROM unnest({arrays}) AS u({names}) ORDER BY {order}),"
        " locked AS MATERIALIZED (SELECT x.* FROM x CROSS JOIN LATERAL (SELECT FROM {relation} AS q"
        " WHERE {match} AND {stuck} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS q)"
        " UPDATE {relation} AS q SET {lease} = NULL FROM locked AS x WHERE {match} RETURNING true"
    ).format(
        arrays=COMMA.join(arrays),
        names=COMMA.join(shape.said_rows()),
        order=COMMA.join(shape.values(shape.said_rows("u"))),
        relation=shape.relation,
        match=shape.match("q", shape.said_rows("x")),
        stuck=_stuck(shape, inline),
        lease=Name(inline.lease_until),
    )


def _stuck(shape: Shape, inline: Inline) -> Composable:
    """Of a row ``q``."""
    known_to_rest = known(shape.key(shape.rows("q")), shape.due("q"))
    return SQL("{} AND NOT {}").format(parked(shape, inline, "q"), known_to_rest)


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
