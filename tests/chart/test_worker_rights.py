"""The rights of a worker, as the chart grants them: it uses each and is refused nothing, and without any one of them it says what it lacks.

One worker has all of them, and one for each of them lacks just that. All work at the same time, each in namespaces of its own,
where one queue delivers with a token from a Secret and the other by a CA from a ConfigMap.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from soloist.domain.deletion_cost import ANNOTATION
from tests.chart.rendering import of_kind, one, rendered
from tests.cluster.backend import Backend
from tests.cluster.children import Child, until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace, install_crds
from tests.postgres.server import Database, Postgres
from tests.queue.workers import Worker

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Raw = dict[str, Any]
Right = tuple[str, str, str]
SOLOIST = [sys.executable, "-c", "from soloist.shells.main import main; main()"]
OF_A_WORKER = ("ServiceAccount", "Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
LIST, WATCH = ("soloist.dev", "workqueues", "list"), ("soloist.dev", "workqueues", "watch")
SECRETS, CONFIG_MAPS = ("", "secrets", "get"), ("", "configmaps", "get")
COST = ("", "pods", "patch")
RIGHTS: tuple[Right, ...] = (LIST, WATCH, SECRETS, CONFIG_MAPS, COST)
PATIENCE = 120.0


@dataclass
class Release:
    """A release that lacks one right, or none. Only what is of its worker is applied, and one Pod that no node runs."""

    cluster: ControlPlane
    backend: Backend
    database: Database
    folder: Path
    name: str
    less: Right | None
    readiness: tuple[int, str] = (0, "")
    worker: Worker = field(init=False)

    @property
    def work(self) -> Namespace:
        return Namespace(name=f"{self.name}-work", cluster=self.cluster)

    @property
    def account(self) -> str:
        return f"{self.name}-worker"

    def start(self) -> None:
        api = self.cluster.api()
        for namespace in (self.name, self.work.name):
            api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        text = rendered(values(self.work.name), release=self.name, namespace=self.name)
        ours = [each for each in of_kind(text, *OF_A_WORKER) if each["metadata"]["name"].startswith(self.account)]
        granted = [without(each, self.less) if each["kind"] == "Role" else each for each in ours]
        self.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(granted))
        self._queues()
        spec = one(text, "Deployment", self.account)["spec"]["template"]["spec"]
        container = {"name": "worker", "image": "soloist:0.1.0"}
        pod = {"metadata": {"name": "own"}, "spec": {"serviceAccountName": self.account, "containers": [container]}}
        api.create(f"/api/v1/namespaces/{self.name}/pods", pod)
        bound = {"kind": "Pod", "apiVersion": "v1", "name": "own"}
        token = self.cluster.service_account_token(self.name, self.account, bound=bound)
        config = self.cluster.kubeconfig(self.folder / f"{self.name}.kubeconfig", user=self.account, token=token)
        env = {"KUBECONFIG": str(config), "POD_NAME": "own", "POD_NAMESPACE": self.name}
        local = {"SOLOIST_HEALTH_PORT": "0", "SOLOIST_HEALTH_ADDRESS": "127.0.0.1"}
        argv = [*SOLOIST, *spec["containers"][0]["args"]]
        self.worker = Worker(
            self.name, Child(self.name, argv, log=self.folder / f"{self.name}.log", env={**env, **local})
        )
        self.worker.process.start()

    def _queues(self) -> None:
        secret = {"uri": self.database.dsn(), "token": "s3cret-word"}
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in secret.items()}
        self.work.api.create(self.work.path("secrets"), {"metadata": {"name": "db"}, "data": encoded})
        authority = {"metadata": {"name": "ca"}, "data": {"ca.crt": self.cluster.ca.read_text()}}
        self.work.api.create(self.work.path("configmaps"), authority)
        token = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "db", "key": "token"}}}
        url = self.backend.url(f"/{self.name}")
        self._queue("token", {"url": url, "headers": [token]})
        # No request comes of it, since nobody speaks TLS there; what is asked for before is the CA.
        self._queue("ca", {"url": url.replace("http:", "https:"), "tls": {"caConfigMapRef": {"name": "ca", "key": "ca.crt"}}})  # fmt: skip

    def _queue(self, name: str, http: Raw) -> None:
        head = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": name}}
        spec = {"database": {"secretName": "db", "key": "uri"}, "deliver": {"http": http}}
        self.work.api.create(self.work.ours("workqueues"), {**head, "spec": spec})
        with self.database.connect() as connection:
            connection.execute("SELECT soloist.enqueue(%s, '{}')", (f"{self.work.name}/{name}",))

    # What came of it

    def received(self) -> int:
        return len(self.backend.received(f"/{self.name}"))

    def cost(self) -> str | None:
        found = self.cluster.api().get(f"/api/v1/namespaces/{self.name}/pods/own")["metadata"].get("annotations", {})
        return str(found[ANNOTATION]) if ANNOTATION in found else None

    def error_of_the_row(self) -> str:
        """Of the queue with the CA, as `soloist queue dead` and people read it."""
        tables = ("work_items", "dead_items")
        query = " UNION ALL ".join(
            f"SELECT last_error FROM soloist.{table} WHERE queue = %(queue)s" for table in tables
        )
        with self.database.connect() as connection:
            found = connection.execute(query, {"queue": f"{self.work.name}/ca"}).fetchall()
        return " ".join(str(row[0]) for row in found)

    def told(self) -> str:
        """What it said, in its log or, of a row, on the row."""
        log = self.worker.process.log
        return (log.read_text(errors="replace") if log.exists() else "") + self.error_of_the_row()

    def has_told(self) -> bool:
        return self.less is not None and lacks(self.less) in self.told().replace('\\"', '"')

    def does_the_rest(self) -> bool:
        """Whatever the right that it lacks is not needed for."""
        return (self.less in (LIST, SECRETS) or self.received() > 0) and (self.less == COST or self.cost() is not None)


def values(work: str) -> Raw:
    return {
        "namespaces": [work],
        "secrets": {"namespaces": [work]},
        "worker": {"podDeletionCost": True},
        "crds": {"enabled": False},
    }


def rights_of(role: Raw) -> set[Right]:
    rules = role["rules"]
    return {(g, r, v) for rule in rules for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}


def without(role: Raw, less: Right | None) -> Raw:
    kept = sorted(rights_of(role) - {less})
    return {**role, "rules": [{"apiGroups": [g], "resources": [r], "verbs": [v]} for g, r, v in kept]}


def lacks(right: Right) -> str:
    """The API server's words."""
    return f'cannot {right[2]} resource "{right[1]}"'


@dataclass
class Story:
    whole: Release
    lacking: dict[Right, Release]
    cluster: ControlPlane

    def requested(self) -> Iterator[tuple[Right, int]]:
        """What the worker with all rights asked for, with the answer's status."""
        user = f"system:serviceaccount:{self.whole.name}:{self.whole.account}"
        for event in self.cluster.audit_events():
            about = event.get("objectRef") or {}
            if event["user"]["username"] == user and about.get("resource"):
                parts = [about["resource"], about.get("subresource")]
                right = (about.get("apiGroup", ""), "/".join(part for part in parts if part), event["verb"])
                yield right, event["responseStatus"]["code"]

    def used(self) -> set[Right]:
        return {right for right, _ in self.requested()}


@pytest.fixture(scope="module")
def story(
    cluster_binaries: None, postgres: Postgres, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("rights")
    database = postgres.create_database("worker_rights", template=migrated_template)
    with ControlPlane(audit=True) as cluster, Backend(folder) as backend:
        install_crds(cluster)
        names = {right: f"soloist-{right[2]}-{right[1]}" for right in RIGHTS}
        whole = Release(cluster, backend, database, folder, "soloist-whole", None)
        lacking = {right: Release(cluster, backend, database, folder, name, right) for right, name in names.items()}
        started = []
        try:
            for release in (whole, *lacking.values()):
                release.start()
                started.append(release)
            made = Story(whole, lacking, cluster)
            ahead = set(RIGHTS) - {WATCH}  # a watch is on record once it has ended
            until(lambda: ahead <= made.used(), what="each right but the watch was used", timeout=PATIENCE)
            for release in started:
                until(release.does_the_rest, what=f"{release.name} does the rest", timeout=PATIENCE)
            for release in lacking.values():
                until(release.has_told, what=f"{release.name} says what it lacks", timeout=PATIENCE)
            for release in started:
                release.readiness = release.worker.ask("/readyz")
        finally:
            for release in started:
                release.worker.process.stop()
                print(f"---- log of {release.name}\n{release.worker.process.tail(30)}")
        yield made
    postgres.drop_database(database.name)


def test_the_rights_that_are_tried_are_those_that_the_chart_grants_to_a_worker() -> None:
    text = rendered(values("work"), release="soloist")
    roles = [each for each in of_kind(text, "Role") if each["metadata"]["name"].startswith("soloist-worker")]
    assert set().union(*map(rights_of, roles)) == set(RIGHTS)


def test_a_worker_with_all_of_them_uses_each_and_is_refused_nothing(story: Story) -> None:
    until(lambda: WATCH in story.used(), what="the watch was used", timeout=PATIENCE)
    assert story.used() == set(RIGHTS)
    assert [right for right, status in story.requested() if status in (401, 403)] == []
    assert {seen.header("Authorization") for seen in story.whole.backend.received("/soloist-whole")} == {"s3cret-word"}
    assert story.whole.readiness[0] == 200


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: f"{right[2]} {right[1]}")
def test_a_worker_that_lacks_one_says_so_and_does_what_it_can(right: Right, story: Story) -> None:
    release = story.lacking[right]
    assert release.has_told()
    assert release.does_the_rest()
    if right in (LIST, SECRETS):
        assert release.received() == 0, "it found a queue, or a database, without being let"
    if right == COST:
        assert release.cost() is None


def test_a_worker_is_not_ready_where_it_can_work_nothing_and_says_why(story: Story) -> None:
    for right, release in story.lacking.items():
        code, page = release.readiness
        assert code == (503 if right in (LIST, SECRETS) else 200), page
        assert (lacks(right) in page) == (right in (LIST, WATCH, SECRETS)), page
    assert "the first list is not through" in story.lacking[LIST].readiness[1]
