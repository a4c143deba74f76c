"""One child that never outlives its test: killed by the kernel when the test's process dies, by its group otherwise.

PR_SET_PDEATHSIG is told by the death of the *thread* that forked, not of the process. So every child is started by one
thread that lives as long as the interpreter, and a restart from a short-lived thread cannot kill what it started.
The signal is set by a few lines of Python that then exec the program: no preexec_fn, which is not safe beside threads.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
TIED = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""
STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="starts-children")
POLL, SLOWEST = 0.02, 0.05
"""Seconds between two looks: at first, and where it takes long, for a look costs what is waited for the processor too."""


class ChildDied(Exception):
    """A child ended while somebody needed it; the message carries the last lines it logged."""


class Child:
    """A program in a session of its own, with a log file. `detached` outlives us; without it nothing does."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        log: Path,
        detached: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.argv = [str(part) for part in argv]
        self.log = log
        self.env = env
        self._detached = detached
        self._running: subprocess.Popen[bytes] | None = None
        self.pid = 0
        self.born = ""

    def start(self) -> None:
        if self.alive():
            raise RuntimeError(f"{self.name} runs already, as process {self.pid}.")
        self._running = STARTER.submit(self._start).result()
        self.pid = self._running.pid
        self.born = born(self.pid)

    def _start(self) -> subprocess.Popen[bytes]:
        tied = [sys.executable, "-I", "-S", "-c", TIED, str(os.getpid())]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.argv if self._detached else [*tied, *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self.env} if self.env is not None else None,
            )

    def adopt(self, pid: int, born_at: str) -> None:
        """Takes over a child that another run started; a pid that now belongs to another process is not it."""
        self.pid, self.born = pid, born_at

    def alive(self) -> bool:
        if self._running is not None:
            return self._running.poll() is None
        return bool(self.pid) and born(self.pid) == self.born != ""

    def check(self) -> None:
        if not self.alive():
            raise ChildDied(f"{self.name} is not running. The end of {self.log}:\n{self.tail()}")

    def tail(self, lines: int = 15) -> str:
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        self.check()
        os.killpg(self.pid, number)

    def stop(self, *, grace: float = 0.0) -> None:
        """SIGTERM and `grace` seconds where given, then SIGKILL to the whole group; returns when it is gone."""
        if grace and self.alive():
            self.signal(signal.SIGTERM)
            self._gone_within(grace)
        if self.alive():
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
        if not self._gone_within(60):
            raise RuntimeError(f"{self.name}, process {self.pid}, is still there a minute after SIGKILL.")

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL)
        return True


def born(pid: int) -> str:
    """When the process began, in clock ticks since boot; empty where it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def until(probe: Callable[[], T | None], *, what: str, timeout: float, needs: Sequence[Child] = ()) -> T:
    """The first truthy answer of `probe`. Fails at once with a log's end when a child in `needs` dies."""
    began = time.monotonic()
    while True:
        answer = probe()
        if answer:
            return answer
        for child in needs:
            child.check()
        waited = time.monotonic() - began
        if waited > timeout:
            ends = "".join(f"\nThe end of {child.log}:\n{child.tail(5)}" for child in needs)
            raise TimeoutError(f"Not within {timeout} s: {what}.{ends}")
        time.sleep(min(SLOWEST, POLL + waited / 50))
