"""Where the scenes play: a cluster with real nodes, a backend and a PostgreSQL beside it, and Soloist installed by its chart.

``site.leader()`` names the Pod that leads, ``site.handed_over(…)`` does something to it and tells how long it took until another
leads, and ``site.audit()`` says what must hold after every scene: no tick twice, none early, none lost without a reason.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.api.crew import audit
from tests.cluster.backend import Backend
from tests.cluster.binaries import locate
from tests.cluster.children import until
from tests.cluster.kind import Kind
from tests.cluster.node import Node
from tests.e2e.image import Image
from tests.postgres.server import Postgres

Raw = dict[str, Any]
ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "soloist"
NAMESPACE, RELEASE, QUEUE = "soloist", "soloist", "webhooks"
EVERY_SECOND = "every-second"
PATIENCE = 120.0


@dataclass
class Site:
    """One cluster with one release in it. ``node``: kind's may be several."""

    node: Node | Kind
    backend: Backend
    postgres: Postgres
    image: Image
    told: list[str] = field(default_factory=list)

    # The release

    def helm(self, *arguments: str | Path) -> str:
        config = self.node.directory / "kubeconfig"
        argv = [locate("helm")["helm"], "--kubeconfig", config, "--namespace", NAMESPACE, *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"helm {arguments[0]} failed: {done.stderr.strip()}\n{self.pods()}")
        return done.stdout

    def values(self, tag: str, *, by_depth: bool) -> Path:
        repository = self.image.tag.rpartition(":")[0]
        chosen = {
            "image": {"repository": repository, "tag": tag},
            "secrets": {"namespaces": [NAMESPACE, "default"]},
            "migration": {"existingSecret": "backend-db"},
            # Small, so that the work of a test is a load: two cores have to do for everything.
            "worker": {
                "autoscaling": {"minReplicas": 2, "maxReplicas": 4, **(BY_DEPTH if by_depth else {})},
                "resources": {"requests": {"cpu": "150m", "memory": "96Mi"}},
                "podDeletionCost": True,
                # What receives webhooks is on this machine, and no public address.
                "settings": {"dataAllow": [f"{self.node.address}/32"]},
            },
            "externalMetrics": {"enabled": True},
            "monitoring": {"dashboard": {"enabled": True}},
        }
        path = self.node.directory / "values.yaml"
        path.write_text(json.dumps(chosen))
        return path

    def install(self) -> None:
        secret = {"metadata": {"name": "backend-db"}, "stringData": {"uri": self.dsn()}}
        self.node.api().create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": RESTRICTED}})
        self.node.api().create(f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)
        values = self.values(self.image.tag.rpartition(":")[2], by_depth=False)
        self.helm("install", RELEASE, CHART, "--values", values, "--wait", "--timeout", "4m")

    def upgrade(self, tag: str, *, by_depth: bool = False) -> None:
        """To the image of that tag; workers are scaled by the depth of the queue then, or by their CPU."""
        values = self.values(tag, by_depth=by_depth)
        self.helm("upgrade", RELEASE, CHART, "--values", values, "--wait", "--timeout", "4m")

    def pods(self) -> str:
        return self.node.kubectl("-n", NAMESPACE, "get", "pods", "-o", "wide")

    def pods_of(self, component: str) -> list[Raw]:
        """Those that are not going away."""
        wanted = f"labelSelector=app.kubernetes.io/component={component}"
        found = self.node.api().items(f"/api/v1/namespaces/{NAMESPACE}/pods?{wanted}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def ready(self, component: str) -> list[str]:
        def is_ready(pod: Raw) -> bool:
            conditions = pod.get("status", {}).get("conditions", ())
            return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

        return [pod["metadata"]["name"] for pod in self.pods_of(component) if is_ready(pod)]

    def wait_ready(self, component: str, count: int, *, timeout: float = PATIENCE) -> None:
        until(lambda: len(self.ready(component)) == count, what=f"{count} ready Pods of {component}", timeout=timeout)

    # What it does

    def ours(self, resource: str, name: str = "") -> str:
        return f"/apis/soloist.dev/v1alpha1/namespaces/{NAMESPACE}/{resource}" + (f"/{name}" if name else "")

    def make(self, kind: str, resource: str, name: str, spec: Raw) -> None:
        body = {"apiVersion": "soloist.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.node.api().create(self.ours(resource), body)

    def make_a_job_of_the_image(self, name: str, schedule: str) -> None:
        """A ScheduledJob whose Pods are admitted under the restricted standard; suspended once one has run to its end."""
        command = ["soloist", "preview", "@every 1h"]
        secure = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        pod = {
            "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "report", "image": self.image.tag, "command": command, "securityContext": secure}],
        }
        job = {"template": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}}
        self.make("ScheduledJob", "scheduledjobs", name, {"schedule": schedule, "job": job})
        until(
            lambda: [run for run in self.runs(name) if run.get("status", {}).get("phase") == "Succeeded"],
            what="a Job of the image ran to its end",
            timeout=PATIENCE,
        )
        self.node.api().patch(self.ours("scheduledjobs", name), {"spec": {"suspend": True}})

    def status(self, job: str) -> Raw:
        found: Raw = self.node.api().get(self.ours("scheduledjobs", job)).get("status", {})
        return found

    def runs(self, job: str) -> list[Raw]:
        return [run for run in self.node.api().items(self.ours("jobruns")) if run["spec"]["scheduledJobName"] == job]

    def audit(self) -> int:
        """How many ticks were received, once each."""
        audit(self, self.backend, EVERY_SECOND, path=f"/{EVERY_SECOND}")  # type: ignore[arg-type]
        return len(self.backend.received(f"/{EVERY_SECOND}"))

    def dsn(self) -> str:
        return f"postgresql://postgres@{self.node.address}:{self.postgres.port}/postgres"

    # Who leads

    def holder(self) -> str:
        """Pod name, uid and nonce of the holder; empty while nobody leads."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{RELEASE}"
        return (self.node.api().find(path) or {}).get("spec", {}).get("holderIdentity") or ""

    def leader(self) -> str:
        return until(lambda: self.holder().split("_")[0], what="somebody leads", timeout=PATIENCE)

    def handed_over(self, how: str, do: Callable[[str], None], *, timeout: float = 60.0) -> float:
        """Seconds until another process leads, and its first tick is received; from ``do`` on, which gets the leader's Pod."""
        self.wait_ready("controller", 2)
        before, pod = self.holder(), self.leader()
        began = time.monotonic()
        do(pod)
        until(lambda: self.holder() not in ("", before), what=f"another leads ({how})", timeout=timeout)
        took = time.monotonic() - began
        seen = len(self.backend.received(f"/{EVERY_SECOND}"))
        self.backend.wait(seen + 3, path=f"/{EVERY_SECOND}", timeout=PATIENCE)
        self.tell(f"hand-over, {how}: {took:.2f} s, {pod} to {self.leader()}")
        return took

    def kill_container(self, pod: str) -> None:
        self.node.kill(NAMESPACE, pod)

    def kill_child(self, pod: str) -> None:
        self.node.kill(NAMESPACE, pod, child=True)

    def tell(self, line: str) -> None:
        self.told.append(line)
        print(f"\n  {line}")


DEEP = 200
"""Rows that a worker may have before it: what the feed keeps waiting is for four."""
BY_DEPTH = {
    "targetCPUUtilizationPercentage": None,
    "metrics": [
        {
            "type": "External",
            "external": {
                "metric": {"name": "soloist_queue_ready", "selector": {"matchLabels": {"queue": QUEUE}}},
                "target": {"type": "AverageValue", "averageValue": str(DEEP)},
            },
        }
    ],
}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
