"""Outcomes of claims in the sidecar: written to the user's row where it is as it was claimed, and the claim is ended.

The users' rows come first, in the order of their primary key, and then ours, in that of theirs (see ``sidecar_sql``).
"""

from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import NOW, counted
from soloist.adapters.postgres.mapped_sql import AND, COMMA, Shape
from soloist.adapters.postgres.outcome_sql import all_done, died, forgotten, outcomes, written
from soloist.domain.queue_tables import OutcomeBy


def settle(shape: Shape) -> Composable:
    """Gives n, outcome and whether the row was as it had been claimed, of those whose claim holds."""
    parts = [outcomes(shape), _locked(shape), _held(shape), _ENDED, _rested(shape)]
    parts.append(died(shape, "held", where=SQL("h.same")))
    checked: Composable = SQL("true")
    if shape.table.outcome is OutcomeBy.WORKER:
        parts += [_written(shape), forgotten(SQL("SELECT h.key FROM held AS h WHERE h.outcome = 'Done' AND h.same"))]
        checked = SQL(
            "soloist.all_written((SELECT count(*) FROM held AS h WHERE {}), (SELECT count(*) FROM written))"
        ).format(_WRITES)
    return SQL("WITH {} SELECT h.n, h.outcome, h.same FROM held AS h WHERE {}").format(COMMA.join(parts), checked)


def complete(shape: Shape) -> Composable:
    """Of a batch of nothing but Done: gives the fences of those that were written, and touches no other.

    That is most of all outcomes, so no lock is taken but by writing. The order is kept: the users' rows are written first, by
    their key, where they are as their claims remember them. Whether those claims still hold is then seen by ending them: had
    one been taken over while its row was waited for, the counts differ, and nothing stays written.
    """
    found = [
        (shape.due("q"), SQL("k.due")),
        (shape.status("q"), SQL("k.status")),
        (shape.attempts("q"), SQL("k.attempts")),
    ]
    same = [SQL("{} IS NOT DISTINCT FROM {}").format(value, claimed) for value, claimed in found]
    return SQL(
        "WITH {said}, written AS (UPDATE {relation} AS q SET {assigned} FROM x CROSS JOIN LATERAL ("
        "SELECT c.due, c.status, c.attempts FROM soloist.claims AS c WHERE c.key = x.key AND c.fence = x.fence LIMIT 1) AS k"
        " WHERE {match} AND {same} RETURNING x.key, x.fence),"
        " ended AS (DELETE FROM soloist.claims AS k WHERE k.key = ANY (ARRAY(SELECT w.key FROM written AS w))"
        " AND k.fence = ANY (ARRAY(SELECT w.fence FROM written AS w)) RETURNING k.fence), {forgotten}"
        " SELECT e.fence FROM ended AS e"
        " WHERE soloist.all_written((SELECT count(*) FROM written), (SELECT count(*) FROM ended))"
    ).format(
        said=all_done(shape),
        relation=shape.relation,
        assigned=COMMA.join(written(shape, "q", "x")),
        match=shape.match("q", shape.said_rows("x")),
        same=AND.join(same),
        forgotten=forgotten(SQL("SELECT w.key FROM written AS w")),
    )


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


def _held(shape: Shape) -> Composable:
    """Those whose claim holds. Sorted, so every row of the user's is locked before the first one of the sidecar."""
    same = [SQL("l.{0} IS NOT DISTINCT FROM k.{0}").format(SQL(name)) for name in ("due", "status", "attempts")]
    outcome: Composable = SQL("l.outcome")
    if shape.table.outcome is OutcomeBy.HANDLER:
        # The application said that it is done and left the row due as it was: this counts as a failure.
        outcome = SQL(
            "CASE WHEN l.outcome <> 'Done' OR NOT s.same THEN l.outcome WHEN l.wait IS NULL THEN 'Park' ELSE 'Again' END"
        )
    remembers = SQL("true") if _counts(shape) or shape.table.due_at is None else SQL("k.retry_base > 0")
    return SQL(
        "held AS MATERIALIZED (SELECT l.n, l.key, {rows}, l.fence, l.counted, l.error, l.wait, l.reason, k.reclaims, k.due,"
        " {ended} + 1 + l.counted::pg_catalog.int4 AS attempt, s.same, o.outcome,"
        " s.same AND CASE o.outcome WHEN 'Park' THEN true WHEN 'Again' THEN {remembers}"
        " WHEN 'PutBack' THEN l.wait > interval '0' OR k.attempt > 0 OR k.retry_base > 0 OR k.reclaims > 0 ELSE false END"
        " AS stays FROM (SELECT * FROM locked ORDER BY key) AS l CROSS JOIN LATERAL ("
        "SELECT * FROM soloist.claims AS c WHERE c.key = l.key AND c.fence = l.fence LIMIT 1 FOR UPDATE) AS k"
        " CROSS JOIN LATERAL (SELECT l.there IS NOT NULL AND {same} AS same) AS s"
        " CROSS JOIN LATERAL (SELECT {outcome} AS outcome) AS o)"
    ).format(
        rows=COMMA.join(shape.said_rows("l")),
        ended=counted(SQL("coalesce(k.attempts, k.attempt)")),
        remembers=remembers,
        same=AND.join(same),
        outcome=outcome,
    )


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
