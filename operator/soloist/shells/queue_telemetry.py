"""What a worker says of its queues: the ``QueueReport`` port, as metrics and log lines.

Metrics carry the queue's name, since queues are few and each has an owner; nothing carries a row's. A log line is written
for what a person may have to look at, never for each row that went well.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Settled, Verdict
from soloist.domain.queue_name import QueueName
from soloist.domain.spec_fields import Invalid
from soloist.domain.unfinished import TooOften

DELIVERY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LABELS = ("namespace", "queue")
_log = logging.getLogger("soloist.worker")


class QueueMetrics:
    """The metrics by name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.claimed = _counter(registry, "claimed", "Rows claimed.")
        self.attempts = _counter(
            registry, "attempts", "Attempts that ended, by result: done, failed, parked.", "result"
        )
        self.dead = _counter(
            registry,
            "dead",
            "Rows given up by this worker, by reason: Failed, Interrupted, ReclaimedTooOften, Refused.",
            "reason",
        )
        self.put_back = _counter(registry, "put_back", "Rows put back untried.")
        self.reclaimed = _counter(
            registry, "reclaimed", "Rows claimed again after a claim that ended without an outcome."
        )
        self.lost = _counter(registry, "claims_lost", "Claims that were lost; nothing was written for them.")
        self.unanswered = _counter(
            registry,
            "outcomes_unanswered",
            "Outcomes of which nobody knows whether they were written, or the claim lost.",
        )
        self.changed = _counter(
            registry, "changed", "Rows that the application changed or deleted under a claim; left as they are."
        )
        self.still_due = _counter(
            registry, "still_due", "Rows that were due at the same time after a success (Handler)."
        )
        self.errors = _counter(registry, "errors", "Errors that were survived, by where.", "where")
        self.seconds = Histogram(
            "soloist_queue_delivery_seconds",
            "From the start of an attempt to its end.",
            LABELS,
            buckets=DELIVERY_BUCKETS,
            registry=registry,
        )
        self.in_flight = Gauge("soloist_queue_in_flight", "Attempts under way.", LABELS, registry=registry)
        self.open = Gauge("soloist_queue_open", "1 while the queue is worked.", LABELS, registry=registry)


def _counter(registry: CollectorRegistry, name: str, meaning: str, *more: str) -> Counter:
    return Counter(f"soloist_queue_{name}", meaning, [*LABELS, *more], registry=registry)


@dataclass(frozen=True, slots=True)
class _Ended:
    """The series of one queue's attempts of one result."""

    attempts: Counter
    seconds: Histogram


class QueueReporter:
    """The ``QueueReport`` port. ``running`` gives how many attempts of a queue are under way."""

    def __init__(self, metrics: QueueMetrics, running: Callable[[QueueName], int]) -> None:
        self._metrics, self._running = metrics, running
        self._unusable: dict[QueueName, Invalid] = {}
        self._ended: dict[tuple[QueueName, type[Settled]], _Ended] = {}

    def claimed(self, queue: QueueName, claims: int, reclaimed: int) -> None:
        self._metrics.claimed.labels(queue.namespace, queue.name).inc(claims)
        if reclaimed:
            self._metrics.reclaimed.labels(queue.namespace, queue.name).inc(reclaimed)

    def delivered(self, queue: QueueName, outcome: Settled, seconds: float) -> None:
        if not isinstance(outcome, PutBack):
            ended = self._ended.get((queue, type(outcome))) or self._counted(queue, type(outcome))
            ended.attempts.inc()
            ended.seconds.observe(seconds)
        if isinstance(outcome, Failed | Parked):
            _log.debug("attempt failed", extra=_keys(queue, outcome.claim) | {"error": outcome.error})

    def settled(self, queue: QueueName, outcome: Settled, verdict: Verdict, *, unanswered: bool) -> None:
        labels = (queue.namespace, queue.name)
        if verdict is Verdict.ACCEPTED:
            self._accepted(queue, outcome)
        elif verdict is Verdict.LOST and unanswered:
            self._metrics.unanswered.labels(*labels).inc()
        elif verdict is Verdict.LOST:
            self.lost(queue, outcome.claim, "another claim, a cancellation or an outcome came before this one")
        elif verdict is Verdict.CHANGED:
            self._metrics.changed.labels(*labels).inc()
            _log.warning("row changed underneath", extra=_keys(queue, outcome.claim))
        elif verdict is Verdict.REFUSED:
            self._died(queue, outcome.claim, "Refused", "The table refused the outcome.")
        else:
            self._metrics.still_due.labels(*labels).inc()
            _log.warning("row still due after a success", extra=_keys(queue, outcome.claim))

    def lost(self, queue: QueueName, claim: Claim, sentence: str) -> None:
        self._metrics.lost.labels(queue.namespace, queue.name).inc()
        _log.warning("claim lost", extra=_keys(queue, claim) | {"sentence": sentence})

    def failed(self, queue: QueueName, where: str, error: BaseException) -> None:
        self._metrics.errors.labels(queue.namespace, queue.name, where).inc()
        expected = type(error).__module__.startswith("soloist.")
        keys = {"namespace": queue.namespace, "queue": queue.name, "where": where, "error": str(error)}
        _log.warning("error survived", extra=keys, exc_info=None if expected else error)

    def started(self, queue: QueueName) -> None:
        labels = (queue.namespace, queue.name)
        self._metrics.open.labels(*labels).set(1)
        self._metrics.in_flight.labels(*labels).set_function(lambda: self._running(queue))
        _log.info("queue is worked", extra={"namespace": queue.namespace, "queue": queue.name})

    def stopped(self, queue: QueueName) -> None:
        self._metrics.open.labels(queue.namespace, queue.name).set(0)
        _log.info("queue is worked no more", extra={"namespace": queue.namespace, "queue": queue.name})

    def unusable(self, invalid: dict[QueueName, Invalid]) -> None:
        """All queues whose spec cannot be used; each is told of once."""
        for queue, why in invalid.items():
            if self._unusable.get(queue) != why:
                keys = {"namespace": queue.namespace, "queue": queue.name, "field": why.field, "reason": why.reason}
                _log.warning("spec cannot be used", extra=keys | {"sentence": why.message})
        self._unusable = dict(invalid)

    def _counted(self, queue: QueueName, kind: type[Settled]) -> "_Ended":
        """Found once: to look a series up by its labels costs as much as the rest of a row's way through the loops."""
        result = {Done: "done", Failed: "failed", Parked: "parked"}[kind]
        made = _Ended(
            self._metrics.attempts.labels(queue.namespace, queue.name, result),
            self._metrics.seconds.labels(queue.namespace, queue.name),
        )
        self._ended[queue, kind] = made
        return made

    def _accepted(self, queue: QueueName, outcome: Settled) -> None:
        match outcome:
            case PutBack():
                self._metrics.put_back.labels(queue.namespace, queue.name).inc()
            case Parked(claim=claim, error=error):
                self._died(queue, claim, "Interrupted", error)
            case TooOften(claim=claim, error=error):
                self._died(queue, claim, "ReclaimedTooOften", error)
            case Failed(claim=claim, error=error, retry_in=None):
                self._died(queue, claim, "Failed", error)

    def _died(self, queue: QueueName, claim: Claim, reason: str, error: str) -> None:
        self._metrics.dead.labels(queue.namespace, queue.name, reason).inc()
        _log.warning("row given up", extra=_keys(queue, claim) | {"reason": reason, "error": error})


def _keys(queue: QueueName, claim: Claim) -> dict[str, Any]:
    row = claim.row[0] if len(claim.row) == 1 else list(claim.row)
    return {
        "namespace": queue.namespace,
        "queue": queue.name,
        "row": row,
        "attempt": claim.attempt,
        "fence": claim.fence,
    }
