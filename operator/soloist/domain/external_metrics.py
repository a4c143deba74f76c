"""What external.metrics.k8s.io answers, of what was measured: which queues a selector asks for, and the documents.

A selector that would be read in two ways is refused, so that no autoscaler ever follows a number that nobody meant: the
queues are named, each by its own name, and "all of them" cannot be said. A quantity is never less than what was measured:
it is rounded up to thousandths, and the oldest age of a queue in which nothing waits is 0.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from soloist.domain.depth import Depth
from soloist.domain.instants import stamp

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
MOST_QUEUES = 32
"""As many as one selector may name."""

METRICS: Mapping[str, Callable[[Depth], float]] = {
    "soloist_queue_ready": lambda depth: depth.ready,
    "soloist_queue_oldest_age_seconds": lambda depth: depth.oldest_due or 0.0,
    "soloist_queue_in_flight": lambda depth: depth.in_flight,
}
"""By name, each with its value: rows that are due, for how many seconds the oldest of them is, rows that are being worked."""

_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_EQUALS = re.compile(rf"queue\s*==?\s*(?P<names>{_NAME})")
_ONE_OF = re.compile(rf"queue\s+in\s*\(\s*(?P<names>{_NAME}(\s*,\s*{_NAME})*)\s*\)")
_REMEDY = "write matchLabels: {queue: NAME}, or matchExpressions with the key queue, the operator In and the names"

Document = dict[str, Any]


class BadSelector(ValueError):
    """A selector that names no queues; the message says what to write."""


def queues_of(selector: str) -> tuple[str, ...]:
    """The names in a label selector as it stands in a query: ``queue=emails``, or ``queue in (emails,mails)``. BadSelector."""
    text = selector.strip()
    if not text:
        raise BadSelector(f"The metric has no selector, and queues are measured by name: {_REMEDY}.")
    found = _EQUALS.fullmatch(text) or _ONE_OF.fullmatch(text)
    if found is None:
        raise BadSelector(f"The selector {text[:200]!r} does not name queues: {_REMEDY}.")
    names = tuple(sorted({name.strip() for name in found["names"].split(",")}))
    if len(names) > MOST_QUEUES:
        raise BadSelector(f"The selector names {len(names)} queues: write at most {MOST_QUEUES}.")
    return names


def quantity(value: float) -> str:
    """As Kubernetes writes one: whole, or in thousandths (``1500m``), rounded up."""
    thousandths = math.ceil(round(value * 1000, 6))
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def discovery() -> Document:
    """What there is: one resource for each metric. ``get`` alone, since whoever lists all that can be listed names no queue."""
    resources = [
        {"name": name, "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
        for name in METRICS
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{VERSION}",
        "resources": resources,
    }


def values(metric: str, measured: Mapping[str, tuple[datetime, Depth]]) -> Document:
    """One value for each queue, by its name, with when it was measured; an autoscaler adds them up."""
    items = [
        {
            "metricName": metric,
            "metricLabels": {"queue": queue},
            "timestamp": stamp(at.replace(microsecond=0)),
            "value": quantity(METRICS[metric](depth)),
        }
        for queue, (at, depth) in measured.items()
    ]
    return {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": items}


def refusal(code: int, reason: str, message: str) -> Document:
    """A Status, by which Kubernetes' clients say what is wrong."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
