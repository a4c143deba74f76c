"""Waits for Jobs: by one watch over all of ours, and by a read now and then, should the watch miss something."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from soloist.adapters.kube.answers import NotFound
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.job_body import JOB_UID_LABEL
from soloist.adapters.kube.store import collection, list_all, slim
from soloist.adapters.kube.watch import Watch
from soloist.domain.errors import SoloistError
from soloist.ports import Raw


def job_path(namespace: str | None, name: str = "") -> str:
    """The path of a Job, or of all of them."""
    return collection("/apis/batch/v1", "jobs", namespace, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A Job as last seen. ``deleted``: the watch told of its end; ``missing``: it was not there when it was read."""

    job: Raw | None
    deleted: bool = False
    missing: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    """Woken by the first state that it wants, and by no other: of thousands that start at once none has ended."""

    wanted: Callable[[Seen], bool]
    told: asyncio.Future[Seen]


class JobWatch:
    """Follows the Jobs that Soloist made. Without ``run`` the reads alone tell. ``refused``: as ``Watch`` has it."""

    def __init__(
        self,
        api: KubeApi,
        *,
        boottime: Callable[[], float],
        namespaces: Sequence[str] = (),
        read_every: float = 30.0,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._paths = [job_path(namespace) for namespace in namespaces or (None,)]
        self._boottime = boottime
        self._read_every, self._refused = read_every, refused
        self._waiting: dict[str, set[_Waiter]] = {}

    async def run(self) -> NoReturn:
        """Watch until cancelled."""
        watch = Watch(
            self._api,
            self._paths,
            on_event=self._tell,
            relist=self._relist,
            boottime=self._boottime,
            selector=JOB_UID_LABEL,
            refused=self._refused,
        )
        await watch.run()

    async def until(
        self, namespace: str, name: str, uid: str, wanted: Callable[[Seen], bool], *, first: float | None = None
    ) -> Seen:
        """The first state of that very Job that is wanted. ``first``: seconds to the first read, where it is soon."""
        waiter = _Waiter(wanted, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(uid, set()).add(waiter)
        # Those that were launched together shall not be read together: it would be while the next are to be launched.
        pause = self._read_every * random.uniform(0.5, 1.5) if first is None else first
        try:
            while True:
                await asyncio.wait({waiter.told}, timeout=pause)
                if waiter.told.done():
                    return waiter.told.result()
                pause = min(self._read_every, pause * 2)
                seen = await self._look(namespace, name, uid)
                if seen is not None and wanted(seen):
                    return seen
        finally:
            self._waiting[uid].discard(waiter)
            if not self._waiting[uid]:
                del self._waiting[uid]

    async def read(self, namespace: str, name: str) -> Raw | None:
        try:
            return slim(await self._api.request("GET", job_path(namespace, name)))
        except NotFound:
            return None

    async def _look(self, namespace: str, name: str, uid: str) -> Seen | None:
        """None: nobody can tell just now, ask again."""
        try:
            job = await self.read(namespace, name)
        except SoloistError:
            return None
        if job is None or job["metadata"]["uid"] != uid:
            return Seen(job=None, missing=True)
        return Seen(job=job)

    async def _relist(self) -> str:
        listing = await list_all(self._api, self._paths, selector=JOB_UID_LABEL)
        for job in listing.items:
            self._tell("MODIFIED", job)
        return listing.resource_version

    def _tell(self, kind: str, job: Raw) -> None:
        seen = Seen(job=job, deleted=kind == "DELETED")
        for waiter in self._waiting.get(job["metadata"]["uid"], ()):
            if not waiter.told.done() and waiter.wanted(seen):
                waiter.told.set_result(seen)
