"""How a child ended, and the end of what it left behind.

Left behind is whatever is in the child's session, and whatever fell to this process as an orphan because it left that
session in time; but for what says on its command line that it is meant to outlive whoever started it. The child itself
stays unreaped meanwhile: its number, which is the session's, cannot be given away.
"""

import contextlib
import os
import signal
from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from soloist.shells.child import ExitCode

if TYPE_CHECKING:
    from soloist.ports import Clock

SWEEP_SECONDS = 1.0
OUTLIVES = b"cluster_name=soloist-embedded"
"""The embedded database, which other processes of this host may be using."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """``code`` is what a shell would say (128 + n for signal n); after ``term_lost`` another child is to start."""

    code: int
    reason: str
    term_lost: bool

    @classmethod
    def of(cls, seen: os.waitid_result) -> "End":
        status = seen.si_status
        if seen.si_code == os.CLD_EXITED:
            lost = status == ExitCode.TERM_LOST
            return cls(
                code=status, reason="lost its term" if lost else f"ended with exit code {status}", term_lost=lost
            )
        if status == signal.SIGALRM:
            return cls(code=128 + status, reason="stopped by its dead-man timer", term_lost=True)
        return cls(code=128 + status, reason=f"killed by signal {status} ({signal.strsignal(status)})", term_lost=False)


def sweep(child: int, *, spared: Set[int], clock: "Clock") -> int:
    """Kill what dead ``child`` left running, and what that leaves in turn, within a second; how many there were."""
    killed: set[int] = set()
    until = clock.boottime() + SWEEP_SECONDS
    while (left := _left_behind(child) - spared) and clock.boottime() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= left
        signal.sigtimedwait({signal.SIGCHLD}, 0.01)
    return len(killed)


def children() -> set[int]:
    """The children of this process that are alive."""
    return _left_behind(-1)


def _left_behind(child: int) -> set[int]:
    left = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", "rb") as stat:
            # The name in brackets may hold anything, brackets and spaces too: count from its last one.
            state, parent, _group, session = stat.read().rpartition(b")")[2].split()[:4]
            ours = int(session) == child or int(parent) == os.getpid()
            if state not in (b"Z", b"X") and ours and not _outlives(entry):
                left.add(int(entry))
    return left - {child}


def _outlives(pid: str) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as command:
        return OUTLIVES in command.read().split(b"\0")
