"""Controllers with just the rights that the chart grants, any of which can be taken away and given back while they run.

Between them and the API server lie a TCP proxy, to cut their watches with, and one that answers a write as if another had been
before it. ``stage.anew()`` has a leader in a new process, and one that stands by.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.api.crew import Crew
from tests.api.going_on import goes_on
from tests.api.tending import ended, ready
from tests.bench.kubelet import Kubelet
from tests.chart.rendering import documents, rendered
from tests.cluster.backend import Backend
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.proxy import TcpProxy

Raw = dict[str, Any]
Right = tuple[str, str, str]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
VALUES = {
    "secrets": {"namespaces": ["work"]},
    "worker": {"enabled": False},
    "crds": {"enabled": False},
    "rbac": {"aggregate": False},
    "flowSchema": {"enabled": False},
}
PATIENT = {"SOLOIST_LEASE_DURATION": "24", "SOLOIST_LEASE_RETRY_PERIOD": "5", "SOLOIST_LEASE_MARGIN": "3"}
"""Nobody loses a Lease because the machine is busy: what is refused is to be the right alone."""
KINDS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
ACCOUNT = "soloist"
POD = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [{"name": "report", "image": "busybox"}]}  # fmt: skip
JOB = {"template": {"spec": {"template": {"spec": POD}}}}
TOKEN = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "backend", "key": "token"}}}
CA = {"caConfigMapRef": {"name": "kube-root-ca.crt", "key": "ca.crt"}}
DATABASE = {"secretName": "backend", "key": "uri"}


def granted() -> list[Raw]:
    """What of the chart's manifests is about the rights of the controllers."""
    return [each for each in documents(rendered(VALUES)) if each["kind"] in KINDS]


def rights_of(role: Raw) -> set[Right]:
    rules = role.get("rules", ())
    return {(g, r, v) for rule in rules for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}


def without(role: Raw, rights: Collection[Right]) -> Raw:
    """Whatever else a rule says, as the names that it is for, stays as it is."""
    rules = [
        {**rule, "apiGroups": [group], "resources": [resource], "verbs": verbs}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if (verbs := [verb for verb in rule["verbs"] if (group, resource, verb) not in rights])
    ]
    return {**role, "rules": rules}


@dataclass
class Stage:
    cluster: ControlPlane
    backend: Backend
    proxy: HttpsProxy
    wire: TcpProxy
    folder: Path
    home: Namespace = field(init=False)
    work: Namespace = field(init=False)
    crew: Crew = field(init=False)
    jobs: Crew = field(init=False)
    roles: list[Raw] = field(init=False)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _read: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home, self.work = (Namespace(name=name, cluster=self.cluster) for name in ("soloist", "work"))
        for namespace in (self.home, self.work):
            self.cluster.api().create("/api/v1/namespaces", {"metadata": {"name": namespace.name}})
        made = granted()
        self.roles = [each for each in made if "rules" in each]
        self.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(made))
        self.kubelet = Kubelet(self.home)
        self.crew = Crew(self.cluster, self.home, self.folder, env=dict(PATIENT))
        self.jobs = Crew(self.cluster, self.work, self.folder)

    def fill(self, uri: str) -> None:
        """Jobs of every kind, a queue, and what they read."""
        data = {"token": "s3cret-word", "uri": uri}
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.work.api.create(self.work.path("secrets"), {"metadata": {"name": "backend"}, "data": encoded})
        deliver = {"database": DATABASE, "deliver": {"external": {}}}
        head = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "emails"}}
        self.work.api.create(self.work.ours("workqueues"), {**head, "spec": deliver})
        url = self.backend.url
        self.job("sweep", http={"url": url("/sweep")}, successfulRunsHistoryLimit=0)
        self.job("token", http={"url": url("/token"), "headers": [TOKEN]})
        self.job("ca", http={"url": url("/ca").replace("http:", "https:"), "tls": CA})
        self.job("report", job=JOB, concurrencyPolicy="Allow")
        self.job("expire", sql={"databaseRef": DATABASE, "statement": "SELECT 1"})
        self.job("digest", enqueue={"workQueue": "emails"})

    def job(self, name: str, **spec: Any) -> None:
        self.jobs.job(name, schedule="@every 2s", timeoutSeconds=10, **spec)

    # Rights

    def take(self, rights: Collection[Right]) -> None:
        """Gone when this returns."""
        self._read = {name: len(member.log()) for name, member in self.crew.members.items()}
        self._put(rights)
        for right in rights:
            self.crew.wait(lambda right=right: not self.may(right), what=f"{right} is taken away")

    def give_back(self) -> None:
        self._put(())

    def _put(self, rights: Collection[Right]) -> None:
        for role in self.roles:
            kind, meta = role["kind"], role["metadata"]
            where = "clusterroles" if kind == "ClusterRole" else f"namespaces/{meta['namespace']}/roles"
            self.cluster.api().replace(f"{RBAC}/{where}/{meta['name']}", without(role, rights))

    def may(self, right: Right) -> bool:
        group, resource, verb = right
        name, _, part = resource.partition("/")
        home = resource in ("leases", "pods")
        named = {"leases": "soloist", "namespaces": "kube-system"}.get(resource, "") if verb != "create" else ""
        asked = {"group": group, "resource": name, "subresource": part, "verb": verb, "name": named}
        user = f"system:serviceaccount:soloist:{ACCOUNT}"
        return self.cluster.api().may(user, **asked, namespace="soloist" if home else "work")

    # Controllers

    def anew(self) -> None:
        """The leader goes, and who stood by, and two others come: their first requests are of now."""
        for name in list(self.crew.members):
            self.crew.members[name].terminate()
        ended(self.crew, *self.crew.members)
        self.crew.members.clear()
        self._read.clear()
        for _ in range(2):
            self._start(f"c{next(self._numbers)}")

    def _start(self, name: str) -> None:
        token = self.cluster.service_account_token("soloist", ACCOUNT)
        config = self.cluster.kubeconfig(
            self.folder / f"{name}.rights", user=ACCOUNT, token=token, server=self.wire.server
        )
        env = {"KUBECONFIG": str(config), "SOLOIST_NAMESPACE": "", "SOLOIST_MEASURE_QUEUES": "1"}
        self.crew.start(name, SOLOIST_HEALTH_PORT=str(free_ports(1)[0]), **env, **self.kubelet.pod(name))
        self.kubelet.running(name)

    def well(self) -> None:
        """Somebody leads, is ready, and launches."""
        for member in self.crew.members.values():
            self.crew.wait(partial(ready, member.health_port), what=f"{member.name} is ready", timeout=120)
        goes_on(self.backend, "/sweep", timeout=120)

    # What is seen

    def said(self) -> str:
        """What was logged since the rights were taken away."""
        return "".join(each.log()[self._read.get(name, 0) :] for name, each in self.crew.members.items())

    def ended_runs(self, job: str) -> list[Raw]:
        found = [run.get("status", {}) for run in self.jobs.runs(job)]
        return [status for status in found if "completionTime" in status]
