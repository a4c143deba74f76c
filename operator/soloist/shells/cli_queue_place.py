"""Which queue a command is about, and a conversation with its database.

The Secret is read as the person who asks, so nobody sees by us what RBAC keeps from them. The URL stays sealed until it is
connected to; messages call a database by its name and host.
"""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from soloist.adapters.clock import SystemClock
from soloist.adapters.files.queue_files import QueueFiles
from soloist.adapters.kube.answers import Refusal
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.queue_watch import QUEUES
from soloist.adapters.kube.secrets import KubeSecrets
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.row_objects import OWN_DATABASE
from soloist.adapters.postgres.url import database_url
from soloist.adapters.sealed import Sealed
from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import DatabaseRef, ManagedTable, QueueSpec
from soloist.domain.queue_validity import Standing
from soloist.domain.spec_fields import Invalid
from soloist.domain.told import told
from soloist.shells.cli_reading import read_one
from soloist.shells.cli_target import Target, forbidden, talk
from soloist.shells.cli_text import Complaint

T = TypeVar("T")
OR_WRITE = "Or write --database postgresql://user@host/name."


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """``named`` is how a command line names it; ``url`` is None where the spec does not say; ``served`` by which other."""

    name: QueueName
    spec: QueueSpec | Invalid
    named: str
    url: Sealed | None = None
    of_secret: bool = False
    served: str = ""

    def usable(self) -> QueueSpec:
        """For what cannot be done without it."""
        if isinstance(self.spec, Invalid):
            raise Complaint(f"{self.name} cannot be used: {self.spec.message}")
        return self.spec

    @property
    def table(self) -> str:
        """As people call it."""
        return str(self.spec.table.name if isinstance(self.spec, QueueSpec) else ManagedTable.name)


def in_cluster(target: Target, name: str, database: str) -> QueuePlace:
    """As the API server has it."""

    async def conversation(api: KubeApi) -> QueuePlace:
        raw = await read_one(api, target, QUEUES, name)
        spec, found = parse_queue(raw.get("spec") or {}), QueueName(target.namespace, name)
        url = Sealed(database) if database else None
        if url is None and isinstance(spec, QueueSpec):
            url = await _secret(api, target.namespace, spec.database)
        return QueuePlace(
            name=found,
            spec=spec,
            named=f"{name} -n {target.namespace}",
            url=url,
            of_secret=not database,
            served=_served(raw),
        )

    return talk(target, conversation)


def in_rows(target: Target, name: str) -> QueuePlace | None:
    """As the leader of ``soloist standalone`` has put it into the database; None where that has no queues."""
    from soloist.shells.cli_rows import talk_to_rows

    raw = talk_to_rows(target, lambda desk: desk.queue(name))
    found = QueueName(target.namespace, name)
    if raw is None and target.one_host:
        raise Complaint(f"There is no WorkQueue {found}: whoever leads has none in its files.")
    if raw is None:
        return None
    spec, annotations = parse_queue(raw.get("spec") or {}), raw["metadata"].get("annotations") or {}
    if isinstance(spec, QueueSpec) and annotations.get(OWN_DATABASE) != "true":
        raise Complaint(
            f"{found} is in another database than the installation: name its manifest with -f, and with --database "
            "where its Secret leads."
        )
    return QueuePlace(
        name=found,
        spec=spec,
        named=f"{name} -n {target.namespace}{target.flags}",
        url=Sealed(target.database),
        served=_served(raw),
    )


async def _secret(api: KubeApi, namespace: str, ref: DatabaseRef) -> Sealed:
    try:
        return await KubeSecrets(api, boottime=SystemClock().boottime).read(namespace, ref.secret)
    except Refusal as error:
        raise Complaint(f"{forbidden(error) if error.status == 403 else error} {OR_WRITE}") from error
    except PermanentError as error:
        raise Complaint(f"{error} {OR_WRITE}") from error


def _served(raw: dict[str, Any]) -> str:
    said = told(raw.get("status"), "Valid")
    return str(said.get("message", "")) if said.get("reason") == Standing.ALREADY_SERVED else ""


def in_files(files: Sequence[str], namespace: str, name: str, database: str) -> QueuePlace:
    """As it is written there; no namespace means any."""
    listed = ", ".join(files)
    try:
        source = QueueFiles(files, told=lambda _: None)
        found = source.found()
        every: dict[QueueName, QueueSpec | Invalid] = {**found.valid, **found.invalid}
        mine = [each for each in sorted(every) if each.name == name and namespace in ("", each.namespace)]
        if not mine:
            there = ", ".join(map(str, sorted(every))) or "none"
            where = f" of namespace {namespace}" if namespace else ""
            raise Complaint(f'There is no WorkQueue "{name}"{where} in {listed}. There are: {there}.')
        if len(mine) > 1:
            raise Complaint(f"There are several in {listed} ({', '.join(map(str, mine))}): choose one with -n.")
        spec, url = every[mine[0]], Sealed(database) if database else None
        if url is None and isinstance(spec, QueueSpec):
            url = asyncio.run(source.read_key(mine[0].namespace, spec.database.secret))
    except PermanentError as error:
        raise Complaint(f"{error} {OR_WRITE}") from error
    except SoloistError as error:
        raise Complaint(str(error)) from error
    where = " ".join(f"-f {shlex.quote(file)}" for file in files)
    named = f"{name} {where} -n {mine[0].namespace}" if namespace else f"{name} {where}"
    return QueuePlace(name=mine[0], spec=spec, named=named, url=url, of_secret=not database)


def ask(place: QueuePlace, conversation: Callable[[Database], Awaitable[T]]) -> T:
    """Run one conversation with the queue's database; what goes wrong in it is a ``Complaint``."""

    async def inside(url: str) -> T:
        database = Database(database_url(url), program="soloist")
        try:
            return await conversation(database)
        finally:
            await database.close()

    try:
        if place.url is None:
            raise Complaint(f"It is not known which database {place.name} is in. {OR_WRITE}")
        return asyncio.run(inside(place.url.reveal().strip()))
    except TransientError as error:
        raise Complaint(f"{str(error).rstrip('.')}. {_remedy(place, sent=error.sent)}") from error
    except SoloistError as error:
        raise Complaint(str(error)) from error


def _remedy(place: QueuePlace, *, sent: bool) -> str:
    if sent:
        return "Whether it was done is not known; the same again does what is left to do."
    if place.of_secret:
        return (
            "The Secret's URL may lead there from inside the cluster only: then forward a port, and write --database."
        )
    return "Nothing was done; try again."


def database_name(database: Database) -> str:
    """In the middle of a sentence."""
    return database.name[:1].lower() + database.name[1:]
