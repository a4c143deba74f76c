"""`helm uninstall` takes what the chart made and leaves what docs/install.md says; nothing is stuck on a finalizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.chart.going_away import SAID_LEFT, TAKEN, kinds, of_the_release
from tests.cluster.children import until
from tests.e2e.site import EVERY_SECOND, NAMESPACE, PATIENCE, QUEUE, RELEASE, Site

KINDS = ("scheduledjobs", "jobruns", "workqueues")
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def at(path: str) -> Callable[[Site], Any]:
    return lambda site: site.node.api().find(path)


def named(resource: str, name: str) -> Callable[[Site], Any]:
    return lambda site: site.node.api().find(site.ours(resource, name))


def started_jobs(site: Site) -> list[Any]:
    found = site.node.api().items(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
    return [job for job in found for owner in job["metadata"].get("ownerReferences", ()) if owner["kind"] == "JobRun"]


def schema(site: Site) -> bool:
    with site.postgres.connect() as connection:
        return connection.execute("SELECT to_regclass('soloist.work_items') IS NOT NULL").fetchone() == (True,)


LEFT: list[tuple[str, Callable[[Site], Any]]] = [
    *[("the CRDs", at(f"{CRD}/{kind}.soloist.dev")) for kind in KINDS],
    ("every ScheduledJob", named("scheduledjobs", EVERY_SECOND)),
    ("JobRun", lambda site: site.runs(EVERY_SECOND)),
    ("WorkQueue", named("workqueues", QUEUE)),
    ("the Jobs that were started", started_jobs),
    ("the Lease", at(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{RELEASE}")),
    ("the schema `soloist` in the databases", schema),
    ("the Pod of `helm test`", at(f"/api/v1/namespaces/{NAMESPACE}/pods/{RELEASE}-test")),
    ("Secrets", at(f"/api/v1/namespaces/{NAMESPACE}/secrets/backend-db")),
    ("the namespace", at(f"/api/v1/namespaces/{NAMESPACE}")),
]
"""The words of the page, and what is there where they are true."""


@pytest.fixture(scope="module")
def taken(site: Site) -> set[str]:
    """What the release had, once it is uninstalled. Before that it was tested, and a Job was started."""
    site.make_a_job_of_the_image("left-behind", "@every 5s")
    site.helm("test", RELEASE, "--timeout", "3m")
    had = of_the_release(site.node.kubectl)
    site.helm("uninstall", RELEASE, "--wait", "--timeout", "3m")
    working = (
        f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%20in%20(controller,worker)"
    )
    until(lambda: not site.node.api().items(working), what="no Pod is left", timeout=PATIENCE)
    return had


def test_it_takes_something_of_every_kind_that_the_page_names_and_leaves_nothing_of_them(
    site: Site, taken: set[str]
) -> None:
    assert kinds(taken) == TAKEN.keys()
    until(lambda: not of_the_release(site.node.kubectl), what="nothing of the release is left", timeout=PATIENCE)
    records = f"/api/v1/namespaces/{NAMESPACE}/secrets?labelSelector=owner%3Dhelm"
    assert site.node.api().items(records) == []


@pytest.mark.parametrize(("words", "there"), LEFT, ids=[words for words, _ in LEFT])
def test_what_the_page_says_is_left_is_left(
    words: str, there: Callable[[Site], Any], site: Site, taken: set[str]
) -> None:
    assert taken
    assert there(site)
    assert words in SAID_LEFT


def test_no_right_is_left(site: Site) -> None:
    api = site.node.api()
    for kind in ("clusterroles", "clusterrolebindings"):
        named = [each["metadata"]["name"] for each in api.items(f"/apis/rbac.authorization.k8s.io/v1/{kind}")]
        assert not [name for name in named if "soloist" in name]
    for kind in ("roles", "rolebindings"):
        assert not api.items(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/{kind}")


def test_without_a_controller_everything_can_be_deleted(site: Site) -> None:
    for kind in KINDS:
        assert not [each for each in site.node.api().items(site.ours(kind)) if each["metadata"].get("finalizers")]
    site.node.kubectl("delete", "namespace", NAMESPACE, "--timeout=120s")
    site.node.kubectl("delete", "crd", *(f"{kind}.soloist.dev" for kind in KINDS), "--timeout=60s")
