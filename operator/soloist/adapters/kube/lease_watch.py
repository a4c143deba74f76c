"""Watches that only wake: one on the Lease, one on the holder's Pod, each in a thread and on connections of its own.

Nothing that they bring is believed, and nothing waits for them: the elector reads each period anyway. So a watch that is
cut, silent, expired (410) or refused costs at most that period, and simply starts again; that it may not be is said once.
"""

import logging
import threading
from collections.abc import Callable

from soloist.adapters.kube.bounded import BoundedClient, Raw
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.lease import lease_watch_path, pod_watch_path
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.holder_pod import HolderPod

logger = logging.getLogger(__name__)

WATCH_SECONDS = 60
_PAUSE = 1.0


class LeaseWatches:
    """``lease_seen`` gets what the Lease now is, None when it was deleted; ``pod_seen`` is called when the Pod changed."""

    def __init__(
        self,
        access: Access,
        *,
        namespace: str,
        name: str,
        lease_seen: Callable[[Raw | None], None],
        pod_seen: Callable[[], None],
    ) -> None:
        self._lease = _Watch(access, lambda kind, found: lease_seen(None if kind == "DELETED" else found))
        self._lease.aim(lease_watch_path(namespace, name))
        self._pod = _Watch(access, lambda _kind, _found: pod_seen())

    def start(self) -> None:
        """From now on, until the process ends or ``stop``."""
        self._lease.start()
        self._pod.start()

    def follow(self, holder: HolderPod | None) -> None:
        """Watch this Pod from now on, and no other."""
        self._pod.aim(pod_watch_path(holder) if holder is not None else None)

    def stop(self) -> None:
        """End both threads soon."""
        self._lease.stop()
        self._pod.stop()


class _Watch:
    """One watch after another on whatever path it is aimed at."""

    def __init__(self, access: Access, seen: Callable[[str, Raw], None]) -> None:
        self._client, self._seen = BoundedClient(access), seen
        self._path: str | None = None
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="lease-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def aim(self, path: str | None) -> None:
        with self._changed:
            if path == self._path:
                return
            self._path = path
            self._changed.notify_all()
        self._client.cut()

    def stop(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._client.close()

    def _run(self) -> None:
        said = ""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._path is not None)
                path = self._path
                if self._ended or path is None:
                    return
            try:
                self._follow(path)
            except TransientError as error:
                logger.debug("watch ended", extra={"path": path, "error": str(error)})
            except PermanentError as error:
                if str(error) != said:
                    logger.warning("watch refused", extra={"path": path, "error": str(error)})
                said = str(error)
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._path != path, timeout=_PAUSE)  # noqa: B023 - called at once

    def _follow(self, path: str) -> None:
        for event in self._client.lines(f"{path}&timeoutSeconds={WATCH_SECONDS}", silence=WATCH_SECONDS + 5):
            found = event.get("object")
            if event.get("type") in ("ADDED", "MODIFIED", "DELETED") and isinstance(found, dict):
                self._seen(str(event["type"]), found)
            if self._path != path or self._ended:
                return
