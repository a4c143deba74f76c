"""A thousand Jobs due in one second: ours and the CronJob controller's, by turns, on one API server.

Why the two may be compared:

- *Timed by the same clock, to the same point.* The API server's audit log says when it had answered the write after which a
  Job runs: for the CronJob controller its creation, for ours the one that lets go of ``suspend``. What lies before the tick
  is timed for neither. There ours makes the run and the suspended Job (up to ten seconds before) and records it (up to two):
  where that is not through at the tick, it makes ours late, and counts.
- *From the same state.* Each turn has a thousand new schedules of one minute of the hour, from the same Job template, made
  at least half a minute before it; at its end all that it made is deleted, Jobs and runs too.
- *Side by side.* Rounds of both, one straight after the other, on the same two processors: a slow minute of the machine is a
  slow minute for both. A round gives one ratio, and the median of those is the figure. Both are up all through, a pair of our
  controllers and the controller manager, so neither starts cold in its turn, and each has the other idle beside it: ours
  renews a Lease, the controller manager follows every Job of the cluster. At its defaults the controller manager is alone.
- *Without the Job controller.* What it does begins where the clock stops, with a Pod for each Job, and is the same for both;
  but the slower side would make its last Jobs in competition with the Pods of its first. Nor do Pods run here, so no Job
  ends. What this leaves out in our favour: to a Job that is made suspended it gives a status, before the tick.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.bench.bulk import create_all
from tests.bench.figures import Measured, median, percentile, ratio
from tests.bench.processes import Meter
from tests.bench.running import Say
from tests.bench.skew import MANY
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
from tests.cluster.children import until
from tests.cluster.fixtures import Namespace

ROUNDS = 3
AHEAD = 30.0
"""Seconds before the tick, at the least, when the making of a thousand schedules begins: it takes some five."""

NEVER_RUN = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """``make`` arranges a thousand that are due at a minute of the hour; ``verb`` is the write after which a Job runs."""

    says: str
    namespace: Namespace
    verb: str
    make: Callable[[Namespace, str], None]


def burst_of_jobs(stage: Stage, say: Say) -> dict[str, Measured]:
    """Ours un-suspended and the CronJob controller's created, by turns; then those of that controller at its defaults."""
    rounds = 1 if stage.quick else ROUNDS
    mine = Side(
        says="ours, Job un-suspended", namespace=stage.namespace("job-ours"), verb="patch", make=_scheduled_jobs
    )
    its = Side(
        says="CronJob controller, Job created", namespace=stage.namespace("job-its"), verb="create", make=_cronjobs
    )
    ours, tuned = [], []
    stage.cluster.restart_controllers(controllers=CONTROLLERS, flags=TUNED)
    with stage.crew(mine.namespace) as crew:
        for name in "ab":
            start_ready(crew, name)
        pids = stage.pids(crew)
        for _ in range(rounds):
            ours.append(_turn(stage, say, mine, pids))
            tuned.append(_turn(stage, say, its, pids))
    stage.cluster.restart_controllers(controllers=CONTROLLERS, flags=())
    default = _turn(stage, say, its, stage.server_pids())
    in_rounds = f"{MANY} in each of {rounds} rounds, the median" if rounds > 1 else f"{MANY}"
    return {
        "skew1000_job_p99_s": Measured(value=median(ours), n=MANY * rounds, note=in_rounds),
        "skew1000_over_cronjob_tuned": Measured(
            value=ratio(ours, tuned), n=rounds, note=f"of the rounds' ratios the median; its p99 {median(tuned):.2f} s"
        ),
        "skew1000_over_cronjob_default": Measured(value=median(ours) / default, n=1, note=f"its p99 {default:.1f} s"),
    }


def _turn(stage: Stage, say: Say, side: Side, pids: dict[str, int]) -> float:
    """The p99 of one burst. What it made is gone afterwards."""
    tick = next_minute(ahead=AHEAD)
    side.make(side.namespace, f"{tick.minute} * * * *")
    sleep_until(tick - timedelta(seconds=6))
    meter = Meter.start(pids)
    sleep_until(tick + timedelta(seconds=6))
    say(meter.read())
    times = _all_at(stage, side, tick)
    p99 = percentile(times, 0.99)
    say(f"{side.says}, {tick:%H:%M}: p99 {p99:.2f} s; {spread(times)}")
    stage.clear(side.namespace)
    return p99


def _scheduled_jobs(namespace: Namespace, schedule: str) -> None:
    job = {"template": {"spec": NEVER_RUN}}
    scheduled_jobs(namespace, MANY, schedule=schedule, concurrencyPolicy="Allow", job=job)
    settled(namespace, MANY)


def _cronjobs(namespace: Namespace, schedule: str) -> None:
    spec = {"schedule": schedule, "jobTemplate": {"spec": NEVER_RUN}, "concurrencyPolicy": "Allow"}
    bodies = [
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": f"j{number:04}"}, "spec": spec}
        for number in range(MANY)
    ]
    create_all(namespace.cluster, namespace.path("cronjobs", group="batch"), bodies)


def _all_at(stage: Stage, side: Side, tick: datetime) -> list[float]:
    """Seconds after ``tick`` of each Job's first such write, once all are there. Looked at seldom: to look is work, too."""

    def enough() -> list[float] | None:
        times = [(at - tick).total_seconds() for at in stage.job_times(side.namespace, side.verb).values()]
        times = [seconds for seconds in times if seconds > -10]
        if len(times) < MANY:
            time.sleep(5.0)
            return None
        return times

    sleep_until(tick + timedelta(seconds=15))
    times: list[float] = until(enough, what=f"{MANY} Jobs", timeout=240)
    if min(times) < 0:
        raise AssertionError(f"early by {-min(times):.3f} s")
    return times
