"""Who takes part in an election, what one of them knows, and what it may do next, as values."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from soloist.domain.errors import ConfigError
from soloist.domain.lease import LeaseRecord
from soloist.domain.term import Term, Timing


class LossReason(StrEnum):
    """Why a term ended."""

    TRUST_ENDED = "TrustEnded"
    HOLDER_CHANGED = "HolderChanged"
    LEASE_BLANKED = "LeaseBlanked"
    LEASE_DELETED = "LeaseDeleted"
    LEASE_REPLACED = "LeaseReplaced"
    TWIN_DETECTED = "TwinDetected"
    CLOCK_SKEW = "ClockSkew"
    ELECTOR_FAILED = "ElectorFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Who takes part. ``identity`` ends in ``nonce``, which is new at each start of a process."""

    identity: str
    nonce: str
    namespace: str
    name: str
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        if not self.nonce or not self.identity.endswith(self.nonce):
            raise ConfigError(
                f"identity is {self.identity!r}: it must end in the nonce of this start; use identity_of()."
            )

    @property
    def place(self) -> str:
        """The identity without the nonce: what all starts of one Pod share."""
        return self.identity.removesuffix(self.nonce)


@dataclass(frozen=True, slots=True)
class Read:
    """Read the Lease."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Try to take it."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Put the deleted Lease back, held by nobody."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do before ``until`` (CLOCK_BOOTTIME), unless something wakes us."""

    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The term is over. ``message`` is a sentence for people."""

    reason: LossReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One's own write, known by its renewTime, and when it was sent."""

    epoch: int
    renew_time: datetime
    boot: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Everything that one candidate knows. ``known``: ``record`` is what the server said last, and nothing was sent since.

    ``last`` is the last reading with an epoch that its own holder wrote; ``lease`` is how long its holder must be waited for.
    """

    known: bool = False
    record: LeaseRecord | None = None
    read_boot: float = float("-inf")
    changed_boot: float = float("-inf")
    stagger: float = 0.0
    lease: float = 0.0
    last: LeaseRecord | None = None
    highest_epoch: int = 0
    dead_nonce: str | None = None
    sent: tuple[Sent, ...] = ()
    not_before: float = float("-inf")
    skew: timedelta | None = None
    twin: bool = False
    term: Term | None = None
    lost: Lost | None = None

    @property
    def saw_it(self) -> bool:
        """Whether this process ever saw a holder, or the trace of one."""
        return self.lease > 0 or self.last is not None or self.highest_epoch > 0


def identity_of(pod_name: str, pod_uid: str, nonce: str) -> str:
    """Who this process is; no two starts share it."""
    return f"{pod_name}_{pod_uid}_{nonce}"


def is_mine(record: LeaseRecord, me: Candidate) -> bool:
    """Whether this very process holds the Lease."""
    return record.holder == me.identity and record.nonce in (me.nonce, None)


def is_twin(record: LeaseRecord, me: Candidate) -> bool:
    """Whether the holder is another start that gives itself out for the same Pod."""
    return record.holder.startswith(me.place) and not is_mine(record, me)
