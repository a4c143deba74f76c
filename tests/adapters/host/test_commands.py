"""Commands on this host: what they are told, what is kept of what they say, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from soloist.adapters.host.commands import CommandLauncher
from soloist.domain.actions import ExecAction, FailedKnown, Order, Outcome, Succeeded
from soloist.domain.errors import TransientError
from soloist.domain.places import ON_A_CLUSTER, fits, without_a_cluster
from soloist.domain.spec import Invalid, Spec, parse_spec
from tests.cluster.children import born, until

ORDER = Order(
    namespace="default", job_name="backup", job_uid="u", generation=1, run_name="backup-1", run_uid="r", scheduled_time=datetime(2026, 3, 1, 2, tzinfo=UTC),
    attempt=2, key="u/2026-03-01T02:00:00Z", fence=7, timeout=timedelta(seconds=60), action=ExecAction(command=("true",)),
)  # fmt: skip


def launch(*command: str, env: dict[str, str] | None = None, timeout: float = 60, trusted: bool = True) -> Outcome:
    launcher = CommandLauncher(env or dict(os.environ), trusted=lambda: trusted)
    order = dataclasses.replace(ORDER, action=ExecAction(command=command), timeout=timedelta(seconds=timeout))
    return asyncio.run(launcher.launch(order))


def spec(**action: Any) -> Spec | Invalid:
    return parse_spec({"schedule": "@hourly", **action})


def test_a_command_is_told_of_its_run_and_of_none_of_our_secrets() -> None:
    ended = launch("env", env={"PATH": os.environ["PATH"], "SOLOIST_DATABASE": "postgresql://secret"})
    assert isinstance(ended, Succeeded)
    assert ended.response is not None
    said = ended.response.excerpt.splitlines()
    assert "SOLOIST_KEY=u/2026-03-01T02:00:00Z" in said
    assert "SOLOIST_SCHEDULED_TIME=2026-03-01T02:00:00Z" in said
    assert {"SOLOIST_FENCE=7", "SOLOIST_ATTEMPT=2", "SOLOIST_RUN=backup-1"} <= set(said)
    assert "secret" not in ended.response.excerpt


def test_the_end_of_what_it_said_is_kept_whichever_way_it_said_it() -> None:
    script = "import sys; print('x' * 5_000_000); print('last', file=sys.stderr)"
    ended = launch(sys.executable, "-c", script)
    assert isinstance(ended, Succeeded)
    assert ended.response is not None
    assert (len(ended.response.excerpt), ended.response.excerpt[-5:]) == (1024, "last\n")


@pytest.mark.parametrize(
    ("command", "reason", "says"),
    [
        (("sh", "-c", "echo no; exit 3"), "CommandFailed", "exited with 3"),
        (("sh", "-c", "kill -9 $$"), "CommandFailed", "was killed by signal 9"),
        (
            ("/no/such/program",),
            "NotStarted",
            "spec.exec.command[0], /no/such/program, could not be started: No such file",
        ),
        (("echo a | cat",), "NotStarted", "or [sh, -c, 'echo a | cat']."),
    ],
)
def test_what_failed_is_known_to_have_failed(command: tuple[str, ...], reason: str, says: str) -> None:
    ended = launch(*command)
    assert isinstance(ended, FailedKnown)
    assert (ended.reason, ended.retryable) == (reason, True)
    assert says in ended.message


def test_what_is_not_over_in_time_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ended = launch("sh", "-c", f"sleep 600 & echo $! $$ > {pids}; wait", timeout=6)
    assert isinstance(ended, FailedKnown)
    assert ended.reason == "TimedOut"
    left = [int(pid) for pid in pids.read_text().split()]
    until(lambda: not any(map(born, left)), what="the command and its child are gone", timeout=90)


def test_a_command_is_over_when_it_ends_whatever_it_leaves_in_the_background(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    opened = len(os.listdir("/proc/self/fd"))
    ended = launch("sh", "-c", f"sleep 600 & echo $! > {pids}; echo done")
    assert isinstance(ended, Succeeded)
    assert ended.response is not None
    assert ended.response.excerpt == "done\n"
    left = int(pids.read_text())
    until(lambda: not born(left), what="its child is gone", timeout=90)
    try:
        ended = launch("sh", "-c", f"setsid sleep 600 & echo $! > {pids}; echo done")
        assert isinstance(ended, Succeeded), "one that has left the group is not waited for"
    finally:
        os.kill(int(pids.read_text()), signal.SIGKILL)
    launch("/no/such/program")
    assert len(os.listdir("/proc/self/fd")) == opened


def test_nothing_starts_once_the_term_is_over() -> None:
    with pytest.raises(TransientError) as over:
        launch("true", trusted=False)
    assert not over.value.sent


def test_a_command_is_for_this_host_and_for_whoever_allows_it() -> None:
    command, job = spec(exec={"command": ["true"]}), spec(job={"template": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{}]}}}}})  # fmt: skip
    half = spec(job={"template": {"spec": {"template": {"spec": {"containers": [{}]}}}}})
    assert isinstance(fits(command, without_a_cluster(commands=True)), Spec)
    for found, place, says in (
        (command, ON_A_CLUSTER, "spec.exec is for soloist standalone"),
        (command, without_a_cluster(commands=False), "start soloist standalone with --allow-exec"),
        (job, without_a_cluster(commands=True), "spec.job needs Kubernetes"),
        (half, without_a_cluster(commands=True), "spec.job needs Kubernetes"),
        (half, ON_A_CLUSTER, "restartPolicy is required"),
    ):
        refused = fits(found, place)
        assert isinstance(refused, Invalid)
        assert says in refused.message
    assert isinstance(fits(job, ON_A_CLUSTER), Spec)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([], "spec.exec.command is required"),
        ("true", "spec.exec.command must be a list"),
        (["a", 1], "spec.exec.command[1] must be text"),
    ],
)
def test_a_command_that_is_none_is_refused_with_a_sentence(command: object, says: str) -> None:
    found = spec(exec={"command": command})
    assert isinstance(found, Invalid)
    assert says in found.message
