"""A command of a leader that loses its term while it lives: it dies no later than that leader wakes, and no other runs beside it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.cluster.children import born, until
from tests.standalone.crew import Crew, job

pytestmark = pytest.mark.slow
SOON = 120.0


def test_a_command_dies_with_the_term_that_launched_it_and_the_next_leader_starts_none_beside_it(
    crew: Crew, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    command = ["sh", "-c", f"echo $$ >> {started}; exec sleep 600"]
    crew.write("jobs.yaml", job("lasts", schedule="@every 1s", timeoutSeconds=600, exec={"command": command}))
    for name in ("a", "b"):
        crew.ready(name, "--allow-exec")
    until(lambda: started.exists() and started.read_text().endswith("\n"), what="the command runs", timeout=SOON)
    leader = crew.leader()
    frozen = leader.child()
    os.kill(frozen, signal.SIGSTOP)
    crew.leader(other_than=leader.name)
    os.kill(frozen, signal.SIGCONT)
    until(lambda: not born(int(started.read_text().split()[0])), what="the command is dead", timeout=SOON)
    phases = lambda: [run.get("status", {}).get("phase") for run in crew.objects("JobRun", "lasts")]  # noqa: E731
    until(lambda: "Unknown" in phases(), what="nobody knows what became of it", timeout=SOON)
    assert len(started.read_text().split()) == 1, "until its time is over it counts as running"
