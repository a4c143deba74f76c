"""What arrives at a receiver: how many rows in a second, by how large a process, and how soon after they were enqueued."""

from __future__ import annotations

import json
import random
import threading
import time
from functools import partial

from tests.bench.figures import Measured, median, percentile
from tests.bench.processes import rss_mb
from tests.bench.queue_stage import QueueStage, served
from tests.bench.running import Say
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.queue.workers import Crew

QUEUES = 3
"""Of each kind, side by side, so that two hundred rows take no two hundred waits."""

IDLE = 0.6
"""Seconds after which a queue without rows waits as long as it ever does."""


def http(stage: QueueStage, say: Say) -> dict[str, Measured]:
    """One worker, with the defaults of a WorkQueue."""
    rounds, rows = (1, 3_000) if stage.quick else (3, 12_000)
    rates, sizes = [], []
    with Backend() as backend, stage.crew("http", backend) as crew, stage.sink() as sink:
        crew.queue("q", http={"url": sink})
        worker = crew.ready("w")
        for turn in range(1, rounds + 1):
            crew.fill(rows, first=(turn - 1) * rows)
            until(partial(begun, sink, (turn - 1) * rows), what="it begins", timeout=10)
            before, began = served(sink), time.monotonic()
            crew.until_empty()
            rates.append((turn * rows - before) / (time.monotonic() - began))
            sizes.append(rss_mb(worker.child()))
            say(f"{rates[-1]:,.0f} rows/s, {sizes[-1]:.0f} MB")
        if served(sink) != rounds * rows:
            raise RuntimeError(f"{served(sink)} requests arrived for {rounds * rows} rows.")
        parent = rss_mb(worker.process.pid)
    return {
        "http_per_s": Measured(value=median(rates), n=rounds, note=f"{rows:,} rows each, 64 at a time"),
        "worker_rss_mb": Measured(
            value=max(sizes), n=rounds, note=f"after {rounds * rows:,} rows; its parent {parent:.0f}"
        ),
    }


def begun(sink: str, before: int) -> bool:
    return served(sink) > before


def pickup(stage: QueueStage, say: Say) -> dict[str, Measured]:
    """From the call that enqueues a row to its request at the receiver, in queues that are idle."""
    rows = 10 if stage.quick else 70
    kinds = {"listen": {"listen": True}, "poll": {}}
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    with Backend() as backend, stage.crew("pickup", backend) as crew:
        for kind, poll in kinds.items():
            for number in range(QUEUES):
                crew.queue(f"{kind}{number}", poll=poll)
        crew.ready("w", queues=QUEUES * len(kinds))
        names = [f"{kind}{number}" for kind in kinds for number in range(QUEUES)]
        asked: dict[str, list[float]] = {}
        threads = [
            threading.Thread(target=lambda name=name: asked.update({name: now_and_then(crew, name, rows)}))
            for name in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name in names:
            received = backend.wait(rows, path=f"/{name}")
            came = {json.loads(each.body)["n"]: each.wall for each in received}
            found[name.rstrip("0123456789")] += [came[n] - wall for n, wall in enumerate(asked[name])]
    for kind, seconds in found.items():
        say(
            f"{kind}: p50 {percentile(seconds, 0.5) * 1000:.1f} ms, worst {max(seconds) * 1000:.1f} ms, n={len(seconds)}"
        )
    return {
        f"pickup_{kind}_p95_ms": Measured(
            value=percentile(seconds, 0.95) * 1000, n=len(seconds), note=f"worst {max(seconds) * 1000:.0f}"
        )
        for kind, seconds in found.items()
    }


def now_and_then(crew: Crew, queue: str, rows: int) -> list[float]:
    """Enqueues one row at a time, at moments that no poll knows; gives the wall-clock time of each call."""
    asked: list[float] = []
    drawn = random.Random(queue)
    with crew.connect() as connection:
        for n in range(rows):
            time.sleep(IDLE + 0.25 * drawn.random())
            asked.append(time.time())
            connection.execute("SELECT soloist.enqueue(%s, %s::jsonb)", (f"default/{queue}", json.dumps({"n": n})))
    return asked
