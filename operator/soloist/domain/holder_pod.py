"""The container that holds the Lease, and the one thing that proves it dead.

The holder publishes its containerID. The kubelet's word that this very container terminated is evidence; a phase, a
reason such as ContainerStatusUnknown, a timestamp, or a Pod that is merely gone (force deleted, its node lost) is not: the
process may go on. So a wrong containerID must never be published. A status may still show the container before ours,
hence: it runs, it was started when our first process was, and it is looked at only some seconds after that.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from soloist.domain.lease import Raw, instant

SETTLED = timedelta(seconds=5)
"""The kubelet relists its containers each second and reports at once: after this a status that shows us running is ours."""

_STARTED_WITHIN = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderPod:
    """A container of a Pod, as its holder publishes it in the Lease."""

    namespace: str
    name: str
    uid: str
    container_id: str

    def text(self) -> str:
        """For the annotation."""
        return json.dumps(
            {"namespace": self.namespace, "name": self.name, "uid": self.uid, "containerID": self.container_id}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPod:
    """The Pod that this process runs in. ``started``: when the container's first process did, on this machine's clock."""

    namespace: str
    name: str
    uid: str
    container: str
    started: datetime


def published(text: str | None) -> HolderPod | None:
    """What a Lease says of its holder's container; None where it says nothing that can be used."""
    try:
        said = json.loads(text) if text else None
        parts = [said[key] for key in ("namespace", "name", "uid", "containerID")] if isinstance(said, dict) else []
    except (ValueError, KeyError, RecursionError):
        return None
    if not parts or not all(isinstance(part, str) and part for part in parts):
        return None
    return HolderPod(namespace=parts[0], name=parts[1], uid=parts[2], container_id=parts[3])


def proves_dead(holder: HolderPod, pod: Raw) -> bool:
    """Whether the kubelet says, in this Pod's status, that the holder's very container has terminated."""
    metadata = pod.get("metadata") or {}
    if (metadata.get("namespace"), metadata.get("name"), metadata.get("uid")) != (
        holder.namespace,
        holder.name,
        holder.uid,
    ):
        return False
    return any(
        ((status.get(when) or {}).get("terminated") or {}).get("containerID") == holder.container_id
        for status in _statuses(pod)
        for when in ("state", "lastState")
    )


def own_container(own: OwnPod, pod: Raw, *, now: datetime) -> HolderPod | None:
    """What to publish of ourselves; None as long as it is not certain."""
    if (pod.get("metadata") or {}).get("uid") != own.uid or now - own.started < SETTLED:
        return None
    status = next((found for found in _statuses(pod) if found.get("name") == own.container), {})
    running = (status.get("state") or {}).get("running")
    container_id = status.get("containerID")
    started = instant((running or {}).get("startedAt"))
    if not container_id or started is None or abs(own.started - started) > _STARTED_WITHIN:
        return None
    holder = HolderPod(namespace=own.namespace, name=own.name, uid=own.uid, container_id=container_id)
    return None if proves_dead(holder, pod) else holder


def _statuses(pod: Raw) -> Iterator[dict[str, Any]]:
    """Of containers and of native sidecars, which are init containers that go on."""
    status = pod.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        yield from status.get(kind) or ()
