"""Outcomes are written many at a time, and one that the table refuses takes none of the others along.

A statement that is refused has written nothing. So the batch is written again in halves, and those in halves, until the
refused outcome stands alone and is parked. Each of the others is written exactly as it would have been without it. With
one refused outcome among n this takes about twice log2(n) statements; without one, the single statement that it always
takes.

An error is a receiver's words, and a database that is kept in another encoding than UTF-8 may lack some of their letters. That
is no reason to park a row: such an error is written again without them.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from soloist.adapters.postgres.failures import RowRefused
from soloist.domain.claims import Failed, Parked, Settled, Verdict

NO_SUCH_LETTER = "22P05"
_log = logging.getLogger(__name__)

Write = Callable[[Sequence[Settled]], Awaitable[list[Verdict]]]
Park = Callable[[Settled, RowRefused], Awaitable[Verdict]]


async def settle_apart(outcomes: Sequence[Settled], write: Write, park: Park) -> list[Verdict]:
    """One verdict for each, in the same order.

    ``write`` writes all of what it is given in one transaction, or raises RowRefused and has written nothing; ``park``
    makes a dead letter of a row, with what refused it, and says REFUSED, or LOST where its claim no longer held.
    """
    if not outcomes:
        return []
    try:
        return await write(outcomes)
    except RowRefused as refused:
        if len(outcomes) == 1:
            plain = _in_ascii(outcomes[0])
            if refused.sqlstate == NO_SUCH_LETTER and plain != outcomes[0]:
                return await settle_apart([plain], write, park)
            return [await _parked(outcomes[0], refused, park)]
    half = len(outcomes) // 2
    return [*await settle_apart(outcomes[:half], write, park), *await settle_apart(outcomes[half:], write, park)]


def _in_ascii(outcome: Settled) -> Settled:
    if not isinstance(outcome, Failed | Parked):
        return outcome
    return replace(outcome, error=outcome.error.encode("ascii", "backslashreplace").decode())


async def _parked(outcome: Settled, refused: RowRefused, park: Park) -> Verdict:
    try:
        return await park(outcome, refused)
    except RowRefused as again:
        # Nothing can be written for this row. Its claim runs out, and it comes again until it has come too often.
        _log.error(
            "The outcome of row %s cannot be written (%s), nor can it be parked: %s", outcome.claim.row, refused, again
        )
        return Verdict.LOST
