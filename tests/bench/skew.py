"""How late: from a tick's nominal time to the request at the receiver."""

from __future__ import annotations

from datetime import datetime

from tests.bench.figures import Measured, percentile
from tests.bench.running import Say
from tests.bench.stage import Stage, scheduled_jobs, spread, start_ready
from tests.cluster.backend import Received

MANY = 1000


def tick_of(seen: Received) -> datetime:
    return datetime.fromisoformat((seen.header("Soloist-Scheduled-Time") or "").replace("Z", "+00:00"))


def lateness(received: list[Received]) -> list[float]:
    """Seconds; a negative one would be a run before its time."""
    found = [(seen.at - tick_of(seen)).total_seconds() for seen in received]
    if found and min(found) < 0:
        raise AssertionError(f"early by {-min(found):.3f} s")
    return found


def one(stage: Stage, say: Say) -> dict[str, Measured]:
    """One http job and nothing else."""
    ticks = 15 if stage.quick else 100
    namespace = stage.namespace("skew-1")
    with stage.crew(namespace) as crew:
        scheduled_jobs(namespace, 1, schedule="@every 2s", http={"url": stage.backend.url("/one")})
        for name in "ab":
            start_ready(crew, name)
        meter = stage.meter(crew)
        # The first ones find a cold interpreter and no connection; an hour later nothing is cold.
        received = stage.backend.wait(ticks + 3, path="/one", timeout=ticks * 3 + 60)[3:]
        say(meter.read())
    late = [1000 * seconds for seconds in lateness(received)]
    say(spread(late, "ms"))
    note = "@every 2s, from the tick to the receiver's clock"
    return {
        "skew1_received_p50_ms": Measured(value=percentile(late, 0.5), n=len(late), note=note),
        "skew1_received_p99_ms": Measured(value=percentile(late, 0.99), n=len(late), note=note),
    }
