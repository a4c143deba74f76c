"""The statements of one mapped queue, composed once, when the queue is opened."""

from dataclasses import dataclass

from psycopg.sql import Composable

from soloist.adapters.postgres import inline_sql, sidecar_outcome_sql, sidecar_sql, sidecar_sweep_sql
from soloist.adapters.postgres.mapped_sql import INLINE_CLAIM, SIDECAR_CLAIM, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """``claims``: one for each status that may go first. ``end`` is there with Inline only, ``sweep`` with a sidecar.

    ``planner`` goes ahead of a claim, ``BY_INDEX`` of everything else.
    """

    claims: tuple[bytes, ...]
    planner: bytes
    renew: bytes
    settle: bytes
    complete: bytes
    end: bytes | None = None
    sweep: bytes | None = None


def composed(shape: Shape) -> Statements:
    if shape.inline is not None:
        return _inline(shape)
    return Statements(
        claims=tuple(_text(sidecar_sql.claim(shape, first)) for first in range(len(shape.statuses("q")))),
        planner=SIDECAR_CLAIM,
        renew=_text(sidecar_sql.renew(shape)),
        settle=_text(sidecar_outcome_sql.settle(shape)),
        complete=_text(sidecar_outcome_sql.complete(shape)),
        sweep=_text(sidecar_sweep_sql.sweep(shape)),
    )


def _inline(shape: Shape) -> Statements:
    return Statements(
        claims=tuple(_text(inline_sql.claim(shape, first)) for first in range(len(shape.statuses("q")))),
        planner=INLINE_CLAIM,
        renew=_text(inline_sql.renew(shape)),
        settle=_text(inline_sql.settle(shape)),
        complete=_text(inline_sql.complete(shape)),
        end=_text(inline_sql.end(shape)),
    )


def _text(statement: Composable) -> bytes:
    return statement.as_bytes(None)
