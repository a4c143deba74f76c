"""A thousand http jobs that are due each minute: how late, how many writes, how fast a new leader catches up, how fast a start."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from soloist.domain.instants import parse_time
from tests.api.crew import Crew
from tests.bench.figures import Measured, median, percentile
from tests.bench.running import Say
from tests.bench.skew import MANY, lateness, tick_of
from tests.bench.stage import (
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
from tests.cluster.request_counts import RequestCounts

CHANGES = ("POST", "PUT", "PATCH", "APPLY")
PATH = "/many"


def everything(stage: Stage, say: Say) -> dict[str, Measured]:
    """One installation goes through all of it, so that what it leaves in the API server is the same for each figure."""
    namespace = stage.namespace("skew-1000")
    with stage.crew(namespace) as crew:
        scheduled_jobs(namespace, MANY, schedule="* * * * *", http={"url": stage.backend.url(PATH)})
        for name in "ab":
            start_ready(crew, name)
        settled(namespace, MANY)
        found = _bursts(stage, crew, say)
        found |= _starts(stage, crew, say)
        found |= _recoveries(stage, crew, say)
    return found


def _bursts(stage: Stage, crew: Crew, say: Say) -> dict[str, Measured]:
    """The first burst warms up and is not counted: it finds a cold interpreter."""
    bursts = 1 if stage.quick else 3
    tick = next_minute(ahead=10)
    _burst(stage, crew, tick, say)
    sleep_until(tick + timedelta(seconds=40))
    before, p99s = stage.cluster.requests(), []
    for number in range(1, bursts + 1):
        late = _burst(stage, crew, tick + timedelta(minutes=number), say)
        p99s.append(percentile(late, 0.99))
    sleep_until(tick + timedelta(minutes=bursts, seconds=40))
    writes = _writes(stage.cluster.requests() - before, say)
    runs = bursts * MANY
    in_bursts = f"{MANY} in each of {bursts} bursts" + (", the median p99" if bursts > 1 else "")
    return {
        "skew1000_received_p99_s": Measured(value=median(p99s), n=runs, note=in_bursts),
        "api_writes_per_run": Measured(value=writes / runs, n=runs, note="minutely, counted by the API server"),
    }


def _writes(counted: RequestCounts, say: Say) -> int:
    kinds = [("jobruns", ""), ("jobruns", "status"), ("scheduledjobs", ""), ("scheduledjobs", "status")]
    parts = [f"{kind}/{part or '-'} {counted.total(CHANGES, kind, part, group='soloist.dev')}" for kind, part in kinds]
    deletes = counted.total("DELETE", "jobruns", group="soloist.dev")
    leases = counted.total(CHANGES, "leases")
    say(f"creates and updates: {', '.join(parts)}; beside them {deletes} deletes, {leases} of Leases")
    return counted.total(CHANGES, group="soloist.dev")


def _burst(stage: Stage, crew: Crew, tick: datetime, say: Say) -> list[float]:
    sleep_until(tick - timedelta(seconds=6))
    meter = stage.meter(crew)
    sleep_until(tick + timedelta(seconds=5))
    received = _wait_for(stage, tick)
    late = lateness(received)
    say(meter.read())
    say(f"{tick:%H:%M}: received, p99 {percentile(late, 0.99):.2f} s; {spread(late)}")
    return late


def _wait_for(stage: Stage, tick: datetime) -> list[Received]:
    """One of each job; a second request for a tick would be a fault."""
    stage.backend.wait(MANY, path=PATH, when=lambda seen: tick_of(seen) == tick, timeout=60)
    received = [seen for seen in stage.backend.received(PATH) if tick_of(seen) == tick]
    if len({seen.header("Idempotency-Key") for seen in received}) != len(received):
        raise AssertionError(f"launched twice at {tick}")
    return received


def _starts(stage: Stage, crew: Crew, say: Say) -> dict[str, Measured]:
    """A third replica, from its start to its /readyz, while nothing is due."""
    times = []
    for number in range(2 if stage.quick else 5):
        sleep_until(_quiet())
        began = time.monotonic()
        member = start_ready(crew, f"r{number}")
        times.append(time.monotonic() - began)
        member.process.stop()
        del crew.members[member.name]
    say(f"start to ready: {spread(times)}")
    return {"ready1000_s": Measured(value=max(times), n=len(times), note="a further replica")}


def _quiet() -> datetime:
    """A moment between the bursts: now, or 20 s after the next minute."""
    minute = next_minute(ahead=0)
    now = datetime.fromtimestamp(time.time(), minute.tzinfo)
    into = (now - minute).total_seconds() + 60
    return now if 15 <= into <= 45 else minute + timedelta(seconds=20 if into > 45 else -40)


def _recoveries(stage: Stage, crew: Crew, say: Say) -> dict[str, Measured]:
    """Nobody there when a minute strikes; 20 s later everybody is back."""
    times = [_recovery(stage, crew, say) for _ in range(1 if stage.quick else 3)]
    note = f"{MANY} in each, the median" if len(times) > 1 else f"{MANY}"
    return {"recover1000_s": Measured(value=median(times), n=len(times), note=note)}


def _recovery(stage: Stage, crew: Crew, say: Say) -> float:
    tick = next_minute(ahead=20)
    sleep_until(tick - timedelta(seconds=18))
    for member in crew.members.values():
        member.terminate()
    for member in crew.members.values():
        until(lambda m=member: not m.process.alive(), what=f"{member.name} has gone", timeout=40)
    sleep_until(tick + timedelta(seconds=18))
    for name in "ab":
        start_ready(crew, name)
    meter = stage.meter(crew)
    lease = crew.lease() or {}
    began = parse_time(lease["spec"]["acquireTime"])
    assert began is not None
    received = _wait_for(stage, tick)
    last = max(seen.at for seen in received)
    say(meter.read())
    took = (last - began).total_seconds()
    say(
        f"missed {tick:%H:%M}: the first received {(min(seen.at for seen in received) - began).total_seconds():.2f} s, the last {took:.2f} s after the term began"
    )
    return took
