"""What a kubelet would say about the containers of the controllers, so that a death can be seen as it is on a node."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime
from typing import Any

from soloist.domain.instants import stamp
from tests.cluster.fixtures import Namespace

CONTAINER = "controller"


class Kubelet:
    """One Pod for each name, without a node; its status is written here."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._numbers = itertools.count(1)
        self._ids: dict[str, str] = {}
        self._uids: dict[str, str] = {}

    def pod(self, name: str) -> dict[str, str]:
        """Make the Pod; the variables that the downward API would give to its container."""
        spec = {"nodeName": "node", "containers": [{"name": CONTAINER, "image": "soloist"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        made = self._namespace.api.create(self._namespace.path("pods"), body)
        self._uids[name] = made["metadata"]["uid"]
        return {"POD_UID": self._uids[name], "POD_NAMESPACE": self._namespace.name, "POD_CONTAINER": CONTAINER}

    def running(self, name: str) -> str:
        """A new container of this Pod runs as of now; its id."""
        before = self._ids.get(name)
        self._ids[name] = f"containerd://{next(self._numbers):064x}"
        last = {"terminated": self._end(before)} if before is not None else {}
        self._say(name, {"running": {"startedAt": _now()}}, last)
        return self._ids[name]

    def terminated(self, name: str) -> None:
        """Its container has ended."""
        self._say(name, {"terminated": self._end(self._ids[name])}, {})

    def _end(self, container: str) -> dict[str, Any]:
        return {"containerID": container, "exitCode": 137, "reason": "Error", "finishedAt": _now()}

    def _say(self, name: str, state: dict[str, Any], last: dict[str, Any]) -> None:
        status = {
            "name": CONTAINER,
            "image": "soloist",
            "imageID": "soloist@sha256:0",
            "ready": "running" in state,
            "restartCount": 0,
            "containerID": self._ids[name],
            "state": state,
            "lastState": last,
        }
        patch = {"status": {"phase": "Running", "containerStatuses": [status]}}
        self._namespace.api.patch(self._namespace.path("pods", name) + "/status", patch)


def _now() -> str:
    return stamp(datetime.fromtimestamp(int(time.time()), UTC))
