"""What a leader says of WorkQueues: the ``CareReport`` port, as metrics, log lines and Events.

The depths of a queue are here and not on each worker, since they are measured once for all. Where a database cannot be
asked, its queues have none: no figure is better than one that stands still.
"""

import logging
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge

from soloist.domain.depth import Depth
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_status import WatchedQueue
from soloist.domain.queue_validity import Condition, Standing
from soloist.ports import Recorder, Report

LABELS = ("namespace", "queue")
_log = logging.getLogger("soloist.controller")


class StandingMetrics:
    """The metrics by name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.valid = _gauge(registry, "valid", "1 while the condition Valid of the WorkQueue is True, else 0.")
        self.ready = _gauge(registry, "ready_rows", "Rows that are due and not claimed.")
        self.scheduled = _gauge(registry, "scheduled_rows", "Rows that are not due yet.")
        self.claimed = _gauge(registry, "claimed_rows", "Rows in flight, claimed by whichever worker.")
        self.dead = _gauge(registry, "dead_rows", "Dead letters: rows that were given up or wait for a person.")
        self.oldest = _gauge(
            registry,
            "oldest_due_seconds",
            "For how many seconds the oldest ready row has been due; 0 while none is ready.",
        )

    @property
    def measured(self) -> tuple[Gauge, ...]:
        return self.ready, self.scheduled, self.claimed, self.dead, self.oldest

    def depth(self, name: QueueName, depth: Depth | None) -> None:
        where = name.namespace, name.name
        if depth is None:
            for gauge in self.measured:
                gauge.remove(*where)
            return
        self.ready.labels(*where).set(depth.ready)
        self.scheduled.labels(*where).set(depth.scheduled)
        self.claimed.labels(*where).set(depth.in_flight)
        self.dead.labels(*where).set(depth.dead)
        self.oldest.labels(*where).set(depth.oldest_due or 0.0)


class StandingReporter:
    """``report`` is where everything else of the controller is said."""

    def __init__(self, metrics: StandingMetrics, report: Report, recorder: Recorder | None) -> None:
        self._metrics, self._report, self._recorder = metrics, report, recorder
        self._stood: set[QueueName] = set()

    def wrote(self, kind: str) -> None:
        self._report.wrote(kind)

    def failed(self, where: str, error: BaseException) -> None:
        self._report.failed(where, error)

    def stand(self, queues: Sequence[tuple[QueueName, Condition, Depth | None]]) -> None:
        there = {name for name, _, _ in queues}
        for name in self._stood - there:
            self._metrics.valid.remove(name.namespace, name.name)
            self._metrics.depth(name, None)
        self._stood = there
        for name, condition, depth in queues:
            self._metrics.valid.labels(name.namespace, name.name).set(condition[1] == "True")
            self._metrics.depth(name, depth)

    def turned_bad(self, queue: WatchedQueue, condition: Condition) -> None:
        name, (_, status, reason, message) = queue.name, condition
        keys = {"namespace": name.namespace, "queue": name.name, "reason": str(reason), "sentence": message}
        _log.warning("queue cannot be worked", extra=keys)
        # Of a database that is away nothing is wrong with the queue, and there may be hundreds on it.
        if self._recorder is not None and reason != Standing.DATABASE_UNREACHABLE:
            meta = {"namespace": name.namespace, "name": name.name, "uid": queue.uid}
            regarding = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": meta}
            short = "Invalid" if status == "False" else str(reason)
            self._recorder.event(regarding, reason=short, message=message, warning=True)


def _gauge(registry: CollectorRegistry, name: str, meaning: str) -> Gauge:
    return Gauge(f"soloist_queue_{name}", meaning, LABELS, registry=registry)
