"""How much memory a leader of a thousand jobs uses once it has launched as many ticks as they have in an hour.

An hour is compressed: each job has thirty ticks, as one that is due every two minutes, some seconds apart; jitter spreads the
runs of a slot over the whole of it.
"""

from __future__ import annotations

import time

from tests.bench.figures import Measured, median
from tests.bench.processes import rss_mb
from tests.bench.running import Say
from tests.bench.skew import MANY
from tests.bench.stage import Stage, scheduled_jobs, settled, start_ready
from tests.cluster.children import until

TICKS = 30
APART = 12
PATH = "/hour"


def an_hour(stage: Stage, say: Say) -> dict[str, Measured]:
    runs = MANY * (6 if stage.quick else TICKS)
    namespace = stage.namespace("memory")
    with stage.crew(namespace) as crew:
        url = stage.backend.url(PATH)
        scheduled_jobs(namespace, MANY, schedule=f"@every {APART}s", jitterSeconds=APART, http={"url": url})
        for name in "ab":
            start_ready(crew, name)
        settled(namespace, MANY)
        leader = crew.leader()
        meter = stage.meter(crew)
        before, began = len(stage.backend.received(PATH)), time.monotonic()
        samples: list[tuple[float, float]] = []

        def enough() -> bool:
            time.sleep(1.0)
            samples.append((len(stage.backend.received(PATH)) - before, rss_mb(leader.child())))
            if len(samples) % 60 == 0:
                say(f"{samples[-1][0]:.0f} runs in {time.monotonic() - began:.0f} s, RSS {samples[-1][1]:.1f} MB")
            return samples[-1][0] >= runs

        until(enough, what=f"{runs} runs", timeout=3600)
        say(meter.read())
        parent = rss_mb(leader.parent)
    half = [rss for count, rss in samples if 0.45 * runs <= count <= 0.55 * runs]
    end = [rss for count, rss in samples if count >= 0.9 * runs]
    highest = max(rss for _, rss in samples)
    note = f"{runs} runs in {time.monotonic() - began:.0f} s"
    return {
        "rss1000_mb": Measured(value=highest, n=1, note=f"the highest; {note}"),
        "rss1000_growth_mb": Measured(value=median(end) - median(half), n=1, note="from the middle tenth to the last"),
        "parent_rss_mb": Measured(value=parent, n=1),
    }
