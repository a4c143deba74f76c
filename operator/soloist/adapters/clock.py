"""The only place that reads a clock.

``boottime`` (CLOCK_BOOTTIME) also counts the time that the machine slept, and nobody can set it: trust, leases and waits
are measured on it. ``now`` is the wall clock, aware, in UTC.
"""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Wall clock, UTC; may step."""
        return datetime.now(UTC)  # noqa: TID251 - the one place

    def boottime(self) -> float:
        """Seconds since the machine started, sleep included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)  # noqa: TID251 - the one place

    def process_started(self, pid: int) -> datetime:
        """When that process began, on the wall clock as it is now."""
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        age = self.boottime() - int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return self.now() - timedelta(seconds=age)
