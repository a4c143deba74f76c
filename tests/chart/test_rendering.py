"""What the chart renders: by default and in full as it is on record, with the rights and the kinds of manifests/ and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from soloist import __version__
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.spec import Spec, parse_spec
from tests.chart.rendering import (
    CHART,
    CRDS,
    GOLDEN,
    INSTALL,
    ROOT,
    documents,
    golden,
    helm,
    install_manifest,
    of_kind,
    one,
    rendered,
)

WRITE = "out of date: make chart"
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
METADATA = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
Raw = dict[str, Any]


def test_the_manifest_for_those_without_helm_is_what_the_chart_renders_by_default() -> None:
    assert INSTALL.read_text(encoding="utf-8") == install_manifest(), WRITE


def test_a_full_values_file_renders_as_it_did() -> None:
    assert GOLDEN.read_text(encoding="utf-8") == golden(), WRITE


def test_helm_finds_nothing_to_complain_of() -> None:
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("crd", sorted(CRDS.glob("*.yaml")), ids=lambda path: path.name)
def test_the_chart_has_the_crds_of_the_manifests(crd: Path) -> None:
    assert (CHART / "files" / "crds" / crd.name).read_text() == crd.read_text(), WRITE
    ours = yaml.safe_load(crd.read_text(encoding="utf-8"))
    installed = one(rendered(), "CustomResourceDefinition", ours["metadata"]["name"])
    assert installed["spec"] == ours["spec"]


def test_the_crds_and_all_that_is_of_their_kind_outlive_the_release_unless_that_is_not_wanted() -> None:
    def kept(text: str) -> list[Any]:
        found = of_kind(text, "CustomResourceDefinition")
        return [crd["metadata"].get("annotations", {}).get("helm.sh/resource-policy") for crd in found]

    assert kept(rendered()) == ["keep"] * 3
    assert kept(rendered({"crds": {"keep": False}})) == [None] * 3
    assert kept(rendered({"crds": {"enabled": False}})) == []


def test_the_rights_are_those_of_the_manifests() -> None:
    """Name for name: tests/api/test_rbac.py and test_worker_rights.py prove that each of them is used and no other is asked for."""
    ours = [
        document
        for file in ("controller.yaml", "worker.yaml")
        for document in documents((ROOT / "manifests" / "rbac" / file).read_text(encoding="utf-8"))
        if document["kind"] in RIGHTS
    ]
    assert bare(of_kind(rendered({"rbac": {"aggregate": False}}), *RIGHTS)) == bare(ours)


def bare(found: list[Raw]) -> dict[tuple[str, str], Raw]:
    """By kind and name, without what a release adds."""
    kept = ("rules", "roleRef", "subjects")
    return {
        (each["kind"], each["metadata"]["name"]): {
            "namespace": each["metadata"].get("namespace"),
            **{part: each[part] for part in kept if part in each},
        }
        for each in found
    }


def test_in_named_namespaces_nothing_is_granted_for_the_whole_cluster() -> None:
    values = {"namespaces": ["billing", "mail"], "secrets": {"namespaces": ["mail"]}, "rbac": {"aggregate": False}}
    text = rendered(values)
    assert of_kind(text, "ClusterRole", "ClusterRoleBinding") == []
    assert any("events" in rule["resources"] for rule in one(text, "Role", "soloist-leader")["rules"]), (
        "about the Lease"
    )
    places = {(each["metadata"]["name"], each["metadata"]["namespace"]) for each in of_kind(text, "Role")}
    assert places == {
        *((f"soloist-{part}", namespace) for part in ("controller", "worker") for namespace in ("billing", "mail")),
        *((f"soloist-{part}", "mail") for part in ("keys", "worker-keys")),
        ("soloist-leader", "soloist"),
        ("soloist-cluster-uid", "kube-system"),
    }
    for name in ("controller", "worker"):
        (container,) = one(text, "Deployment", f"soloist-{name}")["spec"]["template"]["spec"]["containers"]
        assert {"--namespace=billing", "--namespace=mail"} <= set(container["args"])


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        ({"actions": {"job": False}}, {"jobs"}),
        ({"actions": {"database": False}}, {"namespaces"}),
        ({"events": False}, {"events"}),
        ({"actions": {"job": False, "database": False}, "events": False}, {"jobs", "namespaces", "events"}),
    ],
)
def test_a_value_takes_away_its_rights_and_no_others(values: Raw, gone: set[str]) -> None:
    def granted(text: str) -> set[str]:
        found = of_kind(text, "ClusterRole", "Role")
        return {resource for role in found for rule in role["rules"] for resource in rule["resources"]}

    assert granted(rendered()) - granted(rendered(values)) == gone


def test_every_right_is_explained_with_what_takes_it_away() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    table = page.split("## What the Pods may do")[1].split("\n## ")[0]
    rules = [rule for role in of_kind(rendered(), "ClusterRole", "Role") for rule in role["rules"]]
    ours = [rule for rule in rules if "deletecollection" not in rule["verbs"]]
    assert {resource for rule in ours for resource in rule["resources"] if f"`{resource}`" not in table} == set()


def test_workers_that_somebody_else_scales_have_no_number() -> None:
    text = rendered({"worker": {"autoscaling": {"enabled": False}, "replicas": None}})
    assert "replicas" not in one(text, "Deployment", "soloist-worker")["spec"]
    assert of_kind(text, "HorizontalPodAutoscaler") == []
    assert one(text, "PodDisruptionBudget", "soloist-worker")


def test_no_secret_may_be_read_until_its_namespace_is_named() -> None:
    def bound(text: str) -> set[tuple[str, str, str]]:
        found = of_kind(text, "RoleBinding", "ClusterRoleBinding")
        keys = [each for each in found if each["roleRef"]["name"].endswith("-keys")]
        return {(each["kind"], each["metadata"].get("namespace", "*"), each["subjects"][0]["name"]) for each in keys}

    assert bound(rendered()) == set()
    assert bound(rendered({"secrets": {"namespaces": ["mail"]}})) == {
        ("RoleBinding", "mail", "soloist"),
        ("RoleBinding", "mail", "soloist-worker"),
    }
    assert bound(rendered({"secrets": {"namespaces": ["*"]}})) == {
        ("ClusterRoleBinding", "*", "soloist"),
        ("ClusterRoleBinding", "*", "soloist-worker"),
    }
    narrowed = rendered({"secrets": {"names": ["backend-db"]}})
    assert one(narrowed, "ClusterRole", "soloist-keys")["rules"][0]["resourceNames"] == ["backend-db"]


def test_pods_get_longer_to_end_than_what_they_are_to_finish() -> None:
    """Http actions and deliveries that take as long as they may by default are not cut off."""
    job = parse_spec({"schedule": "@hourly", "http": {"url": "http://backend/"}})
    assert isinstance(job, Spec)
    queue = parse_queue(
        {"database": {"secretName": "db", "key": "uri"}, "deliver": {"http": {"url": "http://backend/"}}}
    )
    assert isinstance(queue, QueueSpec)
    for name, longest in {"controller": job.timeout, "worker": queue.deliver.timeout}.items():
        pod = one(rendered(), "Deployment", f"soloist-{name}")["spec"]["template"]["spec"]
        (grace,) = [float(arg.partition("=")[2]) for arg in pod["containers"][0]["args"] if arg.startswith("--grace=")]
        assert longest.total_seconds() < grace < pod["terminationGracePeriodSeconds"]


def test_a_release_of_another_name_shares_nothing_with_the_first_but_the_crds() -> None:
    def names(release: str, namespace: str) -> set[tuple[str, str, str]]:
        found = documents(rendered({"crds": {"enabled": False}}, release=release, namespace=namespace))
        return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in found}

    assert names("soloist", "soloist") & names("second", "soloist") == set()


def test_the_chart_is_of_this_version() -> None:
    assert (METADATA["version"], METADATA["appVersion"]) == (__version__, __version__)


def test_what_artifacthub_shows_can_be_applied() -> None:
    annotations = METADATA["annotations"]
    kinds = {crd["kind"]: crd["name"] for crd in yaml.safe_load(annotations["artifacthub.io/crds"])}
    installed = {
        crd["spec"]["names"]["kind"]: crd["metadata"]["name"] for crd in of_kind(rendered(), "CustomResourceDefinition")
    }
    assert kinds == installed
    examples = {each["kind"]: each["spec"] for each in yaml.safe_load(annotations["artifacthub.io/crdsExamples"])}
    assert examples.keys() == kinds.keys()
    assert isinstance(parse_spec(examples["ScheduledJob"]), Spec)
    assert isinstance(parse_queue(examples["WorkQueue"]), QueueSpec)
