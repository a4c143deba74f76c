"""A port that somebody else has ends a process at its start, with a sentence about the setting."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

START = [sys.executable, "-c", "from soloist.shells.main import main; main()"]
NOWHERE = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: me, user: {token: t}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
"""
KUBE = ("--kubeconfig", "{kubeconfig}")
COMMANDS = {
    "api-port": ("elect", "--lease", "sweep", "--health-port", "0", *KUBE),
    "health-port": ("elect", "--lease", "sweep", "--api-port", "0", "--health-address", "127.0.0.1", *KUBE),
    "health-port of a controller": ("controller", "--health-address", "127.0.0.1", *KUBE),
    "health-port of a worker": ("worker", "--health-address", "127.0.0.1", *KUBE),
}


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of this host that is listened on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.parametrize("which", COMMANDS)
def test_a_port_that_is_in_use_is_a_sentence_and_no_traceback(which: str, taken: int, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(NOWHERE)
    setting = which.split()[0]
    words = [word.format(kubeconfig=kubeconfig) for word in COMMANDS[which]]
    done = subprocess.run(
        [*START, *words, f"--{setting}", str(taken)], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 2, done.stderr
    sentence = f"Error: {setting} is {taken}, and 127.0.0.1 port {taken} cannot be listened on (Address already in use)"
    assert sentence in done.stderr
    assert "write another, or 0 for a free one." in done.stderr
    assert "Traceback" not in done.stderr
