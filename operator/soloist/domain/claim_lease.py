"""How long a worker may act on a claim, by its own clock.

The database decides when a lease is over; the worker must have stopped before that, without asking. It counts from the
moment it *sent* the last renewal that was answered well, since the database cannot have begun to count earlier, and it
stops a margin sooner, which covers the time that stopping takes. A renewal that is late or fails is not "fine": it moves
nothing. Moments are CLOCK_BOOTTIME, which also counts the time that the machine slept.
"""

from dataclasses import dataclass

LONGEST_MARGIN = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLease:
    """The times of one queue's leases, all from ``seconds``: four renewals fit, so three may fail."""

    seconds: float

    @property
    def margin(self) -> float:
        return min(LONGEST_MARGIN, self.seconds / 6)

    @property
    def renew_after(self) -> float:
        """The age at which a lease is renewed."""
        return self.seconds / 4

    @property
    def rides_along(self) -> float:
        """The age from which a lease is renewed together with an older one, which spares it a statement of its own."""
        return self.seconds / 8

    @property
    def retry_after(self) -> float:
        """How soon a renewal that failed is tried again."""
        return min(1.0, self.seconds / 16)

    @property
    def call_limit(self) -> float:
        """How long the database gets for one answer: a later one would be of no use."""
        return self.seconds / 2

    @property
    def longest_silence(self) -> float:
        """A claim loop that made no progress for this long is taken for hung, and its claims are renewed no more."""
        return self.seconds * 0.6

    def deadline(self, sent: float) -> float:
        """When whoever acts on a claim must have been stopped; ``sent``: of the claim, or of its last good renewal."""
        return sent + self.seconds - self.margin

    def over(self, sent: float, now: float) -> bool:
        return now >= self.deadline(sent)
