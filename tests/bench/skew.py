"""How late: from a tick's nominal time to the request at the receiver, or to the Job un-suspended or created."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from tests.bench.bulk import create_all
from tests.bench.figures import Measured, median, percentile
from tests.bench.running import Say
from tests.bench.stage import (
    CONTROLLERS,
    TUNED,
    Stage,
    next_minute,
    scheduled_jobs,
    settled,
    sleep_until,
    spread,
    start_ready,
)
from tests.cluster.backend import Received
from tests.cluster.children import until
from tests.cluster.fixtures import Namespace

MANY = 1000
NEVER_RUN = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}}


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


def burst_of_jobs(stage: Stage, say: Say) -> dict[str, Measured]:
    """1,000 Jobs: ours un-suspended, then the CronJob controller's created, tuned and at its defaults."""
    bursts = 1 if stage.quick else 2
    ours = median(_ours(stage, say, bursts))
    tuned = _cronjobs(stage, say, "tuned", TUNED, bursts)
    default = _cronjobs(stage, say, "default", (), 1)
    n = f"{MANY} in {bursts} burst" + ("s, the median p99" if bursts > 1 else "")
    return {
        "skew1000_job_p99_s": Measured(value=ours, n=MANY * bursts, note=n),
        "skew1000_over_cronjob_tuned": Measured(
            value=ours / median(tuned), n=bursts, note=f"its p99 {median(tuned):.2f} s"
        ),
        "skew1000_over_cronjob_default": Measured(value=ours / default[0], n=1, note=f"its p99 {default[0]:.1f} s"),
    }


def _ours(stage: Stage, say: Say, bursts: int) -> list[float]:
    namespace = stage.namespace("skew-job")
    found = []
    with stage.crew(namespace) as crew:
        # No Pod ever runs here, so no Job ends: Allow lets the next burst pass all the same.
        scheduled_jobs(
            namespace, MANY, schedule="* * * * *", concurrencyPolicy="Allow", job={"template": {"spec": NEVER_RUN}}
        )
        for name in "ab":
            start_ready(crew, name)
        settled(namespace, MANY)
        for _ in range(bursts):
            tick = next_minute(ahead=8)
            sleep_until(tick - timedelta(seconds=6))
            meter = stage.meter(crew)
            times = _all_at(stage, namespace, "patch", tick, MANY)
            say(f"ours, {meter.read()}")
            found.append(percentile(times, 0.99))
            say(f"ours: Job un-suspended, p99 {found[-1]:.2f} s; {spread(times)}")
    return found


def _cronjobs(stage: Stage, say: Say, kind: str, flags: tuple[str, ...], bursts: int) -> list[float]:
    namespace = stage.namespace(f"cronjob-{kind}")
    stage.cluster.restart_controllers(controllers=CONTROLLERS, flags=flags)
    found = []
    for number in range(bursts):
        tick = next_minute(ahead=15)
        names = [f"c{number}-{index:04}" for index in range(MANY)]
        bodies = [_cronjob(name, f"{tick.minute} * * * *") for name in names]
        create_all(stage.cluster, namespace.path("cronjobs", group="batch"), bodies)
        sleep_until(tick)
        times = _all_at(stage, namespace, "create", tick, MANY)
        found.append(percentile(times, 0.99))
        say(f"CronJob controller, {kind}: Job created, p99 {found[-1]:.2f} s; {spread(times)}")
        stage.clear(namespace)
    return found


def _cronjob(name: str, schedule: str) -> dict[str, object]:
    spec = {"schedule": schedule, "jobTemplate": {"spec": NEVER_RUN}, "concurrencyPolicy": "Allow"}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


def _all_at(stage: Stage, namespace: Namespace, verb: str, tick: datetime, count: int) -> list[float]:
    """Seconds after ``tick`` of each Job's first such write, once there are ``count`` since then. Looked at seldom."""

    def enough() -> list[float] | None:
        times = [(at - tick).total_seconds() for at in stage.job_times(namespace, verb).values()]
        times = [seconds for seconds in times if seconds > -10]
        if len(times) < count:
            time.sleep(2.0)
            return None
        return times

    sleep_until(tick + timedelta(seconds=5))
    times: list[float] = until(enough, what=f"{count} Jobs", timeout=240)
    if min(times) < 0:
        raise AssertionError(f"early by {-min(times):.3f} s")
    return times
