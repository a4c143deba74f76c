"""Rows that a claim finds and nobody is handed: given up under that very claim.

So a crash in between only means that the next claim finds them again. The others are known to whoever claims before the
first of these is written: they are claimed, whatever becomes of that.
"""

from collections.abc import Awaitable, Callable, Sequence

from soloist.domain.claims import Claim, Settled, Verdict

Buried = Callable[[Settled, Verdict], None]
"""Hears of each that was given up so, and what became of that."""


def unheard(outcome: Settled, verdict: Verdict) -> None:
    """For whoever counts no dead."""


async def hand_out(
    claims: Sequence[Claim],
    found: list[Claim],
    *,
    given_up: Callable[[Claim], Settled | None],
    settle: Callable[[Sequence[Settled]], Awaitable[list[Verdict]]],
    buried: Buried,
) -> None:
    """Adds to ``found`` the claims that may be worked; ``given_up`` says why another is not, and ``settle`` writes it."""
    over = [outcome for claim in claims if (outcome := given_up(claim)) is not None]
    gone = {outcome.claim.fence for outcome in over}
    found += [claim for claim in claims if claim.fence not in gone]
    for outcome, verdict in zip(over, await settle(over), strict=True):
        buried(outcome, verdict)
