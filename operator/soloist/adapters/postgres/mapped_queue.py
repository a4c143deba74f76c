"""What the rows of a mapped queue have to know of it, beside its table."""

from dataclasses import dataclass
from datetime import timedelta

from soloist.domain.queue_spec import OnDead, RetryRules


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedQueue:
    """``worker`` is for people who look at the table; no rule reads it."""

    name: str
    worker: str
    rules: RetryRules
    lease: timedelta = timedelta(seconds=60)
    hold: bool = False
    max_reclaims: int = 5
    poll: timedelta = timedelta(milliseconds=250)
    on_dead: OnDead | None = None
