"""What processes use: RSS and processor time, from /proc; which are to leave it to the others; and what machine this is."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.children import until

TICKS = os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """Resident set in MB (10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(f"process {pid} has no memory any more")


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass(slots=True)
class Meter:
    """Processor time of some processes between ``start`` and ``read``."""

    pids: Mapping[str, int]
    before: dict[str, float]
    began: float

    @classmethod
    def start(cls, pids: Mapping[str, int]) -> Meter:
        return cls(pids, {name: cpu_seconds(pid) for name, pid in pids.items()}, time.monotonic())

    def read(self) -> str:
        wall = time.monotonic() - self.began
        used = {name: cpu_seconds(pid) - self.before[name] for name, pid in self.pids.items()}
        parts = [f"{name} {seconds:.2f}" for name, seconds in used.items()]
        return f"processor seconds in {wall:.1f} s: {', '.join(parts)}; load {load()}"


def yield_to_others(pid: int, niceness: int) -> None:
    """With all of its threads; those to come begin as the one that makes them.

    Where Linux shares processors out by sessions first (autogroups, sched(7)), and each process here leads one of its own, it is the
    session that has to be held back: niceness alone holds back nobody but from others of the same session.
    """
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)
    session = Path(f"/proc/{pid}/autogroup")

    def held_back() -> bool:
        try:
            session.write_text(str(niceness))
        except BlockingIOError:
            return False  # who is not root may say so ten times a second
        return True

    if session.exists():
        until(held_back, what=f"the session of process {pid} has niceness {niceness}", timeout=10)


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def machine() -> str:
    """One line: what the figures are worth."""
    models = [line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return (
        f"{len(os.sched_getaffinity(0))} processors ({models[0] if models else platform.machine()}), "
        f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}, load {load()} at the start"
    )


def _cpuinfo() -> list[str]:
    return Path("/proc/cpuinfo").read_text().splitlines()
