"""How a queue is called, and which queues a set of WorkQueue objects makes.

An object that cannot be used is told apart from one that is not there, so that a mistake in one stops that one only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.spec_fields import Invalid


@dataclass(frozen=True, slots=True, order=True)
class QueueName:
    """``str()`` is also how the queue is called in soloist.work_items."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundQueues:
    """All there are: those that can be worked, and why the others cannot."""

    valid: Mapping[QueueName, QueueSpec] = field(default_factory=dict)
    invalid: Mapping[QueueName, Invalid] = field(default_factory=dict)


def name_of(metadata: Mapping[str, Any]) -> QueueName:
    """Of an object; one that names no namespace, as files may, is in ``default``."""
    return QueueName(metadata.get("namespace") or "default", metadata["name"])


def queues_in(objects: Iterable[Mapping[str, Any]]) -> FoundQueues:
    """Of WorkQueues as the API server gives them. One that is being deleted is there no more."""
    valid: dict[QueueName, QueueSpec] = {}
    invalid: dict[QueueName, Invalid] = {}
    for each in objects:
        metadata = each["metadata"]
        if metadata.get("deletionTimestamp"):
            continue
        name = name_of(metadata)
        spec = parse_queue(each.get("spec") or {})
        if isinstance(spec, Invalid):
            invalid[name] = spec
        else:
            valid[name] = spec
    return FoundQueues(valid=valid, invalid=invalid)
