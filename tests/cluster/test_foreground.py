"""`make postgres`, `make pgbouncer` and `make receiver`: what the tests run on, for people, and nothing left of it at Ctrl-C."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.cluster.children import born

ROOT = Path(__file__).parents[2]


@contextmanager
def made(target: str) -> Iterator[subprocess.Popen[str]]:
    """What `make TARGET` runs, by this interpreter and in a session of its own."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    words = ["make", "--dry-run", target, f"BIN={Path(sys.executable).parent}"]
    recipe = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    command = shlex.split(recipe.splitlines()[-1])
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    """The next one that it says; with what went wrong, where it has ended instead."""
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.readline().strip() or pytest.fail(process.stderr.read())


def ended(process: subprocess.Popen[str], how: signal.Signals, *, components: int) -> None:
    """As a terminal does it: everybody in the foreground is told."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    started = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    assert len(started) == components
    os.killpg(process.pid, how)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert not any(map(born, started))


@pytest.mark.parametrize(
    ("target", "components", "how"), [("postgres", 1, signal.SIGINT), ("pgbouncer", 2, signal.SIGTERM)]
)
def test_a_database_comes_up_by_one_target_and_goes_with_its_data(
    target: str, components: int, how: signal.Signals, postgres_wanted: None
) -> None:
    with made(target) as process:
        with psycopg.connect(line(process), connect_timeout=60) as connection:
            row = connection.execute("SELECT current_setting('data_directory'), current_setting('fsync')").fetchone()
        assert row is not None
        folder, durable = Path(row[0]), row[1]
        assert durable == "on"
        assert folder.parent.exists()
        ended(process, how, components=components)
    assert not folder.parent.exists()


def test_a_receiver_comes_up_by_one_target_and_prints_what_it_receives() -> None:
    with made("receiver") as process:
        url = line(process)
        for fence in ("7", "8"):
            headers = {"Idempotency-Key": "k", "Soloist-Fence": fence}
            urllib.request.urlopen(urllib.request.Request(url, b"", headers), timeout=60).close()
            assert line(process).endswith(f"POST / Idempotency-Key: k Soloist-Fence: {fence}")
        ended(process, signal.SIGINT, components=1)
