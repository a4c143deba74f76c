"""What the status of a WorkQueue is to say, as a patch of what it says; no patch where nobody would see a difference.

A person is told at once when the queue can be worked, can no more, or cannot for another reason, and of a spec that was
looked at. Numbers and the wording of a reason move all the time, so they wait until there is leisure for a write. What was
measured stays, with its time, while the database cannot be asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from soloist.domain.depth import Depth
from soloist.domain.instants import parse_time, stamp
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import MappedTable, QueueSpec
from soloist.domain.queue_validity import (
    UNDATED,
    Answer,
    Claimant,
    Condition,
    Unreachable,
    served_by,
    validity,
)
from soloist.domain.spec_fields import Invalid
from soloist.domain.told import Patch, merge_conditions, told

COUNTS_SECONDS = 30.0
"""How long a status rests after a write, unless something turns."""

_UNASKED = Unreachable("")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedQueue:
    """A WorkQueue as it stands on the API server."""

    name: QueueName
    uid: str
    generation: int
    created: datetime
    resource_version: str
    spec: QueueSpec | Invalid
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def which(self) -> tuple[str, int]:
        """What an answer of the database is about: this very object, with this very spec."""
        return self.uid, self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What a database said of one queue. ``installation`` tells that database from every other; empty: not known.

    ``depth`` is None where it was not measured.
    """

    answer: Answer
    installation: str = ""
    depth: Depth | None = None


def watched_queue(obj: Mapping[str, Any]) -> WatchedQueue | None:
    """Of an object as the API server gives it; None for one that is being deleted."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    status = obj.get("status")
    return WatchedQueue(
        name=QueueName(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        generation=int(metadata.get("generation") or 0),
        created=parse_time(metadata.get("creationTimestamp")) or UNDATED,
        resource_version=metadata["resourceVersion"],
        spec=parse_queue(obj.get("spec") or {}),
        status=status if isinstance(status, Mapping) else {},
    )


def conditions_of(known: Sequence[tuple[WatchedQueue, Learned | None]]) -> dict[QueueName, Condition]:
    """The condition ``Valid`` of those that can be judged by now.

    A queue on a table of the user's waits for the first answer about every other that names the same table: the table may be
    that other one's.
    """
    claimants, unanswered = [], set()
    for queue, learned in known:
        if isinstance(queue.spec, QueueSpec) and isinstance(queue.spec.table, MappedTable):
            table = queue.spec.table.name
            if learned is None:
                unanswered.add(table)
            elif learned.installation:
                home = learned.installation
                claimants.append(
                    Claimant(queue=queue.name, uid=queue.uid, created=queue.created, installation=home, table=table)
                )
    others = served_by(claimants)
    found = {}
    for queue, learned in known:
        if isinstance(queue.spec, Invalid):
            found[queue.name] = validity(queue.spec, _UNASKED)
        elif learned is not None and not (
            isinstance(queue.spec.table, MappedTable) and queue.spec.table.name in unanswered
        ):
            found[queue.name] = validity(queue.spec, learned.answer, others.get(queue.name))
    return found


def turned_bad(queue: WatchedQueue, condition: Condition) -> bool:
    """Whether ``Valid`` is not True now and was so before, or was not for another reason."""
    _, status, reason, _ = condition
    said = told(queue.status, "Valid")
    return status != "True" and (said.get("status"), said.get("reason")) != (status, reason)


def status_patch(
    queue: WatchedQueue, condition: Condition, depth: Depth | None, *, now: datetime, at_leisure: bool
) -> Patch | None:
    """A JSON merge patch of the status. ``at_leisure``: the last write is ``COUNTS_SECONDS`` ago."""
    said, (_, status, reason, message) = told(queue.status, "Valid"), condition
    before = said.get("status"), said.get("reason"), said.get("observedGeneration")
    counts = _counts(depth)
    if before == (status, reason, queue.generation):
        moved = said.get("message") != message or any(queue.status.get(key) != counts[key] for key in counts)
        if not (at_leisure and moved):
            return None
    measured = {"measuredTime": stamp(now.replace(microsecond=0))} if depth is not None else {}
    conditions = merge_conditions(queue.status, (condition,), queue.generation, now)
    return {"observedGeneration": queue.generation, "conditions": conditions, **counts, **measured}


def _counts(depth: Depth | None) -> Patch:
    """Those of a database that is not reached stay."""
    if depth is None:
        return {}
    return {
        "ready": depth.ready,
        "scheduled": depth.scheduled,
        "inFlight": depth.in_flight,
        "dead": depth.dead,
        "oldestDueSeconds": int(depth.oldest_due or 0),
    }
