"""The FlowSchema of the chart on a real API server, which names with each answer what it went by: the controller's Lease calls, and only those."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from soloist.adapters.kube.lease import lease_watch_path
from tests.chart.rendering import of_kind, one, rendered
from tests.cluster.children import until
from tests.cluster.client import ApiClient
from tests.cluster.fixtures import Namespace

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
BY, LEVEL = "X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID"


class Release:
    """The accounts, the Lease's rights and the FlowSchema of a release in a namespace of its own."""

    def __init__(self, namespace: Namespace) -> None:
        self.home, self.cluster, self.name = namespace, namespace.cluster, f"soloist-{namespace.name}"
        text = rendered({"crds": {"enabled": False}}, release=self.name, namespace=namespace.name)
        names = (self.name, f"{self.name}-worker", f"{self.name}-leader", f"{self.name}-leases")
        found = of_kind(text, "ServiceAccount", "Role", "RoleBinding", "FlowSchema")
        self.documents = [each for each in found if each["metadata"]["name"] in names]
        self.args = one(text, "Deployment", f"{self.name}-controller")["spec"]["template"]["spec"]["containers"][0][
            "args"
        ]
        self.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(self.documents))

    def account(self, name: str = "") -> ApiClient:
        return self.cluster.api(token=self.cluster.service_account_token(self.home.name, name or self.name))

    def lease(self, namespace: str = "") -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{namespace or self.home.name}/leases"

    def uid(self, kind: str, name: str) -> str:
        return str(self.cluster.api().get(f"{FLOW}/{kind}/{name}")["metadata"]["uid"])

    def ours(self) -> str:
        return self.uid("flowschemas", f"{self.name}-leases")


def went_by(api: ApiClient, method: str, path: str, body: Raw | None = None) -> tuple[int, str, str]:
    """Status, FlowSchema and priority level."""
    status, headers, _ = api.exchange(method, path, json.dumps(body).encode() if body else None)
    return status, str(headers[BY]), str(headers[LEVEL])


@pytest.fixture
def release(namespace: Namespace) -> Iterator[Release]:
    made = Release(namespace)
    api, ours = made.account(), made.ours()
    until(
        lambda: went_by(api, "GET", f"{made.lease()}/{made.name}")[:2] == (404, ours),
        what="the API server goes by the FlowSchema, and lets the controller read its Lease, which is not there",
        timeout=120,
    )
    yield made
    made.cluster.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(made.documents))


def test_each_call_that_a_controller_makes_about_its_lease_has_the_level_of_leader_election(release: Release) -> None:
    api, path, name = release.account(), release.lease(), release.name
    assert f"--lease-name={name}" in release.args
    expected = (release.ours(), release.uid("prioritylevelconfigurations", "leader-election"))
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {"holderIdentity": "a"}}  # fmt: skip
    assert went_by(api, "POST", path, body) == (201, *expected)
    assert went_by(api, "GET", f"{path}/{name}") == (200, *expected)
    read = api.get(f"{path}/{name}")
    assert went_by(api, "PUT", f"{path}/{name}", {**read, "spec": {"holderIdentity": "b"}}) == (200, *expected)
    watch = lease_watch_path(release.home.name, name)
    assert went_by(api, "GET", f"{watch}&timeoutSeconds=1") == (200, *expected)


def test_what_else_is_asked_goes_by_what_every_account_goes_by(release: Release) -> None:
    api, home = release.account(), release.home
    rest = (
        (api, home.ours("scheduledjobs")),
        (api, home.path("pods", "a")),
        (api, home.path("events", group="events.k8s.io")),
        (api, release.lease("default")),
        (api, release.lease()),  # a list of them all, for which a controller does not ask
        (release.account(f"{release.name}-worker"), f"{release.lease()}/{release.name}"),
    )
    usual = release.uid("flowschemas", "service-accounts")
    assert {path: went_by(who, "GET", path)[1] for who, path in rest} == {path: usual for _, path in rest}
