"""A claim loop that stands still makes its worker unwell: somebody has to end it, since it renews and claims nothing more."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cluster.children import Child, until
from tests.queue.workers import Crew, Worker

pytestmark = pytest.mark.slow
HANGS = """
import asyncio, os, sys
from pathlib import Path
from soloist.loops.queue_worker import QueueWorker
from soloist.shells import queue_work, worker
from soloist.shells.worker_settings import load
queue_work.HUNG = 0.0
turn = QueueWorker._turn
async def hangs(self):
    while self._name.name == "hung" and Path(os.environ["HANG"]).exists():
        await asyncio.sleep(0.1)
    return await turn(self)
QueueWorker._turn = hangs
sys.exit(worker.run(load({}, os.environ)))
"""
"""The loop of the queue `hung` stands still while there is a file; a lease is all the patience that /healthz has here."""
LEASE = 10


def test_a_worker_whose_idle_loop_stands_still_for_a_lease_is_unwell_and_says_which(crew: Crew, tmp_path: Path) -> None:
    hang = tmp_path / "hang"
    crew.queue("hung", leaseSeconds=LEASE)
    crew.queue("fine", leaseSeconds=600)
    env = {
        "SOLOIST_FILE": str(crew.manifest),
        "SOLOIST_HEALTH_PORT": "0",
        "SOLOIST_HEALTH_ADDRESS": "127.0.0.1",
        "HANG": str(hang),
    }
    worker = Worker("w", Child("w", [sys.executable, "-c", HANGS], log=tmp_path / "w.log", env=env))
    crew.members["w"] = worker
    worker.process.start()
    crew.fill(1, "hung")
    crew.until_empty("hung")
    until(lambda: worker.ask("/healthz")[0] == 200, what="it is well", timeout=120)
    hang.touch()

    def unwell() -> str:
        status, page = worker.ask("/healthz")
        return page if status == 503 else ""

    page = until(unwell, what="it says that it is unwell", timeout=120)
    silent = re.search(r"have not gone round: default/hung for (\d+) s$", page, re.MULTILINE)
    assert silent, page
    assert int(silent[1]) >= LEASE, "so long a loop may take"
    crew.fill(5, "fine")
    crew.until_empty("fine")
    hang.unlink()
    until(lambda: worker.ask("/healthz")[0] == 200, what="it goes round again", timeout=120)
    crew.fill(5, "hung", first=1)
    crew.until_empty("hung")
