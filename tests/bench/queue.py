"""Figures of queues, beside a bare batch claim on the same PostgreSQL server in the same rounds.

`python -m tests.bench.queue [--quick] [--only SECTION-OR-KEY …]`. Each section says what it finds as it goes; at the end comes
a table, and as the last line one JSON object with a value for each figure, null for what was left out. A worker is the whole
of it: what `soloist worker` runs, from the claim to the outcome that was accepted; where a figure is of SQL alone it says so.
"""

from __future__ import annotations

import sys

from tests.bench.figures import Figure
from tests.bench.queue_http import http, pickup
from tests.bench.queue_managed import managed
from tests.bench.queue_mapped import mapped
from tests.bench.queue_stage import QueueStage, stage
from tests.bench.running import Section, run
from tests.postgres.programs import postgres_programs

FIGURES = (
    Figure(key="drain_managed_ratio", says="no-op rows, 1 worker, managed, over the bare claim", least=0.5),
    Figure(key="drain_inline_ratio", says="no-op rows, 1 worker, inline, over the bare claim", least=0.3),
    Figure(key="drain_sidecar_ratio", says="no-op rows, 1 worker, sidecar, over the bare claim", least=0.15),
    Figure(key="sql_inline_per_s", says="claim and complete in SQL, inline", unit="rows/s", least=30_000, digits=0),
    Figure(key="sql_sidecar_per_s", says="claim and complete in SQL, sidecar", unit="rows/s", least=15_000, digits=0),
    Figure(key="drain_pinned_ratio", says="1 worker behind 100,000 dead rows and a pinned xmin", least=0.8),
    Figure(key="enqueue_ratio", says="1,000 rows enqueued at a time, over the bare insert", least=0.45),
    Figure(key="pickup_listen_p95_ms", says="idle pick-up, LISTEN, p95", unit="ms", most=20, digits=1),
    Figure(key="pickup_poll_p95_ms", says="idle pick-up, polling, p95", unit="ms", most=260, digits=1),
    Figure(key="http_per_s", says="HTTP to a local receiver, 1 worker", unit="rows/s", least=1_500, digits=0),
    Figure(key="worker_rss_mb", says="RSS of the worker", unit="MB", most=90, digits=1),
)
SECTIONS: dict[str, tuple[Section[QueueStage], tuple[str, ...]]] = {
    "managed": (managed, ("drain_managed_ratio", "drain_pinned_ratio", "enqueue_ratio")),
    "mapped": (mapped, ("drain_inline_ratio", "drain_sidecar_ratio", "sql_inline_per_s", "sql_sidecar_per_s")),
    "http": (http, ("http_per_s", "worker_rss_mb")),
    "pickup": (pickup, ("pickup_listen_p95_ms", "pickup_poll_p95_ms")),
}


def main() -> int:
    return run(
        __doc__,
        prog="python -m tests.bench.queue",
        figures=FIGURES,
        sections=SECTIONS,
        stage=stage,
        beside=f"PostgreSQL of {postgres_programs()}",
    )


if __name__ == "__main__":
    sys.exit(main())
