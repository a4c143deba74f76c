"""Figures of ticks and hand-overs, beside the in-tree CronJob controller, all on one API server in one run.

`python -m tests.bench.ticks [--quick] [--only SECTION-OR-KEY …]`. Each section says what it finds as it goes; at the end comes
a table, and as the last line one JSON object with a value for each figure, null for what was left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection

from tests.bench import handover, memory, skew, thousand
from tests.bench.figures import FIGURES, Measured, as_json, table
from tests.bench.processes import load, machine
from tests.bench.stage import Say, Stage, stage
from tests.cluster.server_flags import GOGC
from tests.cluster.versions import kubernetes

Section = Callable[[Stage, Say], dict[str, Measured]]
SECTIONS: dict[str, tuple[Section, tuple[str, ...]]] = {
    "skew1": (skew.one, ("skew1_received_p50_ms", "skew1_received_p99_ms")),
    "thousand": (
        thousand.everything,
        ("skew1000_received_p99_s", "api_writes_per_run", "ready1000_s", "recover1000_s"),
    ),
    "job": (
        skew.burst_of_jobs,
        ("skew1000_job_p99_s", "skew1000_over_cronjob_tuned", "skew1000_over_cronjob_default"),
    ),
    "sigterm": (handover.sigterm, ("handover_sigterm_p50_s", "handover_sigterm_p99_s")),
    "child": (handover.child, ("handover_child_max_s",)),
    "seen": (handover.seen, ("handover_seen_max_s",)),
    "unseen": (handover.unseen, ("handover_unseen_max_s",)),
    "memory": (memory.an_hour, ("rss1000_mb", "rss1000_growth_mb", "parent_rss_mb")),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.ticks", description=__doc__)
    known = [*SECTIONS, *(figure.key for figure in FIGURES)]
    parser.add_argument("--only", nargs="+", choices=known, metavar="NAME", help=f"of: {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: to see that it works")
    chosen = parser.parse_args()
    measured: dict[str, Measured] = {}
    began = time.monotonic()
    say_machine = f"{machine()}, Kubernetes {kubernetes().version} with GOGC={GOGC}"
    print(say_machine, flush=True)
    with stage(quick=chosen.quick) as here:
        for name, section in wanted(chosen.only or known).items():
            print(f"== {name}; load {load()}", flush=True)
            measured |= section(here, lambda sentence: print(f"   {sentence}", flush=True))
    print(
        f"\n{say_machine}\n{time.monotonic() - began:.0f} s{', quick' if chosen.quick else ''}\n\n{table(measured)}\n"
    )
    print(as_json(measured))
    return 0


def wanted(names: Collection[str]) -> dict[str, Section]:
    """Sections by name, those that a name stands for or that find a figure of that name."""
    return {name: section for name, (section, keys) in SECTIONS.items() if {name, *keys} & set(names)}


if __name__ == "__main__":
    sys.exit(main())
