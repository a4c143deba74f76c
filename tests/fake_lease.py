"""A Lease in memory: the port of the elector, with the API server's rules for resourceVersion and uid."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from soloist.domain.lease import Answer, Clash, Raw

T = TypeVar("T")


class FakeLease:
    """``at`` is the server's clock. ``fault(verb)`` may raise before the effect or return what is to raise after it."""

    def __init__(self, at: Callable[[], datetime]) -> None:
        self._at = at
        self.fault: Callable[[str], Exception | None] = lambda _verb: None
        self.lease: Raw | None = None
        self.pods: dict[tuple[str, str], Raw] = {}
        self.asked: list[str] = []
        self._made = self._version = 0

    def read(self, *, timeout: float) -> Answer:
        return self._do("read", self._answer)

    def create(self, body: Raw, *, timeout: float) -> Answer | Clash:
        self._made += self.lease is None
        born = {**body, "metadata": {**body["metadata"], "uid": f"uid-{self._made}"}}
        return self._do("create", lambda: self.write(born) if self.lease is None else Clash())

    def replace(self, body: Raw, *, timeout: float) -> Answer | Clash:
        now = self.lease["metadata"] if self.lease is not None else {}
        same = bool(now) and all(body["metadata"].get(key) == now[key] for key in ("uid", "resourceVersion"))
        return self._do("replace", lambda: self.write(body) if same else Clash())

    def read_pod(self, pod_namespace: str, pod_name: str, *, timeout: float) -> Raw | None:
        return self._do("pod", lambda: self.pods.get((pod_namespace, pod_name)))

    def write(self, body: Raw) -> Answer:
        self._version += 1
        self.lease = copy.deepcopy({**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}})
        return self._answer()

    def _answer(self) -> Answer:
        return Answer(lease=copy.deepcopy(self.lease), server_time=self._at().replace(microsecond=0))

    def _do(self, verb: str, effect: Callable[[], T]) -> T:
        self.asked.append(verb)
        after = self.fault(verb)
        found = effect()
        if after is not None:
            raise after
        return found
