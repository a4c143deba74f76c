"""The manifests of one host, followed: jobs for whoever leads, queues for whoever works them, and what is wrong with a file.

Looked at once a second in a thread, since a file system may hang. What is refused is said once, and again only when it was
mended in between; it stands in ``refused`` for /readyz and for people meanwhile.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from soloist.adapters.files.documents import JOBS_TOO
from soloist.adapters.files.manifests import Manifests
from soloist.adapters.files.queue_files import LOOK_EVERY, plan_in
from soloist.adapters.files.secret_folder import LocalKeys, NowhereError
from soloist.adapters.sealed import ReadKey, Sealed
from soloist.domain.actions import KeyRef
from soloist.domain.errors import ConfigError, PermanentError, SoloistError
from soloist.domain.manifest_plan import KIND, Plan, plan
from soloist.domain.places import Refused
from soloist.domain.queue_manifests import QueuePlan
from soloist.domain.queue_name import FoundQueues, QueueName
from soloist.domain.queue_spec import DatabaseRef, QueueSpec
from soloist.ports import Raw
from soloist.shells.standalone_settings import StandaloneSettings

_log = logging.getLogger("soloist.standalone")


class LocalFiles:
    """``refuses``: actions that are not for here. Raises ConfigError where a path is not there at the start."""

    def __init__(self, settings: StandaloneSettings, refuses: Refused) -> None:
        self._manifests, self._refuses = Manifests(settings.files, JOBS_TOO), refuses
        self._manifests.look()
        for path in settings.files:
            if not Path(path).exists():
                raise ConfigError(self._manifests.problems[str(Path(path))])
        keys: ReadKey = LocalKeys(self._manifests, folder=settings.secrets, env=os.environ).read
        self.read_key = keys
        self._refused: tuple[str, ...] = ()
        self._queues = QueuePlan()
        self._look_at_queues()

    @property
    def refused(self) -> tuple[str, ...]:
        """What was not taken from the files, in sentences."""
        return (*self._refused, *self._queues.refused.values())

    async def run(self, changed: Callable[[], None], tell: Callable[[FoundQueues], None]) -> NoReturn:
        """``changed`` is called whenever a file has; ``tell`` is told of all queues, now and then."""
        tell(self._queues.found)
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if not await asyncio.to_thread(self._manifests.look):
                continue
            changed()
            before = self._queues.found
            self._look_at_queues()
            if self._queues.found != before:
                tell(self._queues.found)

    def _look_at_queues(self) -> None:
        """At each change, not for each use: thousands of runs may ask for one of them at the same moment."""
        before, self._queues = self._queues, plan_in(self._manifests, self._queues)
        _tell(set(self._queues.refused.values()) - set(before.refused.values()))

    def planned(self, stored: list[Raw]) -> Plan:
        """What is to be in effect, of what is."""
        made = plan(*self._manifests.planned(KIND), stored, self._refuses, self._manifests.lacking)
        _tell(set(made.refused) - set(self._refused))
        self._refused = tuple(made.refused)
        return made

    def queues(self) -> list[Mapping[str, Any]]:
        """The WorkQueues, as the files have them, or had them last where they cannot be used now."""
        return list(self._queues.objects)

    async def find_queue(self, namespace: str, name: str) -> QueueSpec:
        """One WorkQueue; PermanentError with a sentence where there is none that can be used."""
        place, found = QueueName(namespace, name), self._queues.found
        if place in found.invalid:
            raise PermanentError(f"WorkQueue {place} cannot be used: {found.invalid[place].message}")
        if place not in found.valid:
            raise PermanentError(f"WorkQueue {place} is in none of the files: add it to one, or name another.")
        return found.valid[place]


def _tell(sentences: set[str]) -> None:
    for sentence in sorted(sentences):
        _log.warning("file not taken", extra={"sentence": sentence})


class OwnDatabase:
    """Databases by their Secret; one that is nowhere is this process's own, so that a small installation needs no Secret.

    For databases only: a Secret that an HTTP header wants is never the database's URL. And only where there is nothing of
    that name: a wrong key, or a file that cannot be read, would else send statements to another database than was meant.
    """

    def __init__(self, read_key: ReadKey, url: str) -> None:
        self.read_key, self._url = read_key, url

    async def read(self, namespace: str, ref: KeyRef) -> Sealed:
        try:
            return await self.read_key(namespace, ref)
        except NowhereError:
            return Sealed(self._url)

    async def is_behind(self, namespace: str, ref: KeyRef) -> bool:
        """Whether that Secret leads to this very database."""
        try:
            return (await self.read(namespace, ref)).reveal().strip() == self._url
        except SoloistError:
            return False

    async def of_queue(self, name: QueueName, database: DatabaseRef) -> Sealed:
        return await self.read(name.namespace, database.secret)
