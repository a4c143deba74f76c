"""A process imports only what it needs: a start is what a hand-over waits for, and what is not imported takes no memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from soloist.shells.garbage import THRESHOLDS

LIBRARIES = {"kopf", "kubernetes", "psycopg", "aiohttp"}


@pytest.mark.parametrize(
    ("command", "imported"),
    [
        pytest.param("controller", {"kopf", "kubernetes", "aiohttp"}, id="controller: no database until one is needed"),
        pytest.param("worker", {"psycopg", "aiohttp"}, id="worker: an API server only where its queues are on one"),
        pytest.param("elect", {"aiohttp"}, id="elect: what the Lease is in, when it is known where that is"),
        pytest.param("standalone", {"psycopg", "aiohttp"}, id="standalone: no API server"),
    ],
)
def test_a_command_imports(command: str, imported: set[str]) -> None:
    program = f"import sys, soloist.shells.cli, soloist.shells.{command}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert LIBRARIES & set(done.stdout.split()) == imported


def test_a_worker_in_a_pod_imports_neither_kopf_nor_the_kubernetes_client() -> None:
    parts = "api, config, queue_watch, secrets, service_account"
    program = f"import sys, soloist.shells.worker; from soloist.adapters.kube import {parts}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"kopf", "kubernetes"}.isdisjoint(done.stdout.split())


def test_garbage_is_looked_for_again_once_the_imports_are_through() -> None:
    program = "import gc; gc.disable(); from soloist.shells.garbage import collect_seldom; collect_seldom(); print(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"True {THRESHOLDS} True"
