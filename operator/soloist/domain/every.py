"""``@every 30s``: slots of one length counted from the Unix epoch.

Counting from a fixed instant, not from when somebody looked, is what lets every replica and every later process agree on the
ticks. Zone and daylight saving do not matter to it.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from soloist.domain.cron_fields import refusal

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_NAMES = {"d": "day", "h": "hour", "m": "minute", "s": "second"}
_LONGEST = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """A tick at each multiple of ``period`` since the epoch."""

    period: timedelta

    def after(self, instant: datetime) -> datetime | None:
        """The first tick strictly later than ``instant``."""
        try:
            return _EPOCH + ((instant - _EPOCH) // self.period + 1) * self.period
        except OverflowError:
            return None

    def at_or_before(self, instant: datetime) -> datetime | None:
        """The last tick that is not later than ``instant``."""
        try:
            return _EPOCH + (instant - _EPOCH) // self.period * self.period
        except OverflowError:
            return None

    @property
    def sentence(self) -> str:
        """Such as "Every 1 hour 30 minutes, counted from 1970-01-01 00:00 UTC"."""
        left, words = int(self.period.total_seconds()), []
        for unit, size in _SECONDS.items():
            count, left = divmod(left, size)
            if count:
                words.append(f"{count} {_NAMES[unit]}{'' if count == 1 else 's'}")
        return f"Every {' '.join(words)}, counted from 1970-01-01 00:00 UTC"


def parse_every(text: str) -> Every:
    """Read ``@every`` and its duration; raises InvalidSchedule."""
    duration = text.removeprefix("@every").strip()
    example = 'write whole seconds, minutes, hours or days, such as "@every 30s" or "@every 1h30m".'
    if re.fullmatch(r"[0-9]+", duration):
        raise refusal(text, "InvalidInterval", f'has no unit: write "@every {duration}s" for seconds, or m, h, d.')
    if not re.fullmatch(r"(?:[0-9]+[smhd])+", duration):
        raise refusal(text, "InvalidInterval", f'has an interval that cannot be read, "{duration[:40]}": {example}')
    counts = re.findall(r"([0-9]+)([smhd])", duration)
    seconds = sum(int(count) * _SECONDS[unit] for count, unit in counts)
    if seconds < 1:
        raise refusal(text, "IntervalOutOfRange", 'would never stop running: write at least "@every 1s".')
    if seconds > _LONGEST.total_seconds():
        remedy = 'is longer than 366 days: write at most "@every 366d", or a date such as "@yearly".'
        raise refusal(text, "IntervalOutOfRange", remedy)
    return Every(period=timedelta(seconds=seconds))
