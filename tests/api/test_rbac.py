"""A controller with exactly the rights that it is given works, is refused nothing, and uses each of them where it has them.

They are those of manifests/rbac, for all namespaces, and those that the chart grants where one namespace is served.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.crew import Crew
from tests.api.going_on import told
from tests.api.tending import CALM, ready
from tests.bench.kubelet import Kubelet
from tests.chart.rendering import documents, rendered
from tests.cluster.backend import Backend
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import CONFLICT, UNAVAILABLE
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.cluster.https_proxy import HttpsProxy
from tests.postgres.server import Database

pytestmark = pytest.mark.cluster

RIGHTS = Path(__file__).parents[2] / "manifests" / "rbac" / "controller.yaml"
ACCOUNT = "system:serviceaccount:soloist:soloist"
Right = tuple[str, str, str, str]
"""The namespace that it is for, or none if for all of them; group, resource and verb."""
Raw = dict[str, Any]

POD = {"restartPolicy": "Never", "containers": [{"name": "report", "image": "busybox"}]}
JOB = {"template": {"spec": {"template": {"spec": POD}}}}
TOKEN = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "backend", "key": "token"}}}
CA = {"caConfigMapRef": {"name": "kube-root-ca.crt", "key": "ca.crt"}}


def everywhere() -> list[Raw]:
    """The manifest, and the right to read keys bound in the namespace of the jobs, as it says."""
    found = documents(RIGHTS.read_text(encoding="utf-8"))
    (leader,) = [each for each in found if each["kind"] == "RoleBinding"]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "soloist-keys"}
    return [*found, {**leader, "metadata": {"name": "soloist-keys", "namespace": "work"}, "roleRef": role}]


def in_one_namespace() -> list[Raw]:
    values = {
        "namespaces": ["work"],
        "secrets": {"namespaces": ["work"]},
        "worker": {"enabled": False},
        "crds": {"enabled": False},
        "rbac": {"aggregate": False},
    }
    found = [each for each in documents(rendered(values)) if each["kind"] in ("ServiceAccount", "Role", "RoleBinding")]
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "soloist"}}, *found]


INSTALLATIONS: dict[str, tuple[Callable[[], list[Raw]], str, set[Right]]] = {
    "the manifest, for all namespaces": (everywhere, "", set()),
    # Of what is told beside the Lease one process tells the same twice only where it outlives it twice within minutes.
    "the chart, for one": (in_one_namespace, "work", {("soloist", "events.k8s.io", "events", "patch")}),
}
"""What is applied, the namespaces served, and the rights that are not tried."""


class Stage:
    """Controllers under the ServiceAccount of an installation, and jobs in another namespace."""

    def __init__(
        self, installation: str, cluster: ControlPlane, backend: Backend, proxy: HttpsProxy, uri: str, folder: Path
    ) -> None:
        self.cluster, self.backend, self.proxy, self.folder = cluster, backend, proxy, folder
        make, self.serves, self.untried = INSTALLATIONS[installation]
        self.work = Namespace(name="work", cluster=cluster)
        cluster.api().create("/api/v1/namespaces", {"metadata": {"name": "work"}})
        applied = make()
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(applied))
        self.granted = granted(applied)
        secret = {"metadata": {"name": "backend"}, "data": {"token": encoded("s3cret-word"), "uri": encoded(uri)}}
        cluster.api().create(self.work.path("secrets"), secret)
        self.installation = Namespace(name="soloist", cluster=cluster)
        self.kubelet = Kubelet(self.installation)
        self.crew = Crew(cluster, self.installation, folder)
        self.jobs = Crew(cluster, self.work, folder)

    def start(self, name: str, *, server: str | None = None) -> None:
        token = self.cluster.service_account_token("soloist", "soloist")
        config = self.cluster.kubeconfig(self.folder / f"{name}.rights", user="soloist", token=token, server=server)
        port = free_ports(1)[0]
        env = {"KUBECONFIG": str(config), "SOLOIST_NAMESPACE": self.serves, "SOLOIST_HEALTH_PORT": str(port)}
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

    def has_used(self, *right: str) -> bool:
        return any(used[1:] == right for used in self.used())

    def requested(self) -> Iterator[tuple[Right, int]]:
        """What the controllers asked for, with the answer's status."""
        for event in self.cluster.audit_events():
            about = event.get("objectRef") or {}
            if event["user"]["username"] == ACCOUNT and about.get("resource"):
                parts = [about["resource"], about.get("subresource")]
                right = (about.get("apiGroup", ""), "/".join(part for part in parts if part), event["verb"])
                here, anywhere = (about.get("namespace", ""), *right), ("", *right)
                yield here if here in self.granted else anywhere, event["responseStatus"]["code"]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def granted(applied: list[Raw]) -> set[Right]:
    return {
        (each["metadata"].get("namespace", ""), group, resource, verb)
        for each in applied
        for rule in each.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def succeeded(jobs: Crew, name: str) -> int:
    return int(jobs.status(name).get("counters", {}).get("succeeded", 0))


@pytest.fixture(params=INSTALLATIONS)
def stage(
    request: pytest.FixtureRequest,
    fresh_control_plane: Callable[..., ControlPlane],
    backend: Backend,
    own_queue_database: Database,
    tmp_path: Path,
) -> Iterator[Stage]:
    cluster = fresh_control_plane(audit=True)
    with HttpsProxy(target=cluster.port, authority=cluster.authority) as proxy:
        made = Stage(request.param, cluster, backend, proxy, own_queue_database.dsn(), tmp_path)
        yield made
        made.crew.stop()
    for member in made.crew.members.values():
        print(f"---- log of {member.name}\n{member.log()[-6000:]}")


def test_a_controller_with_exactly_these_rights_works_and_uses_them_all(
    stage: Stage, own_queue_database: Database
) -> None:
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

    jobs_are_stopped(stage)
    for method, kind in (("PUT", "scheduledjobs"), ("PATCH", "jobruns")):
        forestalled = stage.proxy.on(method, rf"/{kind}/[^/]*/status$", CONFLICT, times=1)
        forestalled.wait()
        read = partial(stage.has_used, "soloist.dev", kind, "get")
        crew.wait(read, what=f"{kind} that others wrote to are read again")

    published = "soloist.dev/holder-pod"
    crew.wait(lambda: published in (crew.lease() or {})["metadata"]["annotations"], what="the container is published")
    stage.start("b", server=stage.proxy.server)
    crew.leader().kill_both()
    stage.kubelet.terminated("a")
    assert crew.leader(other_than="a").name == "b"
    backend.wait(len(backend.received("/sweep")) + 2, path="/sweep", timeout=120)
    crew.wait(lambda: succeeded(jobs, "sweep") >= 3, what="three are counted")
    trimmed = partial(stage.has_used, "soloist.dev", "jobruns", "delete")
    crew.wait(trimmed, what="runs that are not to be kept are deleted", timeout=180)

    the_database_is_used(stage, own_queue_database)
    unreachable = stage.proxy.on("*", "/leases", UNAVAILABLE)
    crew.wait(lambda: told(stage.installation, "LeaseUnreachable"), what="an Event beside the Lease says what is wrong")
    unreachable.remove()

    crew.stop()  # a watch is on record once it has ended; those of b, which led as well, ended with it
    watches = {right for right in stage.granted if right[3] == "watch"}
    crew.wait(lambda: watches <= stage.used(), what="each watch was used")
    assert stage.granted - stage.used() - stage.untried == set()
    assert [right for right, status in stage.requested() if status in (401, 403)] == []


def jobs_are_stopped(stage: Stage) -> None:
    """And the next is started."""
    api, path, crew = stage.cluster.api(), stage.work.path("jobs", group="batch"), stage.crew

    def stopped() -> bool:
        """Whoever collects garbage may be the first to delete a Job whose run is gone: then there is a next one."""
        for job in api.items(path):
            run = stage.work.ours("jobruns", job["metadata"]["name"])
            if not job["spec"].get("suspend") and api.find(run) is not None:
                api.delete(run)
        return stage.has_used("batch", "jobs", "delete")

    crew.wait(stopped, what="a Job was stopped", timeout=180)
    crew.wait(lambda: [job for job in api.items(path) if not job["spec"].get("suspend")], what="the next Job started")


def the_database_is_used(stage: Stage, database: Database) -> None:
    api, queue = stage.cluster.api(), stage.work.ours("workqueues", "emails")
    stage.crew.wait(lambda: api.get(queue).get("status", {}).get("conditions"), what="the WorkQueue is looked after")
    for name in ("expire", "digest"):
        stage.crew.wait(partial(succeeded, stage.jobs, name), what=f"{name} succeeded")
    with database.connect() as connection:
        rows = connection.execute("SELECT count(*) > 0 FROM soloist.work_items WHERE queue = 'work/emails'")
        assert rows.fetchone() == (True,)
