"""The statements of one mapped queue, composed once, when the queue is opened."""

from dataclasses import dataclass

from psycopg.sql import Composable

from soloist.adapters.postgres import inline_parked_sql, inline_sql, sidecar_outcome_sql, sidecar_sql, sidecar_sweep_sql
from soloist.adapters.postgres.mapped_sql import INLINE_CLAIM, SIDECAR_CLAIM, Shape
from soloist.adapters.postgres.walk_sql import passed
from soloist.domain.queue_tables import Inline


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """``claims``: one for each status that may go first, and ``burials`` the same of rows that nobody is handed any more.
    ``end``, ``stuck`` and ``freed`` are there with Inline only, ``passed`` where rows have a due time.

    ``planner`` goes ahead of a claim, ``BY_INDEX`` of everything else.
    """

    claims: tuple[bytes, ...]
    burials: tuple[bytes, ...]
    planner: bytes
    renew: bytes
    settle: bytes
    complete: bytes
    sweep: bytes
    sweep_behind: bytes
    end: bytes | None = None
    stuck: bytes | None = None
    freed: bytes | None = None
    passed: bytes | None = None


def composed(shape: Shape) -> Statements:
    if shape.inline is not None:
        return _inline(shape, shape.inline)
    turns = range(len(shape.statuses("q")))
    return Statements(
        claims=tuple(_text(sidecar_sql.claim(shape, first)) for first in turns),
        burials=tuple(_text(sidecar_sql.claim(shape, first, only_used_up=True)) for first in turns),
        planner=SIDECAR_CLAIM,
        renew=_text(sidecar_sql.renew(shape)),
        settle=_text(sidecar_outcome_sql.settle(shape)),
        complete=_text(sidecar_outcome_sql.complete(shape)),
        sweep=_text(sidecar_sweep_sql.sweep(shape)),
        sweep_behind=_text(sidecar_sweep_sql.behind(shape)),
        passed=_passed(shape),
    )


def _inline(shape: Shape, inline: Inline) -> Statements:
    turns = range(len(shape.statuses("q")))
    return Statements(
        claims=tuple(_text(inline_sql.claim(shape, first)) for first in turns),
        burials=tuple(_text(inline_sql.claim(shape, first, only_used_up=True)) for first in turns),
        planner=INLINE_CLAIM,
        renew=_text(inline_sql.renew(shape)),
        settle=_text(inline_sql.settle(shape)),
        complete=_text(inline_sql.complete(shape)),
        sweep=_text(sidecar_sweep_sql.sweep(shape)),
        sweep_behind=_text(sidecar_sweep_sql.behind(shape)),
        end=_text(inline_sql.end(shape)),
        stuck=_text(inline_parked_sql.stuck(shape, inline)),
        freed=_text(inline_parked_sql.freed(shape, inline)),
        passed=_passed(shape),
    )


def _passed(shape: Shape) -> bytes | None:
    due_at = shape.table.due_at
    return None if due_at is None else _text(passed(shape, due_at))


def _text(statement: Composable) -> bytes:
    return statement.as_bytes(None)
