"""Claims that may be worked, and rows that a claim finds and nobody is handed: given up under that very claim.

So a crash in between only means that the next claim finds them again. The others are known to whoever claims before the
first of these is written: they are claimed, whatever becomes of that.
"""

from collections.abc import Awaitable, Callable, Sequence

from soloist.domain.claims import Claim, Settled, Verdict
from soloist.domain.errors import SoloistError
from soloist.domain.polling import MOST_AT_ONCE

GIVING_UP_FOR = 1.0
"""Seconds after which no more is asked for in place of what was given up."""

Ask = Callable[[int], Awaitable[tuple[Sequence[Claim], bool]]]
"""Claims so many; gives them, and whether there may be more."""

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
    until, more = boottime() + GIVING_UP_FOR, True
    while more and len(found) < most:
        try:
            claims, more = await ask(min(most - len(found), MOST_AT_ONCE))
            over = [outcome for claim in claims if (outcome := given_up(claim)) is not None]
            gone = {outcome.claim.fence for outcome in over}
            found += [claim for claim in claims if claim.fence not in gone]
            for outcome, verdict in zip(over, await settle(over), strict=True):
                buried(outcome, verdict)
        except SoloistError:
            if found:
                break  # they are claimed: whoever asked has to know of them
            raise
        more = more and boottime() < until
    return found
