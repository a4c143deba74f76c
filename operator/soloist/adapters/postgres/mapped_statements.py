"""The statements of one mapped queue, composed once, when the queue is opened."""

from dataclasses import dataclass

from psycopg.sql import Composable

from soloist.adapters.postgres import inline_sql, sidecar_sql, sidecar_sweep_sql
from soloist.adapters.postgres.mapped_sql import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """``claims``: one for each status that may go first. ``end`` is there with Inline only, ``sweep`` with a sidecar."""

    claims: tuple[bytes, ...]
    renew: bytes
    settle: bytes
    settle_done: bytes
    end: bytes | None = None
    sweep: bytes | None = None


def composed(shape: Shape) -> Statements:
    mode = sidecar_sql if shape.inline is None else inline_sql
    return Statements(
        claims=tuple(_text(mode.claim(shape, first)) for first in range(len(shape.statuses("q")))),
        renew=_text(mode.renew(shape)),
        settle=_text(mode.settle(shape, all_done=False)),
        settle_done=_text(mode.settle(shape, all_done=True)),
        end=None if shape.inline is None else _text(inline_sql.end(shape)),
        sweep=_text(sidecar_sweep_sql.sweep(shape)) if shape.inline is None else None,
    )


def _text(statement: Composable) -> bytes:
    return statement.as_bytes(None)
