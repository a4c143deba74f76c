"""Claims that may be worked, and rows that a claim finds and nobody is handed: given up under that very claim.

So a crash in between only means that the next claim finds them again. The others are known to whoever claims before the
first of these is written: they are claimed, whatever becomes of that.

However few rows are asked for, many that nobody is handed are no wall before those behind them: a claim that brings nothing
else is followed by claims of nothing else, in batches that grow as long as they are quick. Where there are none, none of
this is asked.
"""

from collections.abc import Awaitable, Callable, Sequence

from soloist.domain.claims import Claim, PutBack, Settled, Verdict
from soloist.domain.errors import SoloistError
from soloist.domain.polling import MOST_AT_ONCE, how_many_next

GIVING_UP_FOR = 1.0
"""Seconds after which no more is asked for in place of what was given up."""

Ask = Callable[[int, bool], Awaitable[tuple[Sequence[Claim], bool]]]
"""Claims so many, or with true those among so many that nobody is handed; gives them, and whether there may be more."""

Buried = Callable[[Settled, Verdict], None]
"""Hears of each that was given up so, and what became of that."""


def unheard(outcome: Settled, verdict: Verdict) -> None:
    """For whoever counts no dead."""


async def handed_out(
    ask: Ask,
    most: int,
    *,
    given_up: Callable[[Claim], Settled | None],
    settle: Callable[[Sequence[Settled]], Awaitable[list[Verdict]]],
    buried: Buried,
    boottime: Callable[[], float],
) -> list[Claim]:
    """Up to ``most`` that may be worked; ``given_up`` says why another is not, and ``settle`` writes it."""
    found: list[Claim] = []
    until, more, batch = boottime() + GIVING_UP_FOR, True, 0
    while more and len(found) < most:
        try:
            began, room = boottime(), most - len(found)
            asked = batch or min(room, MOST_AT_ONCE)
            claims, more = await ask(asked, batch > 0)
            over = [outcome for claim in claims if (outcome := given_up(claim)) is not None]
            gone = {outcome.claim.fence for outcome in over}
            alive = [claim for claim in claims if claim.fence not in gone]
            found += alive[:room]
            # Of those that were claimed for nobody, one may have been given another try between the look and the claim.
            back = [PutBack(claim=claim) for claim in alive[room:]]
            verdicts = await settle([*over, *back])
            for outcome, verdict in zip(over, verdicts[: len(over)], strict=True):
                buried(outcome, verdict)
            batch = how_many_next(asked, seconds=boottime() - began) if len(over) == asked else 0
        except SoloistError:
            if found:
                break  # they are claimed: whoever asked has to know of them
            raise
        more = more and boottime() < until
    return found
