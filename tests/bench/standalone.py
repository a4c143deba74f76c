"""Figures of `soloist standalone`: real processes on one PostgreSQL server with every durability setting at its default.

`python -m tests.bench.standalone [--quick] [--only SECTION-OR-KEY …]`. Each section says what it finds as it goes; at the end
comes a table, and as the last line one JSON object with a value for each figure, null for what was left out.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from soloist.adapters.postgres.migrate import migrate
from soloist.domain.lease import instant
from tests.api.crew import Controller
from tests.bench.figures import Figure, Measured, percentile
from tests.bench.processes import Meter, rss_mb
from tests.bench.requests import FIGURES as OF_REQUESTS
from tests.bench.requests import drains
from tests.bench.running import Say, Section, run
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.postgres.server import Postgres
from tests.standalone.crew import Crew

FIGURES = (
    Figure(key="ledger10000_s", says="10,000 enqueue jobs due in one second: all committed", unit="s", most=2),
    Figure(key="ledger_skew1_p99_ms", says="1 enqueue job due: row written, p99", unit="ms", most=50, digits=1),
    Figure(key="handover_sigterm_max_s", says="hand-over after SIGTERM, worst", unit="s", most=1, digits=3),
    Figure(key="handover_child_max_s", says="child killed, parent alive, worst", unit="s", most=1, digits=3),
    Figure(key="handover_sigkill_max_s", says="both killed (lease 10 s), worst", unit="s", most=10.5),
    Figure(key="idle_statements_per_s", says="3 idle replicas, 100 jobs: statements", unit="1/s", most=5),
    Figure(key="rss_mb", says="RSS of one of them", unit="MB", most=110, digits=1),
    *OF_REQUESTS,
)
EVERY = 60
"""Seconds between two slots of the burst."""

KNOWN_BEFORE = 40
"""Seconds: jobs of a burst are known for a while, as those are that fall due at midnight."""

MANY, FEW = 10_000, 1_000
IDLE_SECONDS = 60
NEVER = "0 3 1 1 *"
_SAID = re.compile(r"(?:statement|execute [^:]*): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """``quick``: fewer repetitions, to see that it works."""

    server: Postgres
    folder: Path
    quick: bool

    @contextmanager
    def crew(self, name: str) -> Iterator[Crew]:
        """On a database of its own, at the default times of the lease."""
        place = self.server.create_database(f"bench_{name}")
        migrate(place.dsn())
        folder = self.folder / name
        folder.mkdir()
        with Backend() as backend:
            made = Crew(folder, place.dsn(), backend, env={})
            try:
                yield made
            finally:
                made.stop()


@contextmanager
def stage(*, quick: bool) -> Iterator[Stage]:
    with Postgres() as server, tempfile.TemporaryDirectory() as folder:
        yield Stage(server=server, folder=Path(folder), quick=quick)


def enqueueing(name: str, schedule: str) -> dict[str, Any]:
    head = {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "metadata": {"name": name}}
    place = {"databaseRef": {"secretName": "own", "key": "uri"}, "queue": "q", "payload": {"of": name}}
    return {**head, "spec": {"schedule": schedule, "enqueue": place}}


def slot(moment: datetime) -> datetime:
    """The first slot of the burst after that moment."""
    return datetime.fromtimestamp((moment.timestamp() // EVERY + 1) * EVERY, UTC)


def burst(stage: Stage, say: Say) -> dict[str, Measured]:
    many = FEW if stage.quick else MANY
    with stage.crew("burst") as crew:
        for part in range(0, many, 500):
            crew.write(
                f"jobs-{part}.yaml", *(enqueueing(f"job-{n}", f"@every {EVERY}s") for n in range(part, part + 500))
            )
        crew.ready("a")
        leader = crew.leader()
        jobs = "SELECT count(*) FROM soloist.objects WHERE kind = 'ScheduledJob' AND status ? 'observedSchedule'"
        until(lambda: crew.ask(jobs)[0][0] == many, what="all jobs are known", timeout=600)
        due = slot(datetime.now(UTC) + timedelta(seconds=KNOWN_BEFORE))
        say(f"{many} jobs, due at {due:%H:%M:%S}")
        until(lambda: datetime.now(UTC) > due - timedelta(seconds=0.1), what="it is nearly time", timeout=2 * EVERY)
        meter = Meter.start({"leader": leader.child()})
        done = "SELECT count(*), max(recorded_at) FROM soloist.job_runs WHERE tick = %s"

        def through() -> bool:
            time.sleep(0.5)  # whoever asks more often takes part in what is measured
            return bool(crew.ask(done, due)[0][0] == many)

        until(through, what="all have committed", timeout=300)
        say(meter.read())
        took = (crew.ask(done, due)[0][1] - due).total_seconds()
    return {"ledger10000_s": Measured(value=took, n=many, note="from their time to the last row")}


def one(stage: Stage, say: Say) -> dict[str, Measured]:
    ticks = 20 if stage.quick else 120
    with stage.crew("one") as crew:
        crew.write("jobs.yaml", enqueueing("often", "@every 1s"))
        crew.ready("a")
        rows = "SELECT extract(epoch FROM recorded_at - tick) * 1000 FROM soloist.job_runs ORDER BY tick"
        until(lambda: len(crew.ask(rows)) >= ticks + 3, what=f"{ticks} ticks", timeout=ticks + 120)
        late = [float(row[0]) for row in crew.ask(rows)][3:]
    say(f"p50 {percentile(late, 0.5):.1f} ms, worst {max(late):.1f} ms")
    return {"ledger_skew1_p99_ms": Measured(value=percentile(late, 0.99), n=len(late))}


def hand_overs(stage: Stage, say: Say) -> dict[str, Measured]:
    times = 3 if stage.quick else 30
    found: dict[str, list[float]] = {}
    ways = {"sigterm": Controller.terminate, "child": Controller.kill_child, "sigkill": Controller.kill_both}
    with stage.crew("hands") as crew:
        crew.write("none.yaml")
        for name in ("a", "b", "c"):
            crew.ready(name)
        for way, act in ways.items():
            for _ in range(times):
                leader = crew.leader()
                began = time.time()
                act(leader)
                crew.leader(other_than=leader.name)
                ((acquired,),) = crew.ask("SELECT lease #>> '{spec,acquireTime}' FROM soloist.leases")
                taken = instant(acquired)
                assert taken is not None
                found.setdefault(way, []).append(taken.timestamp() - began)
                until(lambda leader=leader: not leader.process.alive(), what="it has ended", timeout=60)  # type: ignore[misc]
                crew.ready(leader.name)
            say(f"{way}: {', '.join(f'{seconds:.2f}' for seconds in sorted(found[way]))} s")
    return {f"handover_{way}_max_s": Measured(value=max(all_), n=len(all_)) for way, all_ in found.items()}


def idle(stage: Stage, say: Say) -> dict[str, Measured]:
    with stage.crew("idle") as crew:
        # A statement is a line of the log then, whoever sends it and however.
        with crew.connect() as connection:
            connection.execute("ALTER DATABASE bench_idle SET log_statement = 'all'")
        crew.write("jobs.yaml", *(enqueueing(f"job-{n}", NEVER) for n in range(100)))
        for name in ("a", "b", "c"):
            crew.ready(name)
        known = "SELECT count(*) FROM soloist.objects WHERE kind = 'ScheduledJob' AND status ? 'observedSchedule'"
        until(lambda: crew.ask(known)[0][0] == 100, what="all jobs are known", timeout=120)
        time.sleep(20)  # what a start brings along is over
        (log,) = stage.server.directory.rglob("*.log")
        before, began = log.stat().st_size, time.monotonic()
        time.sleep(10 if stage.quick else IDLE_SECONDS)
        text, took = log.read_bytes()[before:].decode(errors="replace"), time.monotonic() - began
        rss = max(rss_mb(member.child()) for member in crew.members.values())
    count = sum(bool(_SAID.search(line)) for line in text.splitlines())
    say(json.dumps({"statements": count, "seconds": round(took, 1)}))
    return {
        "idle_statements_per_s": Measured(value=count / took, n=count, note="all three together"),
        "rss_mb": Measured(value=rss, n=3, note="the largest"),
    }


def requests(stage: Stage, say: Say) -> dict[str, Measured]:
    return drains(stage.server, stage.folder / "requests", rounds=1 if stage.quick else 6, say=say)


SECTIONS: dict[str, tuple[Section[Stage], tuple[str, ...]]] = {
    "burst": (burst, ("ledger10000_s",)),
    "one": (one, ("ledger_skew1_p99_ms",)),
    "hands": (hand_overs, ("handover_sigterm_max_s", "handover_child_max_s", "handover_sigkill_max_s")),
    "idle": (idle, ("idle_statements_per_s", "rss_mb")),
    "requests": (requests, tuple(figure.key for figure in OF_REQUESTS)),
}


def main() -> int:
    return run(
        __doc__, prog="python -m tests.bench.standalone", figures=FIGURES, sections=SECTIONS, stage=stage,
        beside="one PostgreSQL server, durable",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
