"""The Protocols between a queue's worker and the world: where the rows are, and where they are delivered to.

``TransientError`` means that the database or the receiver could not be asked; with ``sent=True`` the write may have
happened, and asking again with the same fence is harmless. A fake of a port passes the same contract suite as the adapter.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from soloist.domain.claims import Claim, Settled, Verdict


class Rows(Protocol):
    """The due rows of one queue, in whatever table they are."""

    async def claim(self, most: int, *, without: Collection[str] = ()) -> list[Claim]:
        """At most ``most`` due rows, claimed and committed; as many as asked means that there may be more.

        ``without``: values of the column of ``concurrency.perKey`` of which this worker has enough in hand. Whoever can
        leaves their rows out, so that those behind them are found; one that gives them all the same does no harm.
        """

    async def renew(self, claims: Sequence[Claim]) -> set[int]:
        """A whole lease from now for each; gives the fences that still hold. One that is missing is lost."""

    async def settle(self, outcomes: Sequence[Settled]) -> list[Verdict]:
        """Write what became of claims, each with its fence, in one transaction; one verdict for each, in the same order."""


class Deliverer(Protocol):
    """Does the work of one row: sends it, or runs the handler."""

    async def deliver(self, claim: Claim) -> Settled:
        """Do it once. Cancelling the awaiting task abandons the attempt; it never raises anything else.

        ``Settled.retry_in`` is already decided here, by the queue's retry rules and what the receiver asked for.
        """
