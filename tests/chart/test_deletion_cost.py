"""worker.podDeletionCost: what the admission policy lets a worker do to Pods on a real API server, and that a worker does just that."""

from __future__ import annotations

import base64
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from soloist.adapters.postgres.migrate import migrate
from soloist.domain.deletion_cost import ANNOTATION
from tests.chart.rendering import ROOT, documents, of_kind, one, rendered
from tests.cluster.backend import Backend
from tests.cluster.children import Child, until
from tests.cluster.client import ApiClient, ApiError
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.postgres.server import Database

Raw = dict[str, Any]
SOLOIST = [sys.executable, "-c", "from soloist.shells.main import main; main()"]
RIGHTS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
POLICY = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
VALUES = {"crds": {"enabled": False}, "rbac": {"aggregate": False}, "worker": {"podDeletionCost": True}}
NOT_OWN, NOT_THAT = "may change its own Pod only", "and nothing else"
PATIENCE = 60.0
SLOW = 30.0
"""Seconds that a row is in hand: longer than what may pass between the first cost that is written and the next."""


def of_the_cost(text: str) -> list[Raw]:
    return [each for each in documents(text) if each["metadata"]["name"].endswith("-deletion-cost")]


def test_nothing_of_it_is_there_until_it_is_wanted() -> None:
    assert of_the_cost(rendered()) == []
    assert of_the_cost(rendered({"worker": {"podDeletionCost": True, "enabled": False}})) == []
    assert "pod-deletion-cost" not in str(of_kind(rendered(), "Deployment"))
    assert {each["kind"] for each in of_the_cost(rendered(VALUES))} == {"Role", "RoleBinding", *POLICY}


def test_the_rights_and_the_policy_are_those_of_the_manifest() -> None:
    ours = documents((ROOT / "manifests" / "rbac" / "deletion-cost.yaml").read_text(encoding="utf-8"))

    def bare(found: list[Raw]) -> list[Raw]:
        return [
            {part: value for part, value in each.items() if part != "metadata"}
            | {"named": (each["metadata"]["name"], each["metadata"].get("namespace"))}
            for each in found
        ]

    kinds = [each["kind"] for each in ours]
    assert kinds == [*POLICY, "Role", "RoleBinding"], "kubectl applies them in this order: never the right alone"
    assert sorted(bare(of_the_cost(rendered(VALUES))), key=str) == sorted(bare(ours), key=str)


def test_that_helm_makes_the_right_before_the_policy_is_said_for_as_long_as_it_does() -> None:
    """It renders in the order in which it installs; an order of kinds cannot be given to it, and hooks are not of a release."""
    kinds = [each["kind"] for each in documents(rendered(VALUES))]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    first = kinds.index("Role") < kinds.index("ValidatingAdmissionPolicy")
    assert ("**Helm makes the right before the policy**" in page) == first


def test_without_rights_of_the_chart_the_policy_is_there_all_the_same() -> None:
    text = rendered({**VALUES, "rbac": {"create": False}})
    assert {each["kind"] for each in of_the_cost(text)} == set(POLICY)


class Release:
    """A release's worker account with its policy, in a namespace with Pods that no node runs."""

    def __init__(self, cluster: ControlPlane, release: str) -> None:
        self.cluster, self.api = cluster, cluster.api()
        self.home = Namespace(name=release, cluster=cluster)
        self.text = rendered(VALUES, release=release, namespace=release)
        self.worker = one(self.text, "Deployment", f"{release}-worker")["spec"]["template"]["spec"]
        self.api.create("/api/v1/namespaces", {"metadata": {"name": release}})
        found = of_kind(self.text, *RIGHTS, *POLICY)
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(found))
        self.own, self.other = self.pod("own"), self.pod("other")

    def pod(self, name: str) -> Raw:
        container = {"name": "worker", "image": "soloist:0.1.0"}
        about = {"name": name, "labels": {"app": "worker"}, "annotations": {"example.com/note": "kept"}}
        spec = {"serviceAccountName": self.worker["serviceAccountName"], "containers": [container]}
        made: Raw = self.api.create(self.home.path("pods"), {"metadata": about, "spec": spec})
        return made

    def token(self, pod: Raw | None) -> str:
        """As the kubelet asks for one; without a Pod, as `kubectl create token` does."""
        about = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"]} if pod else None
        return self.cluster.service_account_token(self.home.name, self.worker["serviceAccountName"], bound=about)

    def as_worker(self, pod: Raw | None) -> ApiClient:
        return self.cluster.api(token=self.token(pod))

    def path(self, pod: Raw) -> str:
        return self.home.path("pods", pod["metadata"]["name"])

    def annotations(self, pod: Raw) -> dict[str, str]:
        found: dict[str, str] = self.api.get(self.path(pod))["metadata"].get("annotations", {})
        return found

    def refused(self, by: ApiClient, pod: Raw, patch: Raw) -> str:
        """What is said of it; empty where it would be taken."""
        try:
            by.patch(f"{self.path(pod)}?dryRun=All", patch)
        except ApiError as error:
            return error.message if error.status == 403 else f"not refused, but {error}"
        return ""


@pytest.fixture(scope="module")
def release(control_plane: ControlPlane) -> Iterator[Release]:
    made = Release(control_plane, f"soloist-{uuid.uuid4().hex[:8]}")
    worker = made.as_worker(made.own)
    until(
        lambda: made.refused(worker, made.own, {"metadata": {"labels": {"app": "x"}}}),
        what="the policy is in force",
        timeout=PATIENCE,
    )
    yield made
    control_plane.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(of_kind(made.text, *POLICY)))
    made.api.delete(f"/api/v1/namespaces/{made.home.name}")


def cost(value: str | None) -> Raw:
    return {"metadata": {"annotations": {ANNOTATION: value}}}


@pytest.mark.cluster
def test_a_worker_may_write_its_cost_change_it_and_take_it_away(release: Release) -> None:
    worker = release.as_worker(release.own)
    for value in ("3", "0"):
        worker.patch(release.path(release.own), cost(value))
        assert release.annotations(release.own) == {"example.com/note": "kept", ANNOTATION: value}
    worker.patch(release.path(release.own), cost(None))
    assert release.annotations(release.own) == {"example.com/note": "kept"}


@pytest.mark.cluster
@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"annotations": {"example.com/note": "changed"}}},
        {"metadata": {"annotations": {"example.com/note": None}}},
        {"metadata": {"annotations": None}},
        {"metadata": {"annotations": {ANNOTATION: "1", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}},
        {"metadata": {"labels": {"app": "backend"}}},
        {"metadata": {"labels": None}},
        {"metadata": {"finalizers": ["example.com/stays"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"containers": [{"name": "worker", "image": "evil:1"}]}},
    ],
    ids=str,
)
def test_a_worker_may_change_nothing_else_of_its_pod(release: Release, patch: Raw) -> None:
    assert NOT_THAT in release.refused(release.as_worker(release.own), release.own, patch)


@pytest.mark.cluster
def test_a_worker_may_not_touch_another_pod_nor_any_with_a_token_that_is_of_none(release: Release) -> None:
    assert NOT_OWN in release.refused(release.as_worker(release.own), release.other, cost("9"))
    assert NOT_OWN in release.refused(release.as_worker(None), release.own, cost("9"))


@pytest.mark.cluster
def test_a_worker_may_not_read_make_or_delete_pods(release: Release) -> None:
    worker, path = release.as_worker(release.own), release.path(release.own)
    tries = (
        ("GET", path),
        ("DELETE", path),
        ("POST", release.home.path("pods")),
        ("PATCH", f"{path}/status"),
        ("POST", f"{path}/eviction"),
    )
    for method, where in tries:
        with pytest.raises(ApiError) as refused:
            worker.request(
                method, where, {}, "application/merge-patch+json" if method == "PATCH" else "application/json"
            )
        assert refused.value.status == 403, method


@pytest.mark.cluster
def test_whoever_else_may_change_pods_is_not_hindered(release: Release) -> None:
    assert release.refused(release.api, release.other, {"metadata": {"labels": {"app": "backend"}}}) == ""


@pytest.mark.cluster
def test_a_worker_says_what_it_has_in_hand_and_when_it_has_nothing_more(
    release: Release, backend: Backend, database: Database, tmp_path: Path
) -> None:
    migrate(database.dsn())
    api, home = release.api, release.home
    home.kubectl("create", "rolebinding", "keys", f"--clusterrole={home.name}-worker-keys", f"--serviceaccount={home.name}:{release.worker['serviceAccountName']}")  # fmt: skip
    uri = {"uri": base64.b64encode(database.dsn().encode()).decode()}
    api.create(home.path("secrets"), {"metadata": {"name": "db"}, "data": uri})
    spec = {
        "database": {"secretName": "db", "key": "uri"},
        "deliver": {"http": {"url": backend.url("/slow"), "timeoutSeconds": 45}},
    }
    head = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "slow"}}
    api.create(home.ours("workqueues"), {**head, "spec": spec})
    backend.rule("/slow", delay=SLOW)
    with database.connect() as connection:
        connection.execute("SELECT soloist.enqueue(%s, '{}') FROM generate_series(1, 3)", (f"{home.name}/slow",))
    config = release.cluster.kubeconfig(tmp_path / "config", user="worker", token=release.token(release.own))
    env = {"KUBECONFIG": str(config), "POD_NAME": "own", "POD_NAMESPACE": home.name, "SOLOIST_HEALTH_PORT": "0"}
    args = release.worker["containers"][0]["args"]
    assert "--pod-deletion-cost" in args
    child = Child("worker", [*SOLOIST, *args], log=tmp_path / "worker.log", env=env)
    child.start()
    try:
        for wanted, what in (("2", "three rows are in hand"), ("0", "nothing is in hand any more")):
            until(
                lambda wanted=wanted: release.annotations(release.own).get(ANNOTATION) == wanted,
                what=f"the Pod says that {what}",
                timeout=PATIENCE,
                needs=[child],
            )
    finally:
        child.stop()
        print(child.log.read_text(errors="replace")[-4000:])
    assert "deletion cost not written" not in child.log.read_text(errors="replace")
