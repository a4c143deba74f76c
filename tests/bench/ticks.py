"""Figures of ticks and hand-overs, beside the in-tree CronJob controller, all on one API server in one run.

`python -m tests.bench.ticks [--quick] [--only SECTION-OR-KEY …]`. Each section says what it finds as it goes; at the end comes
a table, and as the last line one JSON object with a value for each figure, null for what was left out.
"""

from __future__ import annotations

import sys

from tests.bench import handover, job_bursts, memory, skew, thousand
from tests.bench.figures import Figure
from tests.bench.running import Section, run
from tests.bench.stage import Stage, stage
from tests.cluster.server_flags import GOGC
from tests.cluster.versions import kubernetes

FIGURES = (
    Figure(key="skew1_received_p50_ms", says="1 http job due: received, p50", unit="ms", most=15, digits=1),
    Figure(key="skew1_received_p99_ms", says="1 http job due: received, p99", unit="ms", most=50, digits=1),
    Figure(key="skew1000_received_p99_s", says="1,000 http jobs due in one second: received, p99", unit="s", most=1.5),
    Figure(
        key="skew1000_job_p99_s", says="1,000 job jobs due in one second: Job un-suspended, p99", unit="s", most=2.3
    ),
    Figure(key="skew1000_over_cronjob_tuned", says="that over the CronJob controller, tuned", most=0.6),
    Figure(
        key="skew1000_over_cronjob_default",
        says="that over the CronJob controller, at its defaults",
        most=0.03,
        digits=3,
    ),
    Figure(key="recover1000_s", says="1,000 missed http ticks, all launched after the term began", unit="s", most=8),
    Figure(key="api_writes_per_run", says="creates and updates per successful http run", most=3.5),
    Figure(key="handover_sigterm_p50_s", says="hand-over after SIGTERM, p50", unit="s", most=0.3, digits=3),
    Figure(key="handover_sigterm_p99_s", says="hand-over after SIGTERM, p99", unit="s", most=1, digits=3),
    Figure(key="handover_child_max_s", says="child killed, parent alive, worst", unit="s", most=1, digits=3),
    Figure(key="handover_seen_max_s", says="both killed, the kubelet's word, worst", unit="s", most=2),
    Figure(key="handover_unseen_max_s", says="both killed, nothing visible (L 10 s), worst", unit="s", most=10.5),
    Figure(key="rss1000_mb", says="RSS of the child, 1,000 jobs, after an hour's ticks", unit="MB", most=150, digits=1),
    Figure(key="rss1000_growth_mb", says="its growth over the last half", unit="MB", most=3, digits=1),
    Figure(key="parent_rss_mb", says="RSS of its parent", unit="MB", most=20, digits=1),
    Figure(key="ready1000_s", says="start to ready, 1,000 jobs, worst", unit="s", most=5),
)
SECTIONS: dict[str, tuple[Section[Stage], tuple[str, ...]]] = {
    "skew1": (skew.one, ("skew1_received_p50_ms", "skew1_received_p99_ms")),
    "thousand": (
        thousand.everything,
        ("skew1000_received_p99_s", "api_writes_per_run", "ready1000_s", "recover1000_s"),
    ),
    "job": (
        job_bursts.burst_of_jobs,
        ("skew1000_job_p99_s", "skew1000_over_cronjob_tuned", "skew1000_over_cronjob_default"),
    ),
    "sigterm": (handover.sigterm, ("handover_sigterm_p50_s", "handover_sigterm_p99_s")),
    "child": (handover.child, ("handover_child_max_s",)),
    "seen": (handover.seen, ("handover_seen_max_s",)),
    "unseen": (handover.unseen, ("handover_unseen_max_s",)),
    "memory": (memory.an_hour, ("rss1000_mb", "rss1000_growth_mb", "parent_rss_mb")),
}


def main() -> int:
    return run(
        __doc__,
        prog="python -m tests.bench.ticks",
        figures=FIGURES,
        sections=SECTIONS,
        stage=stage,
        beside=f"Kubernetes {kubernetes().version} with GOGC={GOGC}",
    )


if __name__ == "__main__":
    sys.exit(main())
