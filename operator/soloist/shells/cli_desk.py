"""What commands ask of an installation, whether it lives on an API server or in rows of a database."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.api import MERGE_PATCH, KubeApi
from soloist.adapters.kube.queue_watch import QUEUES
from soloist.adapters.kube.store import JOBS, KubeStore, collection, list_all, path_of
from soloist.domain.lease import LeaseRecord
from soloist.domain.manifest_plan import REFUSED
from soloist.domain.parsing import parse_job
from soloist.domain.why_facts import Facts, Obstacle, Seen
from soloist.ports import AlreadyExists, Gone, Raw, Refused, Written
from soloist.shells.cli_reading import LEASES, Leases, find_leases, place, read_job, read_runs
from soloist.shells.cli_target import Target, talk

T = TypeVar("T")
Annotations = Mapping[str, str | None]
ONE_HOST = "embedded: it serves the processes of this one host; two hosts would each have their own, and each lead."


class Desk(Protocol):
    """``job`` complains where there is none; the others give what there is. An annotation of None is removed."""

    async def jobs(self) -> list[Raw]: ...

    async def job(self, name: str) -> Raw: ...

    async def runs_of(self, job: Raw) -> list[Raw]: ...

    async def queues(self) -> list[Raw]: ...

    async def leases(self, hints: Iterable[str] = ()) -> Leases: ...

    async def create_run(self, body: Raw) -> Written | AlreadyExists | Gone | Refused: ...

    async def read_run(self, namespace: str, name: str) -> Raw | None: ...

    async def annotate_job(self, name: str, annotations: Annotations) -> None: ...

    async def annotate_lease(self, lease: LeaseRecord, annotations: Annotations) -> None: ...


class KubeDesk:
    """On an API server."""

    def __init__(self, api: KubeApi, target: Target) -> None:
        self._api, self._target, self._store = api, target, KubeStore(api, namespaces=target.namespaces)
        self.create_run, self.read_run = self._store.create_run, self._store.read_run

    async def jobs(self) -> list[Raw]:
        return (await self._store.list_jobs()).items

    async def job(self, name: str) -> Raw:
        return await read_job(self._api, self._target, name)

    async def runs_of(self, job: Raw) -> list[Raw]:
        return await read_runs(self._api, job)

    async def queues(self) -> list[Raw]:
        places = [path_of(QUEUES, each) for each in self._target.namespaces or (None,)]
        return (await list_all(self._api, places)).items

    async def leases(self, hints: Iterable[str] = ()) -> Leases:
        return await find_leases(self._api, self._target, hints)

    async def annotate_job(self, name: str, annotations: Annotations) -> None:
        await self._annotate(path_of(JOBS, self._target.namespace, name), annotations)

    async def annotate_lease(self, lease: LeaseRecord, annotations: Annotations) -> None:
        namespace, _, name = place(lease).partition("/")
        await self._annotate(collection(LEASES, "leases", namespace, name), annotations)

    async def _annotate(self, path: str, annotations: Annotations) -> None:
        patch: dict[str, Any] = {"metadata": {"annotations": dict(annotations)}}
        await self._api.request("PATCH", path, patch, content_type=MERGE_PATCH)


def converse(target: Target, conversation: Callable[[Desk], Awaitable[T]]) -> T:
    """Run one conversation with the installation; what goes wrong in it is a ``Complaint``."""
    if target.database:
        from soloist.shells.cli_rows import talk_to_rows

        return talk_to_rows(target, conversation)
    return talk(target, lambda api: conversation(KubeDesk(api, target)))


def noted(jobs: Iterable[Raw], refused: dict[str, Obstacle]) -> Iterator[Raw]:
    """The same jobs; ``refused``, by uid, is told of each whose file was not taken."""
    for raw in jobs:
        sentence = (raw["metadata"].get("annotations") or {}).get(REFUSED)
        if sentence:
            refused[raw["metadata"]["uid"]] = Obstacle(reason="FileRefused", what=str(sentence))
        yield raw


async def read_facts(desk: Desk, name: str) -> Facts:
    """One job with all that ``why`` looks at."""
    raw = await desk.job(name)
    job = parse_job(raw)
    runs = tuple(Seen.of(run) for run in await desk.runs_of(raw))
    hints = [*(entry.lease for entry in job.active), *(seen.run.lease or "" for seen in runs)]
    leases = await desk.leases(hints)
    lease = leases.of(job, runs)
    unknown = leases.unknown if lease is None else ""
    return Facts(job=job, runs=runs, lease=lease, lease_unknown=unknown, now=SystemClock().now())
