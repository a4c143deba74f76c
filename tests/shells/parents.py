"""Starts a real parent with a real child, as PID 1 of a PID namespace or as an ordinary process, and watches both."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
DEADLINE = 60.0
PARENT = "import sys; from soloist.shells.supervisor import run; sys.exit(run(sys.argv[1:]))"
PREAMBLE = """
import json, os, signal, subprocess, sys, time
from datetime import UTC, datetime
from soloist.shells import child
from soloist.shells.child import Beat, ExitCode, arm_dead_man
def say(*words): print(*words, flush=True)
def take(signum, then): signal.signal(signum, then)
child.die_with_parent(); child.die_on_alarm()
say("started", os.getpid(), time.clock_gettime(time.CLOCK_BOOTTIME))
"""


def may_unshare() -> bool:
    return subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode == 0


def until(seen: Callable[[], T], what: str) -> T:
    """The first true value of ``seen``."""
    give_up = time.monotonic() + DEADLINE
    while not (value := seen()):
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {DEADLINE:g} s: {what}")
        time.sleep(0.005)
    return value


class Parent:
    """A parent under test; ``pid`` and ``outer`` are process numbers as this test sees them."""

    def __init__(
        self, child: str, tmp: Path, *, as_pid_1: bool, parent: str = PARENT, before: str = "", **env: str
    ) -> None:
        script = tmp / "child.py"
        script.write_text(PREAMBLE + child)
        words = [sys.executable, "-c", parent, sys.executable, str(script)]
        if before:
            words = ["sh", "-c", f'{before} exec "$@"', "sh", *words]
        if as_pid_1:
            words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *words]
        self._lines: list[str] = []
        self._popen = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **env}, cwd=tmp
        )
        threading.Thread(target=self._read, daemon=True).start()
        self.pid = until(self._first, "the parent runs") if as_pid_1 else self._popen.pid
        self._space = os.readlink(f"/proc/{self.pid}/ns/pid")

    def _read(self) -> None:
        assert self._popen.stdout is not None
        self._lines.extend(self._popen.stdout)  # extend takes line by line

    def _first(self) -> int:
        children = Path(f"/proc/{self._popen.pid}/task/{self._popen.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def lines(self, start: str) -> list[str]:
        return [line.strip() for line in list(self._lines) if line.startswith(start)]

    def wait_for(self, start: str, count: int = 1) -> list[str]:
        try:
            return until(lambda: (found := self.lines(start))[:count] if len(self.lines(start)) >= count else [], start)
        except AssertionError as error:
            raise AssertionError(f"{error}; said: {self._lines}") from None

    def child(self, number: int = 1) -> int:
        """The number-th child, as this test sees it."""
        return self.outer(int(self.wait_for("started", number)[-1].split()[1]))

    def outer(self, inner: int) -> int:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                inside = os.readlink(entry / "ns/pid") == self._space
                numbers = [row for row in (entry / "status").read_text().splitlines() if row.startswith("NSpid:")]
            except OSError:
                continue
            if inside and int(numbers[0].split()[-1]) == inner:
                return int(entry.name)
        return 0

    def send(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def ended(self) -> int:
        """Its exit code."""
        return self._popen.wait(DEADLINE)

    def close(self) -> None:
        if self._popen.poll() is None:
            for pid in (self.pid, self._popen.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._popen.wait(DEADLINE)


def state(pid: int) -> str:
    """One letter as in ps; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def gone(pid: int) -> bool:
    return state(pid) in ("", "Z", "X")


def status(pid: int, key: str) -> str:
    rows = dict(row.split(":", 1) for row in Path(f"/proc/{pid}/status").read_text().splitlines())
    return rows[key].strip()
