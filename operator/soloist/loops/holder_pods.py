"""The two Pods of an election: the holder's, whose container may be proven dead, and our own, whose container we publish.

Neither is needed to lead. Whatever cannot be read is as if it said nothing: then the Lease runs out by itself.
"""

import logging
from datetime import datetime

from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.holder_pod import HolderPod, OwnPod, own_container, proves_dead, published
from soloist.domain.lease import HOLDER_POD, LeaseRecord, Raw
from soloist.loops.election_ports import Hooks, LeaseApi

logger = logging.getLogger(__name__)


class HolderPods:
    """Reads Pods on behalf of one elector."""

    def __init__(self, api: LeaseApi, *, own: OwnPod | HolderPod | None, hooks: Hooks, timeout: float) -> None:
        self._api, self._own, self._hooks, self._timeout = api, own, hooks, timeout
        self._followed: HolderPod | None = None
        self._said = False

    @property
    def text(self) -> str | None:
        """What to publish, once it is certain."""
        return self._own.text() if isinstance(self._own, HolderPod) else None

    def learn(self, now: datetime) -> None:
        """Find out our own containerID, as long as it is not known."""
        own = self._own
        if isinstance(own, OwnPod) and (pod := self._read(own.namespace, own.name)) is not None:
            self._own = own_container(own, pod, now=now) or own

    def holder_is_dead(self, record: LeaseRecord | None) -> bool:
        """Whether the kubelet says that the container of this record's holder has ended."""
        annotations = record.raw["metadata"].get("annotations") or {} if record is not None and record.holder else {}
        holder = published(annotations.get(HOLDER_POD))
        self.follow(holder)
        pod = self._read(holder.namespace, holder.name) if holder is not None else None
        return holder is not None and pod is not None and proves_dead(holder, pod)

    def follow(self, holder: HolderPod | None) -> None:
        """Have this Pod watched from now on."""
        if holder != self._followed:
            self._followed = holder
            self._hooks.follow(holder)

    def _read(self, namespace: str, name: str) -> Raw | None:
        try:
            return self._api.read_pod(namespace, name, timeout=self._timeout)
        except TransientError as error:
            logger.debug("pod not read", extra={"pod": f"{namespace}/{name}", "error": str(error)})
        except PermanentError as error:
            if not self._said:
                self._said = True
                self._hooks.noticed(
                    "PodUnreadable", f"{error} A crashed leader is replaced only when its Lease runs out."
                )
        return None
