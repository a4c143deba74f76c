"""`helm uninstall` takes the Pods and the rights and leaves what people made; nothing is stuck on a finalizer."""

from __future__ import annotations

from tests.cluster.children import until
from tests.e2e.site import EVERY_SECOND, NAMESPACE, PATIENCE, QUEUE, RELEASE, Site

KINDS = ("scheduledjobs", "jobruns", "workqueues")


def test_what_people_made_outlives_the_release(site: Site) -> None:
    site.helm("uninstall", RELEASE, "--wait", "--timeout", "3m")
    api = site.node.api()
    # The Pod of `helm test` stays: Helm leaves what its hooks made.
    working = (
        f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%20in%20(controller,worker)"
    )
    until(lambda: not api.items(working), what="no Pod is left", timeout=PATIENCE)
    assert all(
        api.find(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}.soloist.dev") for kind in KINDS
    )
    assert api.find(site.ours("scheduledjobs", EVERY_SECOND))
    assert api.find(site.ours("workqueues", QUEUE))
    assert api.find(f"/api/v1/namespaces/{NAMESPACE}/secrets/backend-db")


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
