"""The example of `soloist elect`, as it stands in manifests/: one of three applications sweeps each slot, and another goes on."""

from __future__ import annotations

from collections import Counter

from tests.cluster.children import until
from tests.e2e.site import PATIENCE, ROOT, Site

SPACE, LEASE = "backend", "sweep"


def swept(site: Site) -> Counter[str]:
    """How many slots each Pod that is there has got."""
    started = [pod for pod in pods_of(site) if pod["status"].get("containerStatuses", [{}])[0].get("started")]
    pods = [pod["metadata"]["name"] for pod in started]
    logs = {pod: site.node.kubectl("-n", SPACE, "logs", pod, "-c", "backend") for pod in pods}
    return Counter({pod: log.splitlines().count("swept") for pod, log in logs.items()})


def pods_of(site: Site) -> list[dict]:  # type: ignore[type-arg]
    found = site.node.api().items(f"/api/v1/namespaces/{SPACE}/pods?labelSelector=app%3Dbackend")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def all_ready(site: Site) -> bool:
    status = site.node.api().get(f"/apis/apps/v1/namespaces/{SPACE}/deployments/backend").get("status", {})
    return bool(status.get("readyReplicas", 0) == status.get("replicas") == 3)


def test_three_applications_are_ready_and_one_of_them_sweeps(site: Site) -> None:
    site.node.load_busybox()
    site.node.tag(site.image.tag, "docker.io/library/soloist:0.1.0")
    site.node.kubectl("create", "namespace", SPACE)
    site.node.kubectl("apply", "-n", SPACE, "-f", ROOT / "manifests" / "rbac" / "elect.yaml")
    site.node.kubectl("apply", "-n", SPACE, "-f", ROOT / "manifests" / "examples" / "elect.yaml")
    until(lambda: all_ready(site), what="three Pods are ready", timeout=PATIENCE)
    until(lambda: swept(site).total() >= 2, what="two slots are swept", timeout=PATIENCE)
    assert len(+swept(site)) == 1


def test_another_goes_on_when_the_one_that_sweeps_is_deleted(site: Site) -> None:
    (before,) = +swept(site)
    site.node.kubectl("-n", SPACE, "delete", "pod", before, "--wait=false")
    until(lambda: (+swept(site)).keys() - {before}, what="another sweeps", timeout=PATIENCE)
    until(lambda: all_ready(site), what="three Pods are ready again", timeout=PATIENCE)
    lease = site.node.api().get(f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases/{LEASE}")
    assert lease["spec"]["holderIdentity"].split("_")[0] in {pod["metadata"]["name"] for pod in pods_of(site)}
    assert "soloist.dev/slots" in lease["metadata"]["annotations"]
    site.tell("the example of `soloist elect`: one of three swept, and another after it was deleted")
    site.node.kubectl("delete", "namespace", SPACE, "--wait=false")
