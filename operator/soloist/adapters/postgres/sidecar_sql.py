"""Claims that are rows of soloist.claims: nothing is added to the user's table, and its row is written once, at its outcome.

What makes a claim safe is the sidecar's primary key: a row is inserted, or taken over where nobody holds it any more. That
the row looked free before says nothing, since the look is as old as the statement's snapshot.

Locks are taken in one order everywhere, or claims and outcomes would deadlock: the users' rows first, by their primary key,
and then the sidecar's, by its own. A claim passes over users' rows that are locked. A renewal needs none of them; one that
takes some takes those that are free, of a table that is.
"""

from dataclasses import dataclass

from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import NOW, iso
from soloist.adapters.postgres.mapped_sql import COMMA, IS_LIFTED, LIFTED, Shape, due_rows, said
from soloist.adapters.postgres.used_up_sql import used_up
from soloist.domain.queue_tables import OutcomeBy

# What killed its workers before is kept for longer and longer beyond its lease, each row for a time of its own, so that it
# meets the others of its batch no more.
_UNTIL = SQL("{now} + %(lease)s * (1 + greatest({reclaims} - 1, 0) * random())")


def claim(shape: Shape, first: int, *, only_used_up: bool = False) -> Composable:
    """Gives fence, reclaims, attempts so far, those that no longer count, due, then the key and what the claim carries."""
    rows, carried = COMMA.join(shape.said_rows("d")), COMMA.join(shape.carried_as("d"))
    given = SQL("t.fence, t.reclaims, coalesce(d.attempts, t.attempt), t.retry_base, {}, {}, {}").format(
        iso(SQL("d.due")), rows, carried
    )
    return claim_giving(shape, first, given, only=_used_up(shape) if only_used_up else None)


def claim_giving(shape: Shape, first: int, given: Composable, *, only: Composable | None = None) -> Composable:
    """What is ``given`` is read of the claim ``t`` and of the due row ``d`` (r0, r1 …, c0, c1 …, due, attempts)."""
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
        "WITH {due}, {lifted}, taken AS ({taken}) SELECT {given} FROM taken AS t JOIN due AS d ON d.key = t.key"
    ).format(
        due=due_rows(shape, selected, free, first, only),
        lifted=LIFTED,
        taken=_taken(shape),
        given=given,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remembered:
    """What the sidecar's row ``k`` says to a new claim of its row, as SQL."""

    same: Composable
    crashes: Composable
    attempt: Composable
    base: Composable


def _remembered(shape: Shape, due: Composable) -> _Remembered:
    """A claim that ended without an outcome counts, unless the application moved the row since. Where it does the moving
    (Handler), a row that is due at another time is a new piece of work, and nothing of the old one counts."""
    same = SQL("k.due IS NOT DISTINCT FROM {}").format(due)
    anew = SQL("CASE WHEN {same} THEN {old} ELSE 0 END") if shape.table.outcome is OutcomeBy.HANDLER else SQL("{old}")
    crashes = SQL("CASE WHEN NOT ({same}) THEN 0 WHEN k.fence IS NULL THEN k.reclaims ELSE k.reclaims + 1 END")
    return _Remembered(
        same=same,
        crashes=crashes.format(same=same),
        attempt=anew.format(same=same, old=SQL("k.attempt")),
        base=anew.format(same=same, old=SQL("k.retry_base")),
    )


def _used_up(shape: Shape) -> Composable:
    old, attempts = _remembered(shape, shape.due("q")), shape.attempts("q")
    tried = SQL("coalesce({}, {}) - {}").format(attempts, old.attempt, old.base)
    return SQL("coalesce((SELECT {known} FROM soloist.claims AS k WHERE k.key = {key}), {unknown})").format(
        known=used_up(shape, tried=tried, crashes=old.crashes),
        key=shape.key(shape.rows("q")),
        unknown=used_up(shape, tried=SQL("coalesce({}, 0)").format(attempts), crashes=SQL("0")),
    )


def _taken(shape: Shape) -> Composable:
    old = _remembered(shape, SQL("excluded.due"))
    return SQL(
        "INSERT INTO soloist.claims AS k (key, held_until, fence, due, status, attempts, worker)"
        " SELECT d.key, {now} + %(lease)s, nextval('soloist.fence'), d.due, d.status, d.attempts, %(worker)s"
        " FROM due AS d WHERE {is_lifted} ORDER BY d.key"
        " ON CONFLICT ON CONSTRAINT claims_pkey DO UPDATE SET (held_until, fence, due, status, attempts, worker, reclaims,"
        " attempt, retry_base) = ({until}, excluded.fence, excluded.due, excluded.status, excluded.attempts, excluded.worker,"
        " {crashes}, {attempt}, {base})"
        " WHERE k.held_until <= {now} OR k.fence IS NULL AND NOT ({same})"
        " RETURNING k.key, k.fence, k.attempt, k.retry_base, k.reclaims"
    ).format(
        now=NOW,
        is_lifted=IS_LIFTED,
        same=old.same,
        crashes=old.crashes,
        until=_UNTIL.format(now=NOW, reclaims=old.crashes),
        attempt=old.attempt,
        base=old.base,
    )


def renew(shape: Shape) -> Composable:
    return SQL(
        "WITH {said}, sorted AS MATERIALIZED (SELECT * FROM x ORDER BY key)"
        " UPDATE soloist.claims AS k SET held_until = {until}"
        " FROM sorted AS x WHERE k.key = x.key AND k.fence = x.fence RETURNING k.fence"
    ).format(said=said(shape), until=_UNTIL.format(now=NOW, reclaims=SQL("k.reclaims")))


def lock_free(shape: Shape) -> Composable:
    """Before a renewal in a transaction that goes on afterwards. Until it ends, others see the old lease. Once that was over
    they would try to take the row over, and wait at the sidecar; as it is they pass it over. A row whose claim is lost is
    left to whoever holds it now."""
    return SQL(
        "WITH {said} SELECT FROM x CROSS JOIN LATERAL (SELECT FROM {relation} AS q"
        " WHERE {match} AND x.fence = (SELECT c.fence FROM soloist.claims AS c WHERE c.key = x.key)"
        " LIMIT 1 FOR NO KEY UPDATE OF q SKIP LOCKED) AS q"
    ).format(said=said(shape), relation=shape.relation, match=shape.match("q", shape.said_rows("x")))
