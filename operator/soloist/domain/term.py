"""A term of leadership as a value, the clock that it launches by, and the settings of an election.

Trust counts from the *send* of the last good renewal, on CLOCK_BOOTTIME: a reply that took long extends nothing, and a
machine that slept knows that time went by. A candidate waits the whole lease from when it *received* the last change,
which is later than that send; so the holder has stopped, by the margin, before anybody else may start. Clock offsets do
not matter to this, clock rates may differ by lease / (lease - margin).

The term clock is the renewTime of the last good renewal plus the CLOCK_BOOTTIME since its send. Within a term it never
goes back, and a wall clock that steps between renewals does not move it, so what it showed when the term ended tells a
successor which of the term's runs cannot have been launched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from soloist.domain.errors import ConfigError

MIN_MARGIN_SHARE = 0.1
"""No holder trusts itself for longer than this share short of its lease; so a successor can date any holder's end."""

LONGEST_TRY = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds. ``lease``: what the others wait; ``period``: pace of renewals and polls; ``margin``: trust ends so much earlier."""

    lease: float = 10.0
    period: float = 2.0
    margin: float = 1.0

    def __post_init__(self) -> None:
        if self.lease != int(self.lease) or not 1 <= self.lease <= 3600:
            raise ConfigError(
                f"lease duration is {self.lease:g} s: a Lease holds whole seconds; write a whole number between 1 and 3600."
            )
        least = self.lease * MIN_MARGIN_SHARE
        if not least <= self.margin < self.lease / 2:
            raise ConfigError(
                f"lease margin is {self.margin:g} s: with a lease of {self.lease:g} s "
                f"write at least {least:g} s and less than {self.lease / 2:g} s."
            )
        if not 0.1 <= self.period <= self.trust / 3:
            raise ConfigError(
                f"lease retry period is {self.period:g} s: a lease of {self.lease:g} s less a margin of {self.margin:g} s "
                f"must hold it three times; write between 0.1 and {self.trust / 3:g} s."
            )

    @property
    def trust(self) -> float:
        """How long a holder believes in itself after the send of a good renewal."""
        return self.lease - self.margin

    @property
    def try_timeout(self) -> float:
        """Bound of one whole request: after a period of rest, three of them fit into the trust that is left."""
        return min(LONGEST_TRY, self.period, (self.trust - self.period) / 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One unbroken leadership, and how long it may be believed in. Ask ``trusted`` before each effect.

    ``past_ends`` says, by epoch, when earlier terms ended on their own leaders' clocks; an epoch that is missing is not known.
    """

    identity: str
    epoch: int
    lease_namespace: str
    lease_name: str
    lease_uid: str
    started_boot: float
    trusted_until: float
    renew_time: datetime
    renew_sent_boot: float
    past_ends: Mapping[int, datetime] = field(default_factory=dict)
    fleet_paused: str | None = None

    def trusted(self, boot: float) -> bool:
        """Whether this leader may still act at ``boot`` (CLOCK_BOOTTIME, read just now)."""
        return boot < self.trusted_until

    def now(self, boot: float) -> datetime:
        """What the term clock shows at ``boot``."""
        return self.renew_time + timedelta(seconds=boot - self.renew_sent_boot)
