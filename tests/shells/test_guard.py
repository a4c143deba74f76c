"""A command ends with the term that it runs under, whatever becomes of those around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from soloist.adapters.clock import SystemClock
from soloist.shells import guard
from tests.shells.parents import gone, until

CLOCK = SystemClock()
TALKS = "trap 'echo asked; exit 3' TERM; echo $$; while :; do sleep 0.02; done"
DEAF = "trap '' TERM; echo $$; (trap '' TERM; while :; do sleep 0.02; done) & echo $!; while :; do sleep 0.02; done"


class Guarded:
    """A guard with its command, and this test in the elector's place."""

    def __init__(self, *command: str, log: Path, trusted: float = 30.0) -> None:
        self.log = log
        argv = [sys.executable, "-m", "soloist.shells.guard", *command]
        with log.open("wb") as out:
            self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=out)
        self.say(guard.TRUSTED, trusted)

    def say(self, kind: bytes, seconds: float) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(guard.MESSAGE.pack(kind, CLOCK.boottime() + seconds))
        self.process.stdin.flush()

    def said(self) -> list[str]:
        return self.log.read_text().split()

    def pids(self, count: int) -> list[int]:
        """As the command wrote them."""
        return until(lambda: [int(word) for word in self.said()[:count] if len(self.said()) >= count], "it runs")

    def ended(self) -> int:
        return self.process.wait(20)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Guarded]]:
    made: list[Guarded] = []

    def begin(*command: str, **more: float) -> Guarded:
        made.append(Guarded(*command, log=tmp_path / "log", **more))
        return made[-1]

    yield begin
    for each in made:
        if each.process.stdin is not None:
            each.process.stdin.close()
        each.process.kill()
        each.process.wait()


def test_it_ends_with_the_commands_exit_code(start: Callable[..., Guarded]) -> None:
    assert start("sh", "-c", "exit 7").ended() == 7


def test_a_command_that_a_signal_ended_is_told_as_a_shell_tells_it(start: Callable[..., Guarded]) -> None:
    assert start("sh", "-c", "kill -9 $$").ended() == 128 + signal.SIGKILL


def test_what_cannot_be_started_is_said(start: Callable[..., Guarded]) -> None:
    found = start("/no/such/program")
    assert found.ended() == guard.CANNOT_START
    assert "the command cannot be started" in found.log.read_text()


def test_a_term_that_is_over_starts_nothing(start: Callable[..., Guarded]) -> None:
    found = start("sh", "-c", "echo ran", trusted=-1.0)
    assert found.ended() == guard.CANNOT_START
    assert found.said() == []


def test_the_end_of_trust_kills_it_with_all_that_it_started(start: Callable[..., Guarded]) -> None:
    found = start("sh", "-c", DEAF)
    pids = found.pids(2)
    found.say(guard.TRUSTED, 0.2)
    assert found.ended() == 128 + signal.SIGKILL
    until(lambda: all(map(gone, pids)), "nothing of it is left")


def test_a_renewal_keeps_it(start: Callable[..., Guarded]) -> None:
    found = start("sh", "-c", DEAF, trusted=1.5)
    found.say(guard.TRUSTED, 30.0)
    (pid, _) = found.pids(2)
    with pytest.raises(subprocess.TimeoutExpired):
        found.process.wait(2.0)
    assert not gone(pid)


def test_it_is_asked_to_end_and_then_made_to(start: Callable[..., Guarded]) -> None:
    polite = start("sh", "-c", TALKS)
    polite.pids(1)
    polite.say(guard.END, 30.0)
    assert polite.ended() == 3
    assert polite.said()[-1] == "asked"

    deaf = start("sh", "-c", DEAF)
    deaf.pids(2)
    deaf.say(guard.END, 0.3)
    deaf.say(guard.TRUSTED, 30.0)  # the Lease is still renewed meanwhile
    assert deaf.ended() == 128 + signal.SIGKILL


def test_the_electors_death_kills_it(start: Callable[..., Guarded]) -> None:
    found = start("sh", "-c", DEAF)
    pids = found.pids(2)
    assert found.process.stdin is not None
    found.process.stdin.close()
    assert found.ended() == 128 + signal.SIGKILL
    until(lambda: all(map(gone, pids)), "nothing of it is left")


def test_the_guards_own_death_kills_the_command(start: Callable[..., Guarded]) -> None:
    found = start("sh", "-c", DEAF)
    pid, orphan = found.pids(2)
    found.process.kill()
    found.ended()
    until(lambda: gone(pid), "the command is gone")
    os.kill(orphan, signal.SIGKILL)  # in a container this is swept by the parent, once its elector has ended
