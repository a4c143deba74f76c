"""Each combination of values that people may want is taken whole by the real API server, and its Pods by the restricted standard.

The server has the kinds of prometheus-operator as well, so what is rendered for that is held to its schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.chart.rendering import FULL, INSTALL, documents, of_kind, rendered
from tests.cluster.children import until
from tests.cluster.client import ApiError
from tests.cluster.control_plane import ControlPlane
from tests.cluster.foreign_kinds import PROMETHEUS, served

pytestmark = pytest.mark.cluster

SPACES = ("chart-release", "billing", "mail")
FULL_VALUES = yaml.safe_load(FULL.read_text(encoding="utf-8"))

COMBINATIONS: dict[str, dict[str, Any]] = {
    "the defaults": {"crds": {"enabled": True}},
    "all of it": {**FULL_VALUES, "crds": {"enabled": False}, "controller": {**FULL_VALUES["controller"], "priorityClassName": ""}},
    "one replica of each, nothing spread or guarded": {
        "controller": {"replicas": 1},
        "worker": {"replicas": 1, "autoscaling": {"enabled": False}},
        "networkPolicy": {"enabled": False},
        "flowSchema": {"enabled": False},
    },
    "no workers": {"worker": {"enabled": False}, "secrets": {"namespaces": ["billing"]}},
    "a fixed number of workers": {"worker": {"autoscaling": {"enabled": False}, "replicas": 3}},
    "workers that somebody else scales": {"worker": {"autoscaling": {"enabled": False}, "replicas": None}},
    "workers by CPU and by depth": {"worker": {"autoscaling": {"metrics": FULL_VALUES["worker"]["autoscaling"]["metrics"]}}},
    "named namespaces": {"namespaces": ["billing", "mail"]},
    "named namespaces and their Secrets": {"namespaces": ["billing", "mail"], "secrets": {"namespaces": ["mail"]}},
    "one namespace, and nothing for the whole cluster": {
        "namespaces": ["billing"],
        "actions": {"job": False, "database": False},
        "events": False,
        "crds": {"enabled": False},
        "rbac": {"aggregate": False},
        "flowSchema": {"enabled": False},
    },
    "Secrets of all namespaces": {"secrets": {"namespaces": ["*"]}},
    "Secrets of some namespaces, by name": {"secrets": {"namespaces": ["billing", "mail"], "names": ["backend-db"]}},
    "no rights made": {"rbac": {"create": False}},
    "accounts that exist": {
        "controller": {"serviceAccount": {"create": False, "name": "default"}},
        "worker": {"serviceAccount": {"create": False, "name": "default"}},
    },
    "CRDs by somebody else": {"crds": {"enabled": False}},
    "CRDs that go with the release": {"crds": {"keep": False}},
    "a migration": {"migration": {"existingSecret": "backend-db"}},
    "what may go out is named": {"networkPolicy": FULL_VALUES["networkPolicy"]},
    "external metrics": {"externalMetrics": {"enabled": True}},
    "external metrics of named namespaces": {"externalMetrics": {"enabled": True}, "namespaces": ["billing"]},
    "workers that say what it costs to delete them": {"worker": {"podDeletionCost": True}},
    "watched over": {"monitoring": FULL_VALUES["monitoring"]},
    "an image by its digest, no user named": {"image": FULL_VALUES["image"], "runAsUser": None},
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    for name in SPACES:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"} if name == SPACES[0] else {}
        control_plane.api().create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    # A dry run stores no account, and the test's Pod is admitted only if its own is there.
    accounts = f"/api/v1/namespaces/{SPACES[0]}/serviceaccounts"
    for name in ("soloist", "jobs-controller"):
        control_plane.api().create(accounts, {"metadata": {"name": name}})
    until(lambda: control_plane.api().find(f"{accounts}/default"), what="the namespace's own account", timeout=60)
    with served(control_plane, PROMETHEUS):
        yield control_plane
    for name in SPACES:
        control_plane.api().delete(f"/api/v1/namespaces/{name}")


def text_of(values: dict[str, Any]) -> str:
    """Without the CRDs, which have no values in them, unless the combination is about those."""
    return rendered({"crds": {"enabled": False}, **values}, release="soloist", namespace=SPACES[0])


@pytest.mark.parametrize("name", COMBINATIONS)
def test_the_server_takes_a_combination(name: str, cluster: ControlPlane) -> None:
    found = documents(text_of(COMBINATIONS[name]))
    dry_run = ("apply", "--dry-run=server", "--validate=strict", "--server-side", "--force-conflicts", "-f", "-")
    said = cluster.kubectl(*dry_run, stdin=yaml.safe_dump_all(found))
    assert len(said.splitlines()) == len(found)


def test_the_manifest_for_those_without_helm_is_applied_as_the_readme_says(cluster: ControlPlane) -> None:
    said = cluster.kubectl("apply", "--server-side", "-f", INSTALL)
    found = documents(INSTALL.read_text(encoding="utf-8"))
    assert len(said.splitlines()) == len(found)
    # The kinds are the other tests' as well.
    ours = [each for each in found if each["kind"] != "CustomResourceDefinition"]
    cluster.kubectl("delete", "--wait=false", "-f", "-", stdin=yaml.safe_dump_all(ours))


@pytest.mark.parametrize("name", ["the defaults", "all of it", "a migration", "an image by its digest, no user named"])
def test_the_pods_are_admitted_under_the_restricted_standard(name: str, cluster: ControlPlane) -> None:
    for owner in of_kind(text_of(COMBINATIONS[name]), "Deployment", "Job", "Pod"):
        spec = owner["spec"] if owner["kind"] == "Pod" else owner["spec"]["template"]["spec"]
        # The account that is named is not there in a dry run, and the standard does not look at it.
        pod = {"metadata": {"name": "p"}, "spec": {**spec, "serviceAccountName": "default"}}
        cluster.api().create(f"/api/v1/namespaces/{SPACES[0]}/pods?dryRun=All&fieldValidation=Strict", pod)


def test_among_what_the_server_takes_is_each_kind_of_prometheus_operator() -> None:
    kinds = {each["kind"] for each in documents(text_of(COMBINATIONS["watched over"]))}
    assert kinds >= {"ServiceMonitor", "PodMonitor", "PrometheusRule"}


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        ("ServiceMonitor", ("endpoints", 0)),
        ("PodMonitor", ("podMetricsEndpoints", 0)),
        ("PrometheusRule", ("groups", 0, "rules", 0)),
    ],
)
def test_the_server_would_refuse_a_field_that_a_kind_of_prometheus_operator_lacks(
    kind: str, at: tuple[Any, ...], cluster: ControlPlane
) -> None:
    (made,) = of_kind(text_of(COMBINATIONS["watched over"]), kind)
    part = made["spec"]
    for step in at:
        part = part[step]
    part["pathh"] = "/metrics"
    path = f"/apis/monitoring.coreos.com/v1/namespaces/{SPACES[0]}/{kind.lower()}s?dryRun=All&fieldValidation=Strict"
    with pytest.raises(ApiError, match=r"unknown field.*pathh"):
        cluster.api().create(path, made)


def test_without_cluster_wide_rights_nothing_cluster_wide_is_rendered() -> None:
    found = documents(text_of(COMBINATIONS["one namespace, and nothing for the whole cluster"]))
    assert {each["kind"] for each in found} & {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "FlowSchema",
    } == set()
    assert {each["metadata"]["namespace"] for each in found} == {SPACES[0], "billing"}
