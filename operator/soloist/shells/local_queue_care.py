"""The leader's care for WorkQueues out of files: whether each can be worked, and how deep it is, as on a cluster.

The leader puts the queues of its files into rows, beside the jobs, so that commands find them there and how they stand. They
are for people to read: what a replica works are the queues of its own files, so these are compared with nobody's.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from soloist.adapters.clock import SystemClock
from soloist.adapters.files.queue_files import LOOK_EVERY
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.queue_databases import SurveyedDatabases
from soloist.adapters.postgres.row_objects import OWN_DATABASE, QUEUE
from soloist.adapters.postgres.row_specs import RowSpecs
from soloist.adapters.postgres.row_store import RowStore
from soloist.domain.errors import SoloistError
from soloist.domain.queue_name import FoundQueues, QueueName
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.queue_status import WatchedQueue
from soloist.domain.term import Term
from soloist.loops.queue_watching import QueueWatching
from soloist.ports import Conflict, Gone, Raw, Report, Written
from soloist.shells.delivery_keys import DeliveryKeys
from soloist.shells.local_files import OwnDatabase
from soloist.shells.queue_standing import StandingMetrics, StandingReporter
from soloist.shells.telemetry import Metrics

MEASURES_EVERY = 5.0
_log = logging.getLogger("soloist.standalone")


class LocalQueues:
    """The ports ``QueueObjects`` and ``QueueStatuses``. ``wanted`` gives the WorkQueues as the files have them now."""

    def __init__(
        self,
        store: RowStore,
        specs: RowSpecs,
        wanted: Callable[[], Awaitable[Sequence[Raw]]],
        term: Callable[[], Term | None],
    ) -> None:
        self._store, self._specs, self._wanted, self._term = store, specs, wanted, term
        self._known: dict[QueueName, Raw] = {}
        self._applied: Sequence[Raw] | None = None

    @property
    def objects(self) -> Collection[Raw]:
        return list(self._known.values())

    async def run(self, tell: Callable[[FoundQueues], None]) -> NoReturn:
        """``tell`` is only a reason to look at ``objects``."""
        failed = False
        while True:
            try:
                if await self.look():
                    tell(FoundQueues())
                failed = False
            except SoloistError as error:
                if not failed:
                    _log.warning("queues are not in rows yet; trying again", extra={"error": str(error)})
                failed = True
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> bool:
        """Put them there where they are others than before; says whether they were."""
        wanted, term = await self._wanted(), self._term()
        if wanted == self._applied or term is None:
            return False
        await self._specs.apply(wanted, kinds=[QUEUE], epoch=term.epoch, compared=False)
        listed = (await self._store.list_of(QUEUE)).items
        self._known = {QueueName(raw["metadata"]["namespace"], raw["metadata"]["name"]): raw for raw in listed}
        self._applied = wanted
        return True

    async def write(self, queue: WatchedQueue, status: Mapping[str, Any]) -> Written | Conflict | Gone:
        name = queue.name
        answer = await self._store.merge_status(
            QUEUE, name.namespace, name.name, uid=queue.uid, resource_version=queue.resource_version, status=status
        )
        if isinstance(answer, Written):
            self._known[name] = answer.obj
        else:
            self._applied = None  # somebody else has written: look again
        return answer


def local_queue_care(
    clock: SystemClock,
    metrics: Metrics,
    database: Database,
    store: RowStore,
    *,
    raws: Callable[[], Collection[Mapping[str, Any]]],
    own: OwnDatabase,
    report: Report,
    term: Callable[[], Term | None],
) -> QueueWatching:
    """To be run from the beginning of a term on."""

    async def wanted() -> Sequence[Raw]:
        return [await _marked(raw, own) for raw in raws()]

    specs = RowSpecs(database, shard=store.shard, writer=store.writer)
    queues = LocalQueues(store, specs, wanted, term)
    return QueueWatching(
        objects=queues,
        databases=SurveyedDatabases(own.read, boottime=clock.boottime),
        keys=DeliveryKeys(own.read_key),
        statuses=queues,
        report=StandingReporter(StandingMetrics(metrics.registry), report, None),
        clock=clock,
        term=term,
        every=MEASURES_EVERY,
    )


async def _marked(raw: Mapping[str, Any], own: OwnDatabase) -> Raw:
    """With its namespace, and whether its rows are in the database in which it is found."""
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    namespace, parsed = str(metadata.get("namespace") or "default"), parse_queue(spec)
    annotations = {**(metadata.get("annotations") or {})}
    annotations.pop(OWN_DATABASE, None)
    if isinstance(parsed, QueueSpec) and await own.is_behind(namespace, parsed.database.secret):
        annotations[OWN_DATABASE] = "true"
    return {"kind": QUEUE, "metadata": {**metadata, "namespace": namespace, "annotations": annotations}, "spec": spec}
