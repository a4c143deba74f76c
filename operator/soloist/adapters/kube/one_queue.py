"""One WorkQueue, read when a row is to be added to it, and kept for some seconds, as a Secret is."""

from collections.abc import Callable

from soloist.adapters.kube.answers import NotFound
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.queue_watch import QUEUES
from soloist.adapters.kube.store import path_of
from soloist.domain.errors import PermanentError
from soloist.domain.queue_name import QueueName, queues_in
from soloist.domain.queue_spec import QueueSpec

_MOST_KEPT = 256


class OneQueue:
    """``keep``: for how many seconds a WorkQueue is not asked for again."""

    def __init__(self, api: KubeApi, *, boottime: Callable[[], float], keep: float = 2.0) -> None:
        self._api, self._boottime, self._keep = api, boottime, keep
        self._kept: dict[QueueName, tuple[float, QueueSpec]] = {}

    async def read(self, namespace: str, name: str) -> QueueSpec:
        """Its spec; ``PermanentError`` with a sentence where there is none that can be used."""
        place, now = QueueName(namespace, name), self._boottime()
        until, spec = self._kept.get(place, (0.0, None))
        if spec is not None and now < until:
            return spec
        try:
            found = queues_in([await self._api.request("GET", path_of(QUEUES, namespace, name))])
        except NotFound as error:
            raise PermanentError(f"WorkQueue {place} does not exist: create it, or name another one.") from error
        if place in found.invalid:
            raise PermanentError(f"WorkQueue {place} cannot be used: {found.invalid[place].message}")
        if place not in found.valid:
            raise PermanentError(f"WorkQueue {place} is being deleted: name another one.")
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[place] = (now + self._keep, found.valid[place])
        return found.valid[place]
