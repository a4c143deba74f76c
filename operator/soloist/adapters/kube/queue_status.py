"""The status of a WorkQueue on the API server: the ``QueueStatuses`` port. A patch that holds only for what was seen."""

from collections.abc import Mapping
from typing import Any

from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.queue_watch import QUEUES
from soloist.adapters.kube.store import path_of, write_status
from soloist.domain.queue_status import WatchedQueue
from soloist.ports import Conflict, Gone, Written


class KubeQueueStatuses:
    """The server heeds the resourceVersion; the uid is sent along."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def write(self, queue: WatchedQueue, status: Mapping[str, Any]) -> Written | Conflict | Gone:
        path = path_of(QUEUES, queue.name.namespace, queue.name.name, "status")
        patch = {"metadata": {"uid": queue.uid, "resourceVersion": queue.resource_version}, "status": status}
        return await write_status(self._api, "PATCH", path, patch)
