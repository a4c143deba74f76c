"""Hand-overs: from the signal to the watch's word that another holds the Lease (default times: L 10 s, P 2 s).

The one that ended is started again and is ready before the next. The moments of the signals are spread over the period of
the renewals, since what a follower waits depends on it.
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from soloist.domain.holder_pod import published
from soloist.domain.lease import HOLDER_POD
from tests.api.crew import Controller, Crew
from tests.bench.figures import Measured, percentile
from tests.bench.kubelet import Kubelet
from tests.bench.processes import rss_mb
from tests.bench.running import Say
from tests.bench.stage import Stage, spread, start_ready
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace

TIMES = 30
PERIOD = 2.0
SIDE_BY_SIDE = 3


class HolderWatch:
    """Who holds one Lease, and when the API server's watch said so (CLOCK_MONOTONIC)."""

    def __init__(self, cluster: ControlPlane, namespace: Namespace, lease: str) -> None:
        self._cluster = cluster
        self._path = (
            namespace.path("leases", group="coordination.k8s.io") + f"?watch=true&fieldSelector=metadata.name%3D{lease}"
        )
        self._changed = threading.Condition()
        self._holder, self._since = "", 0.0
        threading.Thread(target=self._run, daemon=True, name=f"watches {lease}").start()

    def _run(self) -> None:
        secure = ssl.create_default_context(cafile=str(self._cluster.ca))
        connection = http.client.HTTPSConnection("127.0.0.1", self._cluster.port, context=secure)
        headers = {"Authorization": f"Bearer {self._cluster.tokens['admin']}"}
        connection.request("GET", self._path, headers=headers)
        answer = connection.getresponse()
        while line := answer.readline():
            self._see(json.loads(line)["object"], time.monotonic())

    def _see(self, lease: Any, at: float) -> None:
        holder = str(lease["spec"].get("holderIdentity") or "")
        with self._changed:
            if holder != self._holder:
                self._holder, self._since = holder, at
                self._changed.notify_all()

    def another(self, than: str, *, timeout: float) -> float:
        """When a Pod of another name came to hold it."""

        def found() -> bool:
            return self._holder != "" and self._holder.split("_", 1)[0] != than

        with self._changed:
            if not self._changed.wait_for(found, timeout):
                raise TimeoutError(f"nobody but {than} held the Lease within {timeout} s")
            return self._since


@dataclass(kw_only=True)
class Series:
    """Hand-overs between two replicas on one Lease. ``end`` is given the leader and the number of the time."""

    crew: Crew
    lease: str
    end: Callable[[Controller, int], None]
    kubelet: Kubelet | None = None

    def run(self, times: int) -> list[float]:
        watch = HolderWatch(self.crew.cluster, self.crew.namespace, self.lease)
        variables = {name: self.kubelet.pod(name) if self.kubelet else {} for name in self._names()}
        for name in self._names():
            self._start(name, variables[name])
        found = []
        for number in range(times):
            leader = self._leader()
            time.sleep(0.3 + PERIOD * random.random())
            began = time.monotonic()
            self.end(leader, number)
            found.append(watch.another(leader.name, timeout=30) - began)
            leader.process.stop(grace=35)
            self._start(leader.name, variables[leader.name])
        return found

    def _names(self) -> tuple[str, str]:
        return f"{self.lease}-a", f"{self.lease}-b"

    def _start(self, name: str, variables: dict[str, str]) -> None:
        if self.kubelet is not None:
            self.kubelet.running(name)
        start_ready(self.crew, name, lease=self.lease, **variables)

    def _leader(self) -> Controller:
        """Who holds the Lease; where there is a kubelet, once it has published its container."""

        def found() -> Controller | None:
            lease = self.crew.lease(self.lease) or {"metadata": {}, "spec": {}}
            holder = str(lease["spec"].get("holderIdentity") or "").split("_", 1)[0]
            told = published((lease["metadata"].get("annotations") or {}).get(HOLDER_POD))
            if self.kubelet is not None and (told is None or told.name != holder):
                return None
            return self.crew.members.get(holder)

        return until(found, what=f"{self.lease} is held", timeout=30)


def sigterm(stage: Stage, say: Say) -> dict[str, Measured]:
    with stage.crew(stage.namespace("handover-term")) as crew:
        found = Series(crew=crew, lease="term", end=lambda leader, _: leader.terminate()).run(_times(stage))
    say(spread(found))
    return {
        "handover_sigterm_p50_s": Measured(value=percentile(found, 0.5), n=len(found)),
        "handover_sigterm_p99_s": Measured(value=percentile(found, 0.99), n=len(found)),
    }


def child(stage: Stage, say: Say) -> dict[str, Measured]:
    with stage.crew(stage.namespace("handover-child")) as crew:
        found = Series(crew=crew, lease="child", end=lambda leader, _: leader.kill_child()).run(_times(stage))
        parents = [rss_mb(member.parent) for member in crew.members.values()]
    say(f"{spread(found)}; the parents' RSS {max(parents):.1f} MB")
    return {"handover_child_max_s": Measured(value=max(found), n=len(found))}


def seen(stage: Stage, say: Say) -> dict[str, Measured]:
    """The kubelet looks each second: its word comes up to a second after the death, here at each of as many moments."""
    times = _times(stage)
    namespace = stage.namespace("handover-seen")
    kubelet = Kubelet(namespace)

    def die(leader: Controller, number: int) -> None:
        leader.kill_both()
        time.sleep(number / max(1, times - 1))
        kubelet.terminated(leader.name)

    with stage.crew(namespace) as crew:
        found = Series(crew=crew, lease="seen", end=die, kubelet=kubelet).run(times)
    say(spread(found))
    return {"handover_seen_max_s": Measured(value=max(found), n=len(found), note="patched 0 to 1 s after the death")}


def unseen(stage: Stage, say: Say) -> dict[str, Measured]:
    """They last the whole lease, so some installations go through them side by side."""
    each = 1 if stage.quick else TIMES // SIDE_BY_SIDE
    with stage.crew(stage.namespace("handover-unseen")) as crew, ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        all_of_them = [
            Series(crew=crew, lease=f"unseen{number}", end=lambda leader, _: leader.kill_both())
            for number in range(SIDE_BY_SIDE)
        ]
        found = [seconds for one in pool.map(lambda series: series.run(each), all_of_them) for seconds in one]
    say(spread(found))
    note = f"{SIDE_BY_SIDE} installations side by side"
    return {"handover_unseen_max_s": Measured(value=max(found), n=len(found), note=note)}


def _times(stage: Stage) -> int:
    return 4 if stage.quick else TIMES
