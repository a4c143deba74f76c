"""manifests/rbac/elect.yaml: a sidecar with exactly these rights works, is refused nothing, and uses each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.elect_pods import EXAMPLES, Pod, holder
from tests.api.put_right import asked
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

MANIFESTS = Path(__file__).parents[2] / "manifests"
RIGHTS, EXAMPLE = MANIFESTS / "rbac" / "elect.yaml", MANIFESTS / "examples" / "elect.yaml"


def rights() -> set[str]:
    rules = [rule for doc in yaml.safe_load_all(RIGHTS.read_text()) for rule in doc.get("rules", ())]
    assert {resource for rule in rules for resource in rule["resources"]} == {"leases"}
    return {verb for rule in rules for verb in rule["verbs"]}


def requested(cluster: ControlPlane) -> Iterator[tuple[str, int]]:
    for event in cluster.audit_events():
        if event["user"]["username"] == "system:serviceaccount:default:backend" and event.get("objectRef"):
            yield event["verb"], event["responseStatus"]["code"]


def sidecar_of_the_example() -> dict[str, Any]:
    spec = yaml.safe_load(EXAMPLE.read_text())["spec"]["template"]["spec"]
    (sidecar,) = (each for each in spec["initContainers"] if each["restartPolicy"] == "Always")
    return dict(sidecar)


def test_a_sidecar_with_exactly_these_rights_works_and_uses_them_all(
    fresh_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    cluster = fresh_control_plane(audit=True)
    cluster.kubectl("apply", "-f", RIGHTS)
    token = cluster.service_account_token("default", "backend")
    config = cluster.kubeconfig(tmp_path / "kubeconfig", user="backend", token=token)
    arguments = tuple(word for word in sidecar_of_the_example()["args"][1:] if not word.startswith("http"))
    env = {"KUBECONFIG": str(config), "POD_NAMESPACE": "default", "POD_UID": "1", "SOLOIST_HEALTH": ""}
    pods = [Pod(name, tmp_path, tmp_path / "none.js", env, arguments=without_health(arguments)) for name in "ab"]
    try:
        for pod in pods:
            pod.sidecar.start()
        first = holder(pods)
        until(lambda: first.ask("/sweep/ticks?every=1s", "POST")[0] == 200, what="a slot is granted", timeout=120)
        assert first.ask("/release?for=60s", "POST")[0] == 202
        second = holder(pods, other_than=first)
        until(lambda: second.ask("/sweep/ticks?every=1s", "POST")[0] == 200, what="another is", timeout=120)
    finally:
        for pod in pods:
            pod.stop()  # a watch is on record once it has ended
    until(lambda: {verb for verb, _ in requested(cluster)} == rights(), what="each right was used", timeout=120)
    assert [verb for verb, status in requested(cluster) if status in (401, 403)] == []


def test_a_sidecar_that_lacks_one_of_them_says_which_and_leads_once_it_is_granted(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Each in a namespace of its own; the one that may not watch leads all the same, since it reads as well."""
    pods = {verb: Pod(verb, tmp_path, tmp_path / "none.js", lacking(verb, control_plane, tmp_path)) for verb in sorted(rights())}  # fmt: skip
    try:
        for pod in pods.values():
            pod.sidecar.start()
        for verb, pod in pods.items():
            said = "watch refused" if verb == "watch" else f'cannot {verb} resource "leases"'
            until(lambda said=said, pod=pod: said in log_of(pod), what=f"it says that it may not {verb}", timeout=120)
            leads = 200 if verb == "watch" else 409
            until(
                lambda leads=leads, pod=pod: pod.ask("/sweep")[0] == leads, what=f"{leads} without {verb}", timeout=60
            )
            if verb != "watch":
                until(lambda said=said, pod=pod: unready(pod, said), what=f"not ready without {verb}", timeout=120)
        for verb, pod in pods.items():
            control_plane.kubectl("-n", f"t-elect-without-{verb}", "apply", "-f", RIGHTS)
            until(lambda pod=pod: pod.ask("/sweep")[0] == 200, what=f"it leads, now that it may {verb}", timeout=120)
            until(lambda pod=pod: asked(pod.health)[0] == 200, what="it is ready", timeout=120)
    finally:
        for pod in pods.values():
            pod.stop()


def lacking(verb: str, cluster: ControlPlane, folder: Path) -> dict[str, str]:
    """What a sidecar needs to run as the account of the manifest with all its rights but that."""
    namespace = f"t-elect-without-{verb}"
    cluster.api().create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    found = list(yaml.safe_load_all(RIGHTS.read_text()))
    for rule in (rule for doc in found for rule in doc.get("rules", ())):
        rule["verbs"] = [each for each in rule["verbs"] if each != verb]
    for doc in found:
        doc.update({"rules": [rule for rule in doc["rules"] if rule["verbs"]]} if "rules" in doc else {})
    cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=yaml.safe_dump_all(found))
    token = cluster.service_account_token(namespace, "backend")
    config = cluster.kubeconfig(folder / f"{verb}.kubeconfig", user="backend", token=token)
    return {"KUBECONFIG": str(config), "POD_NAMESPACE": namespace, "SOLOIST_LEASE": "sweep", "SOLOIST_HEALTH": ""}


def unready(pod: Pod, says: str) -> bool:
    code, page = asked(pod.health)
    return code == 503 and says in page


def log_of(pod: Pod) -> str:
    return pod.sidecar.log.read_text(errors="replace").replace('\\"', '"') if pod.sidecar.log.exists() else ""


def without_health(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """No application runs here."""
    assert "--health" in arguments
    return tuple(word for word in arguments if word != "--health")


def test_the_values_of_the_page_are_those_of_the_example() -> None:
    (container,) = yaml.safe_load(EXAMPLES["values"])["initContainers"]
    assert {"name", "image", "restartPolicy", "args", "env"} == set(container)
    assert container.items() <= sidecar_of_the_example().items()


def test_the_example_names_what_the_rights_name() -> None:
    (lease,) = {
        name
        for doc in yaml.safe_load_all(RIGHTS.read_text())
        for rule in doc.get("rules", ())
        for name in rule.get("resourceNames", ())
    }
    assert sidecar_of_the_example()["args"][:3] == ["elect", "--lease", lease]
    assert yaml.safe_load(EXAMPLE.read_text())["spec"]["template"]["spec"]["serviceAccountName"] == "backend"
