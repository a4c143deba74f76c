"""What docs/install.md says of people with the usual ClusterRoles, on a real API server: they may do that to the three kinds, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest
import yaml

from tests.chart.rendering import ROOT, of_kind, rendered
from tests.cluster.children import until
from tests.cluster.client import ApiClient
from tests.cluster.fixtures import Namespace

Raw = dict[str, Any]
LABEL = "rbac.authorization.k8s.io/aggregate-to-"
SEE = {"get", "list", "watch"}
CHANGE = {"create", "update", "patch", "delete", "deletecollection"}
MAY = {"view": SEE, "edit": SEE | CHANGE, "admin": SEE | CHANGE}
KINDS = ("scheduledjobs", "jobruns", "workqueues")
PARTS = ("", "status")
NO_KIND = "others"
"""Which only somebody with a right to all of the group would be let see."""
VALUES = {"crds": {"enabled": False}}
LATE = "late"


def aggregated(values: Raw, release: str = "soloist", namespace: str = "soloist") -> list[Raw]:
    found = of_kind(rendered(values, release=release, namespace=namespace), "ClusterRole")
    return [each for each in found if any(key.startswith(LABEL) for key in each["metadata"]["labels"])]


def test_it_is_a_value_whether_people_get_their_rights_so() -> None:
    assert len(aggregated(VALUES)) == 2
    assert aggregated({**VALUES, "rbac": {"aggregate": False}}) == []


def test_the_page_says_what_each_of_them_may_do() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    said = "`view` may get, list and watch the three kinds; `edit` and `admin` may also create, update, patch and delete them, one or all"
    assert said in " ".join(page.split())


def may(api: ApiClient, role: str, namespace: str, resource: str, verb: str, part: str = "") -> bool:
    asked = {"group": "soloist.dev", "resource": resource, "subresource": part, "verb": verb, "namespace": namespace}
    return api.may(f"somebody-with-{role}", ["system:authenticated"], **asked)


@pytest.fixture
def bound(namespace: Namespace) -> Iterator[Namespace]:
    """For each of them there is somebody who has it in this namespace, and the API server knows what of ours it has."""
    cluster, release = namespace.cluster, f"soloist-{namespace.name}"
    labels = {f"{LABEL}{role}": "true" for role in MAY}
    rules = [{"apiGroups": ["soloist.dev"], "resources": [LATE], "verbs": ["get"]}]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    # It is made last, so whoever has it has the others, of which a role is made anew as a whole.
    last = {**head, "metadata": {"name": f"{release}-{LATE}", "labels": labels}, "rules": rules}
    roles = [*aggregated(VALUES, release, namespace.name), last]
    for each in roles:
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(each))
    for role in MAY:
        namespace.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--user=somebody-with-{role}")
    for role in MAY:
        has = partial(may, cluster.api(), role, namespace.name, LATE, "get")
        until(has, what=f"{role} has got what is aggregated to it", timeout=120)
    yield namespace
    cluster.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(roles))


@pytest.mark.cluster
def test_people_with_a_role_may_do_what_the_page_says_in_its_namespace_and_no_more(bound: Namespace) -> None:
    api = bound.cluster.api()
    for role, verbs in MAY.items():
        asked = set(product((*KINDS, NO_KIND), PARTS, SEE | CHANGE))
        granted = {each for each in asked if may(api, role, bound.name, each[0], each[2], each[1])}
        assert granted == set(product(KINDS, [""], verbs)), role
        assert [kind for kind in KINDS for verb in ("get", "create") if may(api, role, "default", kind, verb)] == []
