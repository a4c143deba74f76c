"""manifests/rbac: a controller with exactly these rights works, is refused nothing, and uses each of them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.crew import Crew
from tests.api.tending import CALM, ready
from tests.bench.kubelet import Kubelet
from tests.cluster.backend import Backend
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import CONFLICT
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.cluster.https_proxy import HttpsProxy

pytestmark = pytest.mark.cluster

RIGHTS = Path(__file__).parents[2] / "manifests" / "rbac" / "controller.yaml"
ACCOUNT = "system:serviceaccount:soloist:soloist"
NOWHERE = "postgresql://soloist@127.0.0.1:1/backend"
Right = tuple[str, str, str]

POD = {"restartPolicy": "Never", "containers": [{"name": "report", "image": "busybox"}]}
JOB = {"template": {"spec": {"template": {"spec": POD}}}}
TOKEN = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "backend", "key": "token"}}}
CA = {"caConfigMapRef": {"name": "kube-root-ca.crt", "key": "ca.crt"}}


class Stage:
    """Controllers under the ServiceAccount of the manifest, and jobs in another namespace."""

    def __init__(self, cluster: ControlPlane, backend: Backend, proxy: HttpsProxy, folder: Path) -> None:
        self.cluster, self.backend, self.proxy, self.folder = cluster, backend, proxy, folder
        cluster.apply(RIGHTS)
        self.work = Namespace(name="work", cluster=cluster)
        cluster.api().create("/api/v1/namespaces", {"metadata": {"name": "work"}})
        binding = ("rolebinding", "soloist-keys", "--clusterrole=soloist-keys", "--serviceaccount=soloist:soloist")
        self.work.kubectl("create", *binding)
        secret = {"metadata": {"name": "backend"}, "data": {"token": encoded("s3cret-word"), "uri": encoded(NOWHERE)}}
        cluster.api().create(self.work.path("secrets"), secret)
        self.installation = Namespace(name="soloist", cluster=cluster)
        self.kubelet = Kubelet(self.installation)
        self.crew = Crew(cluster, self.installation, folder)
        self.jobs = Crew(cluster, self.work, folder)

    def start(self, name: str, *, server: str | None = None) -> None:
        token = self.cluster.service_account_token("soloist", "soloist")
        config = self.cluster.kubeconfig(self.folder / f"{name}.rights", user="soloist", token=token, server=server)
        port = free_ports(1)[0]
        env = {"KUBECONFIG": str(config), "SOLOIST_NAMESPACE": "", "SOLOIST_HEALTH_PORT": str(port)}
        self.crew.start(name, **CALM, **env, **self.kubelet.pod(name))
        self.kubelet.running(name)
        self.crew.wait(lambda: ready(port), what=f"{name} is ready", timeout=120)

    def job(self, name: str, **spec: Any) -> None:
        self.jobs.job(name, **{"schedule": "@every 1s", "timeoutSeconds": 10, **spec})

    def queue(self, name: str) -> None:
        spec = {"database": {"secretName": "backend", "key": "uri"}, "deliver": {"external": {}}}
        body = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": name}, "spec": spec}
        self.cluster.api().create(self.work.ours("workqueues"), body)

    def used(self) -> set[Right]:
        return {right for right, _ in self.requested()}

    def requested(self) -> Iterator[tuple[Right, int]]:
        """What the controllers asked for, with the answer's status."""
        for event in self.cluster.audit_events():
            about = event.get("objectRef") or {}
            if event["user"]["username"] == ACCOUNT and about.get("resource"):
                parts = [about["resource"], about.get("subresource")]
                right = (about.get("apiGroup", ""), "/".join(part for part in parts if part), event["verb"])
                yield right, event["responseStatus"]["code"]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def granted() -> set[Right]:
    rules = [rule for doc in yaml.safe_load_all(RIGHTS.read_text()) for rule in doc.get("rules", ())]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture
def stage(fresh_control_plane: Callable[..., ControlPlane], backend: Backend, tmp_path: Path) -> Iterator[Stage]:
    cluster = fresh_control_plane(audit=True)
    with HttpsProxy(target=cluster.port, authority=cluster.authority) as proxy:
        made = Stage(cluster, backend, proxy, tmp_path)
        yield made
        made.crew.stop()
    for member in made.crew.members.values():
        print(f"---- log of {member.name}\n{member.log()[-6000:]}")


def test_a_controller_with_exactly_these_rights_works_and_uses_them_all(stage: Stage) -> None:
    crew, jobs, backend = stage.crew, stage.jobs, stage.backend
    backend.rule("/slow", delay=1.5)
    stage.job("sweep", successfulRunsHistoryLimit=0, http={"url": backend.url("/sweep"), "headers": [TOKEN]})
    stage.job("slow", http={"url": backend.url("/slow")})
    stage.job("ca", http={"url": backend.url("/ca").replace("http:", "https:"), "tls": CA})
    stage.job("report", job=JOB)
    stage.job("expire", sql={"databaseRef": {"secretName": "backend", "key": "uri"}, "statement": "SELECT 1"})
    stage.job("digest", enqueue={"workQueue": "emails"})
    stage.queue("emails")
    stage.start("a", server=stage.proxy.server)
    received = backend.wait(3, path="/sweep", timeout=120)
    assert {seen.header("Authorization") for seen in received} == {"s3cret-word"}

    api, path = stage.cluster.api(), stage.work.path("jobs", group="batch")

    def stopped() -> bool:
        """Whoever collects garbage may be the first to delete a Job whose run is gone: then there is a next one."""
        for job in api.items(path):
            run = stage.work.ours("jobruns", job["metadata"]["name"])
            if not job["spec"].get("suspend") and api.find(run) is not None:
                api.delete(run)
        return ("batch", "jobs", "delete") in stage.used()

    crew.wait(stopped, what="a Job was stopped", timeout=180)
    crew.wait(lambda: [job for job in api.items(path) if not job["spec"].get("suspend")], what="the next Job started")
    for method, kind in (("PUT", "scheduledjobs"), ("PATCH", "jobruns")):
        forestalled = stage.proxy.on(method, rf"/{kind}/[^/]*/status$", CONFLICT, times=1)
        forestalled.wait()
        read = ("soloist.dev", kind, "get")
        crew.wait(lambda read=read: read in stage.used(), what=f"{kind} that others wrote to are read again")

    queue = stage.work.ours("workqueues", "emails")
    crew.wait(lambda: api.get(queue).get("status", {}).get("conditions"), what="the WorkQueue is looked after")

    published = "soloist.dev/holder-pod"
    crew.wait(lambda: published in (crew.lease() or {})["metadata"]["annotations"], what="the container is published")
    stage.start("b")
    crew.leader().kill_both()
    stage.kubelet.terminated("a")
    assert crew.leader(other_than="a").name == "b"
    backend.wait(len(backend.received("/sweep")) + 2, path="/sweep", timeout=120)
    crew.wait(lambda: jobs.status("sweep")["counters"]["succeeded"] >= 3, what="three are counted")

    crew.stop()  # a watch is on record once it has ended; those of b, which led as well, ended with it
    watches = {right for right in granted() if right[2] == "watch"}
    crew.wait(lambda: watches <= stage.used(), what="each watch was used")
    assert granted() - stage.used() == set()
    assert [right for right, status in stage.requested() if status in (401, 403)] == []
