"""The leader's care for WorkQueues out of files: whether each can be worked, and how deep it is, as on a cluster.

What it learns goes to logs and metrics. There is no object to write it on, so its conditions are kept here, for one life of
the process: they tell a change from what was said before.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import Any, NoReturn

from soloist.adapters.clock import SystemClock
from soloist.adapters.files.queue_files import LOOK_EVERY
from soloist.adapters.postgres.queue_databases import SurveyedDatabases
from soloist.adapters.sealed import ReadKey
from soloist.domain.merge_patch import merged
from soloist.domain.queue_name import FoundQueues, QueueName
from soloist.domain.queue_status import WatchedQueue
from soloist.domain.term import Term
from soloist.loops.queue_watching import QueueWatching
from soloist.ports import Conflict, Gone, Raw, Report, Written
from soloist.shells.queue_standing import StandingMetrics, StandingReporter
from soloist.shells.telemetry import Metrics

MEASURES_EVERY = 5.0


class _Objects:
    """The ports ``QueueObjects`` and ``QueueStatuses``. ``raws`` gives the WorkQueues as the files have them now."""

    def __init__(self, raws: Callable[[], Collection[Mapping[str, Any]]]) -> None:
        self._raws = raws
        self._statuses: dict[QueueName, dict[str, Any]] = {}

    @property
    def objects(self) -> Collection[Raw]:
        return [self._object(raw) for raw in self._raws()]

    async def run(self, tell: Callable[[FoundQueues], None]) -> NoReturn:
        """``tell`` is only a reason to look at ``objects``."""
        told: list[Any] = []
        while True:
            if (now := list(self._raws())) != told:
                told = now
                tell(FoundQueues())
            await asyncio.sleep(LOOK_EVERY)

    async def write(self, queue: WatchedQueue, status: Mapping[str, Any]) -> Written | Conflict | Gone:
        self._statuses[queue.name] = merged(self._statuses.get(queue.name), status)
        return Written(obj={})

    def _object(self, raw: Mapping[str, Any]) -> Raw:
        """With an identity that changes as the spec does."""
        metadata, spec = raw["metadata"], raw.get("spec") or {}
        name = QueueName(str(metadata.get("namespace") or "default"), metadata["name"])
        status = self._statuses.get(name, {})
        generation = int(sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:12], 16)
        version = sha256(json.dumps([generation, status], sort_keys=True).encode()).hexdigest()[:16]
        identity = {"uid": str(name), "generation": generation, "resourceVersion": version}
        return {
            "metadata": {"namespace": name.namespace, "name": name.name, **identity},
            "spec": spec,
            "status": status,
        }


def local_queue_care(
    clock: SystemClock,
    metrics: Metrics,
    *,
    raws: Callable[[], Collection[Mapping[str, Any]]],
    read_key: ReadKey,
    report: Report,
    term: Callable[[], Term | None],
) -> QueueWatching:
    """To be run from the beginning of a term on."""
    objects = _Objects(raws)
    return QueueWatching(
        objects=objects,
        databases=SurveyedDatabases(read_key, boottime=clock.boottime),
        statuses=objects,
        report=StandingReporter(StandingMetrics(metrics.registry), report, None),
        clock=clock,
        term=term,
        every=MEASURES_EVERY,
    )
