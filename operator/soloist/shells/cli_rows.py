"""The installation of ``soloist standalone``, as commands ask it: rows of the database that its processes live in.

Whoever may write those rows may do what the commands do. A process that leads hears of it by a notice, and a pause of the
whole installation stands on the lease, as it does on a cluster.
"""

import asyncio
import difflib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.failures import STANDALONE
from soloist.adapters.postgres.row_lease import RowLease
from soloist.adapters.postgres.row_objects import JOB, QUEUE
from soloist.adapters.postgres.row_store import RowStore
from soloist.adapters.postgres.url import database_url
from soloist.domain.errors import SoloistError, TransientError
from soloist.domain.lease import Answer, LeaseRecord, Raw, parse
from soloist.domain.merge_patch import merged
from soloist.shells.cli_reading import Leases
from soloist.shells.cli_target import Target
from soloist.shells.cli_text import Complaint

T = TypeVar("T")
LEASE_SECONDS = 10.0
TRIES = 10
NAMESPACE = "standalone"
NOT_TAKEN = (
    "One that is new is not made while its file is not taken as it is, or has a field that does not exist: the log of whoever leads"
    " (file not taken) and its /readyz say so."
)


class RowDesk:
    """One installation."""

    def __init__(self, target: Target, database: Database) -> None:
        self._target = target
        namespace = target.lease_namespace or NAMESPACE
        self._lease = RowLease(target.database, namespace=namespace, name=target.lease_name)
        writer = f"command-{secrets.token_hex(4)}"
        self._store = RowStore(database, shard=self._lease.shard, writer=writer, namespaces=target.namespaces)
        self.create_run, self.read_run = self._store.create_run, self._store.read_run

    async def jobs(self) -> list[Raw]:
        return (await self._store.list_jobs()).items

    async def job(self, name: str) -> Raw:
        found = await self._store.read_job(self._target.namespace, name)
        if found is not None:
            return found
        raise self._missing("ScheduledJob", name, sorted(raw["metadata"]["name"] for raw in await self.jobs()))

    def _missing(self, kind: str, name: str, names: list[str]) -> Complaint:
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
        said = (
            f"Did you mean {' or '.join(close)}?"
            if close
            else f"There are: {', '.join(names[:10]) or 'none'}. {NOT_TAKEN}"
        )
        return Complaint(f'There is no {kind} "{name}" in namespace {self._target.namespace}. {said}')

    async def runs_of(self, job: Raw) -> list[Raw]:
        meta, runs = job["metadata"], (await self._store.list_runs()).items
        mine = [run for run in runs if run["spec"].get("scheduledJobName") == meta["name"]]
        return [run for run in mine if run["spec"].get("scheduledJobUID") in (None, meta["uid"])]

    async def queues(self) -> list[Raw]:
        return (await self._store.list_of(QUEUE)).items

    async def queue(self, name: str) -> Raw | None:
        """None where it has no WorkQueues at all: then nobody knows whether it is an installation's."""
        found = await self._store.read_one(QUEUE, self._target.namespace, name)
        names = sorted(raw["metadata"]["name"] for raw in await self.queues()) if found is None else []
        if names:
            raise self._missing("WorkQueue", name, names)
        return found

    async def leases(self, hints: Iterable[str] = ()) -> Leases:
        lease = (await asyncio.to_thread(self._lease.read, timeout=LEASE_SECONDS)).lease
        return Leases(found=(parse(lease),) if lease is not None else ())

    async def annotate_job(self, name: str, annotations: Mapping[str, str | None]) -> None:
        await self._store.annotate(JOB, self._target.namespace, name, annotations)

    async def annotate_lease(self, lease: LeaseRecord, annotations: Mapping[str, str | None]) -> None:
        """Its holder renews it meanwhile, so it may take some tries."""
        for _ in range(TRIES):
            read = (await asyncio.to_thread(self._lease.read, timeout=LEASE_SECONDS)).lease
            if read is None:
                raise Complaint("The lease is gone: start soloist standalone, then try again.")
            body = merged(read, {"metadata": {"annotations": dict(annotations)}})
            if isinstance(await asyncio.to_thread(self._lease.replace, body, timeout=LEASE_SECONDS), Answer):
                return
        raise Complaint("The lease changed with every try: try again.")

    def close(self) -> None:
        self._lease.close()


def talk_to_rows(target: Target, conversation: Callable[[RowDesk], Awaitable[T]]) -> T:
    """Run one conversation; what goes wrong in it is a ``Complaint``."""

    async def inside() -> T:
        database = Database(database_url(target.database), grant=STANDALONE)
        desk = RowDesk(target, database)
        try:
            return await conversation(desk)
        finally:
            desk.close()
            await database.close()

    try:
        return asyncio.run(inside())
    except TransientError as error:
        raise Complaint(f"{str(error).rstrip('.')}. Nothing is known to have been changed; try again.") from error
    except SoloistError as error:
        raise Complaint(str(error)) from error
