"""The statements of one mapped queue, composed once, when the queue is opened."""

from dataclasses import dataclass

from psycopg.sql import Composable

from soloist.adapters.postgres import inline_sql, sidecar_sql, sidecar_sweep_sql
from soloist.adapters.postgres.mapped_sql import INLINE_CLAIM, SIDECAR_CLAIM, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """``claims``: one for each status that may go first. ``end`` is there with Inline only, ``sweep`` with a sidecar.

    ``planner`` goes ahead of a claim that is explained, ``ahead`` of one that is made; ``BY_INDEX`` of everything else.
    """

    claims: tuple[bytes, ...]
    planner: bytes
    ahead: bytes
    renew: bytes
    settle: bytes
    settle_done: bytes
    end: bytes | None = None
    sweep: bytes | None = None


def composed(shape: Shape) -> Statements:
    mode = sidecar_sql if shape.inline is None else inline_sql
    planner = SIDECAR_CLAIM if shape.inline is None else INLINE_CLAIM
    return Statements(
        claims=tuple(_text(mode.claim(shape, first)) for first in range(len(shape.statuses("q")))),
        planner=planner,
        ahead=planner.replace(b"SELECT", b"SELECT soloist.lift_fence(),", 1),
        renew=_text(mode.renew(shape)),
        settle=_text(mode.settle(shape, all_done=False)),
        settle_done=_text(mode.settle(shape, all_done=True)),
        end=None if shape.inline is None else _text(inline_sql.end(shape)),
        sweep=_text(sidecar_sweep_sql.sweep(shape)) if shape.inline is None else None,
    )


def _text(statement: Composable) -> bytes:
    return statement.as_bytes(None)
