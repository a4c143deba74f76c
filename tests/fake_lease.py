"""A Lease in memory: the port of the elector, with the API server's rules for resourceVersion and uid."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

from soloist.domain.lease import Answer, Clash, Raw


class FakeLease:
    """``at`` is the server's clock. ``fault(verb)`` may raise before or, by returning a callable, after the effect."""

    def __init__(
        self, at: Callable[[], datetime], fault: Callable[[str], Callable[[], None] | None] | None = None
    ) -> None:
        self._at, self._fault = at, fault or (lambda _verb: None)
        self.lease: Raw | None = None
        self.pods: dict[tuple[str, str], Raw] = {}
        self._made = self._version = 0
        self._lock = threading.Lock()

    def read(self, *, timeout: float) -> Answer:
        return self._do("read", lambda: self._answer())

    def create(self, body: Raw, *, timeout: float) -> Answer | Clash:
        def effect() -> Answer | Clash:
            if self.lease is not None:
                return Clash()
            self._made += 1
            return self.write({**body, "metadata": {**body["metadata"], "uid": f"uid-{self._made}"}})

        return self._do("create", effect)

    def replace(self, body: Raw, *, timeout: float) -> Answer | Clash:
        def effect() -> Answer | Clash:
            now = self.lease["metadata"] if self.lease is not None else {}
            same = all(body["metadata"].get(key) == now.get(key) for key in ("uid", "resourceVersion"))
            return self.write(body) if now and same else Clash()

        return self._do("replace", effect)

    def read_pod(self, pod_namespace: str, pod_name: str, *, timeout: float) -> Raw | None:
        return self._do("pod", lambda: self.pods.get((pod_namespace, pod_name)))

    def write(self, body: Raw) -> Answer:
        self._version += 1
        self.lease = copy.deepcopy({**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}})
        return self._answer()

    def _answer(self) -> Answer:
        return Answer(lease=copy.deepcopy(self.lease), server_time=self._at().replace(microsecond=0))

    def _do(self, verb: str, effect: Callable[[], Any]) -> Any:
        after = self._fault(verb)
        with self._lock:
            found = effect()
        if after is not None:
            after()
        return found
