"""When a known failure is tried again. An unknown outcome is another matter (see ``protocol``)."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class OnUnknown(StrEnum):
    """What becomes of a run whose outcome nobody can know."""

    NEVER = "Never"
    RETRY = "Retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Up to ``max_attempts`` attempts, the n-th wait being ``initial_delay * factor**(n-1)``, at most ``max_delay``."""

    max_attempts: int = 1
    initial_delay: timedelta = timedelta(seconds=10)
    factor: float = 2.0
    max_delay: timedelta = timedelta(seconds=600)
    on_unknown: OnUnknown = OnUnknown.NEVER

    def delay_after(self, attempt: int, asked: timedelta | None = None) -> timedelta:
        """Wait after failed attempt number ``attempt`` (from 1); ``asked`` is the receiver's Retry-After, heeded up to the cap."""
        seconds = self.initial_delay.total_seconds()
        cap = self.max_delay.total_seconds()
        for _ in range(attempt - 1):
            seconds *= self.factor
            if seconds >= cap:
                break
        wished = asked.total_seconds() if asked is not None else 0.0
        return timedelta(seconds=min(cap, max(seconds, wished)))
