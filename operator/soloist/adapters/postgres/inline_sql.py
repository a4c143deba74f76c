"""Claims that are columns of the user's table: a fence, the end of the lease, and a count of claims that came to nothing.

Each row is written twice, at its claim and at its outcome. The first touches no column that an index is likely to have, so it
is heap-only where the page has room. An outcome is one UPDATE, which asks in its WHERE for the fence and for the row to be as
it was claimed; a row that is not has its claim ended by a second one, and nothing else.

A row without a fence whose lease lies ahead is resting. Parked rows rest for ever (``inline_parked_sql``).
"""

from typing import LiteralString

from psycopg.sql import SQL, Composable

from soloist.adapters.postgres.column_sql import NOW, Name, cast, constant, iso, moment
from soloist.adapters.postgres.inline_parked_sql import EVER, REMEMBER
from soloist.adapters.postgres.mapped_sql import AND, COMMA, IS_LIFTED, LIFTED, Shape, due_rows, said
from soloist.adapters.postgres.outcome_sql import all_done, died, forgotten, outcomes, written
from soloist.adapters.postgres.used_up_sql import used_up
from soloist.domain.queue_tables import Inline

_AS_CLAIMED: tuple[tuple[str, LiteralString], ...] = (("due", "timestamptz"), ("attempts", "int8"), ("status", "text"))


def claim(shape: Shape, first: int, *, only_used_up: bool = False) -> Composable:
    """Gives fence, reclaims, attempts so far, those that no longer count, due, then the key and what the claim carries."""
    inline = _inline(shape)
    lease, fence, reclaims = (Name("q", name) for name in (inline.lease_until, inline.fence, inline.reclaims))
    free = SQL("({0} IS NULL OR {0} <= {1})").format(lease, _now(shape, NOW))
    crashes = SQL("CASE WHEN {0} IS NULL THEN coalesce({1}, 0) ELSE coalesce({1}, 0) + 1 END").format(fence, reclaims)
    only = used_up(shape, tried=shape.attempts("q"), crashes=crashes) if only_used_up else None
    ids = [(Name("q", column), name) for column, name in zip(shape.table.id, shape.said_rows(), strict=True)]
    found = [SQL("{} = d.{}").format(value, name) for value, name in ids]
    # An array is looked up in the index whatever the planner thinks of it; a key of several columns needs a join.
    which = SQL("{} = ANY (ARRAY(SELECT r0 FROM due))").format(ids[0][0]) if len(ids) == 1 else AND.join(found)
    assigned = [
        SQL("{} = {}").format(Name(inline.fence), cast(SQL("nextval('soloist.fence')"), shape.columns[inline.fence])),
        SQL("{} = {}").format(Name(inline.reclaims), crashes),
        SQL("{} = {}").format(Name(inline.lease_until), _until(shape, crashes)),
    ]
    if inline.claimed_by is not None:
        assigned.append(SQL("{} = %(worker)s").format(Name(inline.claimed_by)))
    status = shape.table.status
    if status is not None and status.running is not None:
        running = constant(status.running, shape.columns[status.column])
        assigned.append(SQL("{} = {}").format(Name(status.column), running))
    return SQL(
        "WITH {due}, {lifted} UPDATE {relation} AS q SET {assigned} {joined} WHERE {is_lifted} AND {which}"
        " RETURNING {fence}::pg_catalog.int8, {reclaims}::pg_catalog.int8, {attempts}, 0, {iso}, {rows}, {carried}"
    ).format(
        due=due_rows(shape, [SQL("{} AS {}").format(value, name) for value, name in ids], free, first, only),
        lifted=LIFTED,
        is_lifted=IS_LIFTED,
        relation=shape.relation,
        assigned=COMMA.join(assigned),
        joined=SQL("") if len(ids) == 1 else SQL("FROM due AS d"),
        which=which,
        fence=fence,
        reclaims=reclaims,
        attempts=shape.attempts("q"),
        iso=iso(shape.due("q")),
        rows=COMMA.join(shape.rows("q")),
        carried=COMMA.join(shape.carried_texts("q")),
    )


def renew(shape: Shape) -> Composable:
    inline = _inline(shape)
    reclaims = SQL("coalesce({}, 0)").format(Name("q", inline.reclaims))
    return SQL("WITH {said} UPDATE {relation} AS q SET {lease} = {until} FROM x WHERE {held} RETURNING x.fence").format(
        said=said(shape),
        relation=shape.relation,
        lease=Name(inline.lease_until),
        until=_until(shape, reclaims),
        held=_held(shape),
    )


def settle(shape: Shape) -> Composable:
    """Gives n, outcome and true, of those whose claim holds and whose row is as it was claimed."""
    parts = [
        outcomes(shape, ("attempt", "int4"), ("reclaims", "int4"), *_AS_CLAIMED),
        _written(shape, SQL(", x.error, x.reason, x.attempt, x.reclaims")),
        forgotten(SQL("SELECT w.key FROM written AS w WHERE w.outcome = 'Done'")),
        REMEMBER,
        died(shape, "written", where=SQL("true")),
    ]
    return SQL("WITH {} SELECT w.n, w.outcome, true FROM written AS w").format(COMMA.join(parts))


def complete(shape: Shape) -> Composable:
    """Of a batch of nothing but Done: gives the fences of those that were written, and touches no other."""
    done = forgotten(SQL("SELECT w.key FROM written AS w"))
    parts = [all_done(shape, *_AS_CLAIMED), _written(shape, SQL("")), done]
    return SQL("WITH {} SELECT w.fence FROM written AS w").format(COMMA.join(parts))


def _written(shape: Shape, told: Composable) -> Composable:
    later = SQL("({} + x.wait)").format(NOW)
    rest = SQL(
        "CASE x.outcome WHEN 'Park' THEN {} WHEN 'PutBack' THEN CASE WHEN x.wait > interval '0' THEN {} END END"
    ).format(_now(shape, EVER), _now(shape, later))
    kept = SQL("CASE x.outcome WHEN 'PutBack' THEN {} ELSE 0 END").format(Name("q", _inline(shape).reclaims))
    return SQL(
        "written AS (UPDATE {relation} AS q SET {assigned} FROM x WHERE {held} AND {same}"
        " RETURNING x.n, x.key, {rows}, x.fence, x.outcome, x.due{told})"
    ).format(
        relation=shape.relation,
        assigned=COMMA.join([*_free(shape, rest=rest, kept=kept), *written(shape, "q", "x")]),
        held=_held(shape),
        same=_same(shape),
        rows=COMMA.join(shape.said_rows("x")),
        told=told,
    )


def end(shape: Shape) -> Composable:
    """For those that ``settle`` did not give: ends the claims that hold. Gives n and whether the row was as it had been
    claimed; then nothing was changed, and something keeps its outcome from being written without a word."""
    status, assigned = shape.table.status, _free(shape, rest=SQL("NULL"), kept=SQL("0"))
    if status is not None and status.running is not None:
        column, at = shape.columns[status.column], Name("q", status.column)
        running, pending = constant(status.running, column), constant(status.pending[0], column)
        left = SQL("{} = CASE WHEN {} = {} THEN {} ELSE {} END").format(Name(status.column), at, running, pending, at)
        assigned.append(left)
    return SQL(
        "WITH {said}, ended AS (UPDATE {relation} AS q SET {assigned} FROM x WHERE {held} AND NOT ({same}) RETURNING x.n)"
        " SELECT n, false FROM ended UNION ALL"
        " SELECT x.n, true FROM x CROSS JOIN LATERAL (SELECT FROM {relation} AS q WHERE {held} AND {same} LIMIT 1) AS q"
    ).format(
        said=said(shape, *_AS_CLAIMED),
        relation=shape.relation,
        assigned=COMMA.join(assigned),
        held=_held(shape),
        same=_same(shape),
    )


def _inline(shape: Shape) -> Inline:
    if shape.inline is None:
        raise TypeError(f"{shape.table.name} is claimed by a sidecar")
    return shape.inline


def _now(shape: Shape, at: Composable) -> Composable:
    """An instant as the lease's column has it."""
    return moment(at, shape.columns[_inline(shape).lease_until])


def _until(shape: Shape, reclaims: Composable) -> Composable:
    """As in the sidecar: longer, each for a time of its own, where the row killed its workers before."""
    later = SQL("({} + %(lease)s * (1 + greatest({} - 1, 0) * random()))").format(NOW, reclaims)
    return _now(shape, later)


def _held(shape: Shape) -> Composable:
    inline = _inline(shape)
    fence = cast(SQL("x.fence"), shape.columns[inline.fence])
    return SQL("{} AND {} = {}").format(shape.match("q", shape.said_rows("x")), Name("q", inline.fence), fence)


def _same(shape: Shape) -> Composable:
    pairs = [(shape.due("q"), SQL("x.due")), (shape.status("q"), SQL("x.status"))]
    found = [SQL("{} IS NOT DISTINCT FROM {}").format(value, given) for value, given in pairs]
    if shape.table.attempts is not None:
        found.append(SQL("{} = x.attempts").format(shape.attempts("q")))
    return AND.join(found)


def _free(shape: Shape, *, rest: Composable, kept: Composable) -> list[Composable]:
    inline = _inline(shape)
    named = [(inline.fence, SQL("NULL")), (inline.lease_until, rest), (inline.reclaims, kept)]
    if inline.claimed_by is not None:
        named.append((inline.claimed_by, SQL("NULL")))
    return [SQL("{} = {}").format(Name(name), value) for name, value in named]
