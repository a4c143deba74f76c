"""Claims that are rows of soloist.claims: nothing is added to the user's table, and its row is written once, at its outcome.

What makes a claim safe is the sidecar's primary key: a row is inserted, or taken over where nobody holds it any more. That
the row looked free before says nothing, since the look is as old as the statement's snapshot.

Locks are taken in one order everywhere, or claims and outcomes would deadlock: the users' rows first, by their primary key,
and then the sidecar's, by its own. A claim passes over users' rows that are locked. A renewal needs none of them.
"""

from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import NOW, iso
from soloist.adapters.postgres.mapped_sql import AND, COMMA, Shape, due_rows, said
from soloist.adapters.postgres.outcome_sql import died, forgotten, outcomes, written
from soloist.domain.queue_tables import OutcomeBy

# What killed its workers before is kept for longer and longer beyond its lease, each row for a time of its own, so that it
# meets the others of its batch no more.
_UNTIL = SQL("{now} + %(lease)s * (1 + greatest({reclaims} - 1, 0) * random())")


def claim(shape: Shape, first: int) -> Composable:
    """Gives fence, reclaims, attempts so far, those that no longer count, due, then the key and what the claim carries."""
    key = shape.key(shape.rows("q"))
    named = [
        *zip(shape.rows("q"), shape.said_rows(), strict=True),
        *zip(shape.carried_texts("q"), shape.carried_as(), strict=True),
    ]
    named += [(shape.due("q"), SQL("due")), (shape.status("q"), SQL("status")), (shape.attempts("q"), SQL("attempts"))]
    selected = [SQL("{} AS {}").format(value, name) for value, name in (*named, (key, SQL("key")))]
    free = SQL(
        "(SELECT k.held_until FROM soloist.claims AS k WHERE k.key = {key} AND k.held_until > {now}"
        " AND (k.fence IS NOT NULL OR k.due IS NOT DISTINCT FROM {due})) IS NULL"
    ).format(key=key, now=NOW, due=shape.due("q"))
    return SQL(
        "WITH {due}, taken AS ({taken}) SELECT t.fence, t.reclaims, coalesce(d.attempts, t.attempt), t.retry_base, {iso},"
        " {rows}, {carried} FROM taken AS t JOIN due AS d ON d.key = t.key"
    ).format(
        due=due_rows(shape, selected, free, first),
        taken=_taken(shape),
        iso=iso(SQL("d.due")),
        rows=COMMA.join(shape.said_rows("d")),
        carried=COMMA.join(shape.carried_as("d")),
    )


def _taken(shape: Shape) -> Composable:
    """A claim that ended without an outcome counts, unless the application moved the row since. Where it does the moving
    (Handler), a row that is due at another time is a new piece of work, and nothing of the old one counts."""
    same = SQL("k.due IS NOT DISTINCT FROM excluded.due")
    anew = SQL("CASE WHEN {same} THEN {old} ELSE 0 END") if shape.table.outcome is OutcomeBy.HANDLER else SQL("{old}")
    crashes = SQL("CASE WHEN NOT ({same}) THEN 0 WHEN k.fence IS NULL THEN k.reclaims ELSE k.reclaims + 1 END").format(
        same=same
    )
    return SQL(
        "INSERT INTO soloist.claims AS k (key, held_until, fence, due, status, attempts, worker)"
        " SELECT d.key, {now} + %(lease)s, nextval('soloist.fence'), d.due, d.status, d.attempts, %(worker)s"
        " FROM due AS d ORDER BY d.key"
        " ON CONFLICT ON CONSTRAINT claims_pkey DO UPDATE SET (held_until, fence, due, status, attempts, worker, reclaims,"
        " attempt, retry_base) = ({until}, excluded.fence, excluded.due, excluded.status, excluded.attempts, excluded.worker,"
        " {crashes}, {attempt}, {base})"
        " WHERE k.held_until <= {now} OR k.fence IS NULL AND NOT ({same})"
        " RETURNING k.key, k.fence, k.attempt, k.retry_base, k.reclaims"
    ).format(
        now=NOW,
        same=same,
        crashes=crashes,
        until=_UNTIL.format(now=NOW, reclaims=crashes),
        attempt=anew.format(same=same, old=SQL("k.attempt")),
        base=anew.format(same=same, old=SQL("k.retry_base")),
    )


def renew(shape: Shape) -> Composable:
    return SQL(
        "WITH {said}, sorted AS MATERIALIZED (SELECT * FROM x ORDER BY key)"
        " UPDATE soloist.claims AS k SET held_until = {until}"
        " FROM sorted AS x WHERE k.key = x.key AND k.fence = x.fence RETURNING k.fence"
    ).format(said=said(shape), until=_UNTIL.format(now=NOW, reclaims=SQL("k.reclaims")))


def settle(shape: Shape, *, all_done: bool) -> Composable:
    """Gives n, outcome and whether the row was as it had been claimed, of those whose claim holds."""
    parts = [outcomes(shape, all_done=all_done), _locked(shape), _held(shape, all_done=all_done), _ENDED]
    checked: Composable = SQL("true")
    if shape.table.outcome is OutcomeBy.WORKER:
        parts += [_written(shape), forgotten("held")]
        checked = SQL(
            "soloist.all_written((SELECT count(*) FROM held AS h WHERE {}), (SELECT count(*) FROM written))"
        ).format(_WRITES)
    if not all_done:
        parts += [_rested(shape), died(shape, "held", where=SQL("h.same"))]
    return SQL("WITH {} SELECT h.n, h.outcome, h.same FROM held AS h WHERE {}").format(COMMA.join(parts), checked)


_WRITES = SQL("h.same AND h.outcome IN ('Done', 'Again', 'Dead')")
_ENDED = SQL(
    "ended AS (DELETE FROM soloist.claims AS k WHERE k.key = ANY (ARRAY(SELECT h.key FROM held AS h WHERE NOT h.stays)))"
)


def _locked(shape: Shape) -> Composable:
    return SQL(
        "locked AS MATERIALIZED (SELECT x.*, q.there, q.due, q.status, q.attempts FROM x LEFT JOIN LATERAL ("
        "SELECT true AS there, {due} AS due, {status} AS status, {attempts} AS attempts FROM {relation} AS q"
        " WHERE {match} LIMIT 1 FOR NO KEY UPDATE) AS q ON true)"
    ).format(
        due=shape.due("q"),
        status=shape.status("q"),
        attempts=shape.attempts("q"),
        relation=shape.relation,
        match=shape.match("q", shape.said_rows("x")),
    )


def _held(shape: Shape, *, all_done: bool) -> Composable:
    """Those whose claim holds. Sorted, so every row of the user's is locked before the first one of the sidecar."""
    same = [SQL("l.{0} IS NOT DISTINCT FROM k.{0}").format(SQL(name)) for name in ("due", "status", "attempts")]
    outcome: Composable = SQL("l.outcome")
    stays: Composable = SQL("false")
    if shape.table.outcome is OutcomeBy.HANDLER:
        # The application said that it is done and left the row due as it was: this counts as a failure.
        outcome = SQL(
            "CASE WHEN l.outcome <> 'Done' OR NOT s.same THEN l.outcome WHEN l.wait IS NULL THEN 'Park' ELSE 'Again' END"
        )
    if not all_done:
        remembers = SQL("true") if _counts(shape) or shape.table.due_at is None else SQL("k.retry_base > 0")
        stays = SQL(
            "s.same AND CASE o.outcome WHEN 'Park' THEN true WHEN 'Again' THEN {} WHEN 'PutBack'"
            " THEN l.wait > interval '0' OR k.attempt > 0 OR k.retry_base > 0 OR k.reclaims > 0 ELSE false END"
        ).format(remembers)
    told = SQL("") if all_done else SQL(", l.reason, l.attempt, l.reclaims")
    return SQL(
        "held AS MATERIALIZED (SELECT l.n, l.key, {rows}, l.fence, l.counted, l.error, l.wait{told}, k.due, s.same, o.outcome,"
        " {stays} AS stays FROM (SELECT * FROM locked ORDER BY key) AS l CROSS JOIN LATERAL ("
        "SELECT * FROM soloist.claims AS c WHERE c.key = l.key AND c.fence = l.fence LIMIT 1 FOR UPDATE) AS k"
        " CROSS JOIN LATERAL (SELECT l.there IS NOT NULL AND {same} AS same) AS s"
        " CROSS JOIN LATERAL (SELECT {outcome} AS outcome) AS o)"
    ).format(rows=COMMA.join(shape.said_rows("l")), told=told, stays=stays, same=AND.join(same), outcome=outcome)


def _counts(shape: Shape) -> bool:
    """Whether attempts are counted in the sidecar."""
    return shape.table.outcome is OutcomeBy.HANDLER or shape.table.attempts is None


def _written(shape: Shape) -> Composable:
    return SQL("written AS (UPDATE {} AS q SET {} FROM held AS h WHERE {} AND {} RETURNING h.n)").format(
        shape.relation, COMMA.join(written(shape, "q", "h")), _WRITES, shape.match("q", shape.said_rows("h"))
    )


def _rested(shape: Shape) -> Composable:
    """What is remembered until the next claim. Where the next attempt's time is in the user's row, that keeps it back."""
    moved = shape.table.outcome is OutcomeBy.WORKER and shape.table.due_at is not None
    return SQL(
        "rested AS (UPDATE soloist.claims AS k SET fence = NULL, worker = NULL,"
        " held_until = CASE h.outcome WHEN 'Park' THEN 'infinity' WHEN 'Again' THEN {again} ELSE {now} + h.wait END,"
        " reclaims = CASE h.outcome WHEN 'PutBack' THEN k.reclaims ELSE 0 END, attempt = k.attempt + {counted}"
        " FROM held AS h WHERE h.stays AND k.key = h.key)"
    ).format(
        now=NOW,
        again=NOW if moved else SQL("{} + h.wait").format(NOW),
        counted=SQL("h.counted::pg_catalog.int4") if _counts(shape) else SQL("0"),
    )
