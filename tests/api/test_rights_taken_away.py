"""manifests/rbac: each verb that is taken away is gone, so none is granted twice and none is there beside the need.

Other tests (test_rbac.py, test_elect_rbac.py, test_external_metrics.py, and tests/chart/test_worker_rights.py) show on the audit log
that each of these is used and nothing else is asked for; so without it that request is refused.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
FILES = sorted((Path(__file__).parents[2] / "manifests" / "rbac").glob("*.yaml"))
GROUP = "/apis/rbac.authorization.k8s.io/v1"
KINDS = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


def documents(file: Path, space: str) -> list[Raw]:
    """Those of a manifest, with names and a namespace of this test's own; what is bound nowhere is bound in that."""
    text = re.sub(r"\b(soloist-[a-z-]+)", rf"{space}-\1", file.read_text(encoding="utf-8"))
    found = [each for each in yaml.safe_load_all(text) if each["kind"] in KINDS]
    for each in found:
        places = [] if each["kind"].startswith("Cluster") else [each["metadata"]]
        for place in (*places, *each.get("subjects", ())):
            if place.get("namespace") != "kube-system":
                place["namespace"] = space
    bound = {each["roleRef"]["name"] for each in found if "roleRef" in each}
    subjects = next(each["subjects"] for each in found if "subjects" in each)
    loose = [each for each in found if "rules" in each and each["metadata"]["name"] not in bound]
    return found + [bind(each["metadata"]["name"], subjects, space) for each in loose]


def bind(role: str, subjects: list[Raw], space: str) -> Raw:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": space},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    }


def without(role: Raw) -> Iterator[tuple[Raw, Raw]]:
    """The role without one of its verbs, and what asks for just that one: each of them in turn."""
    for number, rule in enumerate(role["rules"]):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    kept = {**rule, "verbs": [each for each in rule["verbs"] if each != verb]}
                    rules = [kept if each is rule else each for each in role["rules"]]
                    if not kept["verbs"]:
                        del rules[number]
                    name, _, part = resource.partition("/")
                    asked = {"group": group, "resource": name, "subresource": part, "verb": verb}
                    yield {**role, "rules": rules}, {**asked, "name": rule.get("resourceNames", [""])[0]}


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_a_verb_that_is_taken_away_is_granted_by_nothing_else(file: Path, control_plane: ControlPlane) -> None:
    api, space = control_plane.api(), f"t-{uuid.uuid4().hex[:8]}"
    api.create("/api/v1/namespaces", {"metadata": {"name": space}})
    found = documents(file, space)
    user = next(f"system:serviceaccount:{space}:{each['name']}" for doc in found for each in doc.get("subjects", ()))
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(found))
    count = 0
    for role in (each for each in found if "rules" in each):
        namespace = role["metadata"].get("namespace", space)
        path = f"{GROUP}/clusterroles" if role["kind"] == "ClusterRole" else f"{GROUP}/namespaces/{namespace}/roles"
        path = f"{path}/{role['metadata']['name']}"
        for less, asked in without(role):
            answer = partial(api.may, user, **asked, namespace=namespace)
            until(answer, what=f"it is granted: {asked}", timeout=90)
            api.replace(path, less)
            until(lambda answer=answer: not answer(), what=f"it is granted no more: {asked}", timeout=90)
            api.replace(path, role)
            count += 1
    assert count
    outside = [each for each in found if each["metadata"].get("namespace", "kube-system") == "kube-system"]
    if outside:
        control_plane.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(outside))
    api.delete(f"/api/v1/namespaces/{space}")
