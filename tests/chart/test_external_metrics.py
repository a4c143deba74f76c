"""The chart's external metrics: their rights, their certificate, and that it lasts from one upgrade to the next until it is old."""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.rendering import CHART, ROOT, documents, helm, of_kind, one, rendered
from tests.cluster.binaries import openssl
from tests.cluster.control_plane import ControlPlane

Raw = dict[str, Any]
HOME, SERVICE = "soloist", "soloist-external-metrics"
ON = {"externalMetrics": {"enabled": True}}
SECRET = f"/api/v1/namespaces/{HOME}/secrets/{SERVICE}"
API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io"
RIGHTS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def decoded(text: str) -> str:
    return base64.b64decode(text).decode()


def verifies(folder: Path, bundle: str, certificate: str) -> bool:
    """For the name by which the API server calls the Service."""
    for name, text in (("ca.crt", bundle), ("tls.crt", certificate)):
        (folder / name).write_text(text)
    named = ("-verify_hostname", f"{SERVICE}.{HOME}.svc", "-CAfile", folder / "ca.crt", folder / "tls.crt")
    return subprocess.run([openssl(), "verify", *named], capture_output=True, check=False).returncode == 0


def test_nothing_of_them_is_there_until_they_are_wanted() -> None:
    text = rendered()
    assert "external" not in "".join(
        str(each) for each in documents(text) if each["kind"] != "CustomResourceDefinition"
    )
    more = {(each["kind"], each["metadata"]["name"]) for each in documents(rendered(ON))}
    assert more - {(each["kind"], each["metadata"]["name"]) for each in documents(text)} == {
        ("Secret", SERVICE),
        ("Service", SERVICE),
        ("APIService", "v1beta1.external.metrics.k8s.io"),
        *((kind, SERVICE) for kind in RIGHTS),
    }


def test_the_rights_are_those_of_the_manifest() -> None:
    """A test of tests/api proves that each of them is used and no other is asked for."""
    ours = documents((ROOT / "manifests" / "rbac" / "external-metrics.yaml").read_text(encoding="utf-8"))
    kept = ("rules", "roleRef", "subjects")

    def bare(found: list[Raw]) -> dict[tuple[str, str], Raw]:
        return {
            (each["kind"], each["metadata"].get("namespace", "")): {part: each[part] for part in kept if part in each}
            for each in found
        }

    theirs = [each for each in of_kind(rendered(ON), *RIGHTS) if each["metadata"]["name"] == SERVICE]
    assert bare(theirs) == bare(ours)


def test_the_pods_show_a_certificate_that_the_api_server_believes(tmp_path: Path) -> None:
    text = rendered(ON)
    secret = one(text, "Secret", SERVICE)["data"]
    bundle = decoded(one(text, "APIService", "v1beta1.external.metrics.k8s.io")["spec"]["caBundle"])
    assert verifies(tmp_path, bundle, decoded(secret["tls.crt"]))
    spec = one(text, "Deployment", "soloist-controller")["spec"]["template"]["spec"]
    (volume,) = [each for each in spec["volumes"] if each["name"] == "external-metrics"]
    assert volume["secret"]["secretName"] == SERVICE
    assert {item["key"] for item in volume["secret"]["items"]} == {"tls.crt", "tls.key"}
    assert "--external-metrics" in spec["containers"][0]["args"]
    assert "PRIVATE KEY" not in decoded(secret["ca.crt"])


def test_somebody_elses_certificate_is_taken(tmp_path: Path) -> None:
    given = {"existingSecret": "depths", "annotations": {"cert-manager.io/inject-ca-from": "soloist/depths"}}
    text = rendered({"externalMetrics": {"enabled": True, **given}})
    assert [each for each in of_kind(text, "Secret") if each["metadata"]["name"] == SERVICE] == []
    service = one(text, "APIService", "v1beta1.external.metrics.k8s.io")
    assert service["metadata"]["annotations"] == given["annotations"]
    assert "caBundle" not in service["spec"]


@pytest.fixture
def cluster(cluster_binaries: None) -> Iterator[ControlPlane]:
    """Without the CRDs: they come with the release."""
    with ControlPlane() as made:
        yield made


@pytest.mark.cluster
def test_the_certificate_is_kept_until_it_is_old_and_the_old_one_is_believed_for_one_more(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    config, api = cluster.kubeconfig(tmp_path / "kubeconfig"), cluster.api()

    def run(*arguments: str | Path) -> None:
        done = helm(*arguments, "--namespace", HOME, "--kubeconfig", config)
        assert done.returncode == 0, done.stderr

    def bundle() -> str:
        return decoded(api.get(API_SERVICE)["spec"]["caBundle"])

    run("install", HOME, CHART, "--create-namespace", "--set", "externalMetrics.enabled=true")
    first = api.get(SECRET)["data"]
    run("upgrade", HOME, CHART, "--reset-then-reuse-values")
    assert api.get(SECRET)["data"] == first
    old = base64.b64encode(str(int(time.time()) - 91 * 86400).encode()).decode()
    for _ in range(2):
        before = api.get(SECRET)["data"]
        api.patch(SECRET, {"data": {"made": old}})
        run("upgrade", HOME, CHART, "--reset-then-reuse-values", "--force-conflicts")
        after = api.get(SECRET)["data"]
        assert after["tls.crt"] != before["tls.crt"]
        assert verifies(tmp_path, bundle(), decoded(after["tls.crt"]))
        assert verifies(tmp_path, bundle(), decoded(before["tls.crt"])), "a Pod may show it still"
    assert not verifies(tmp_path, bundle(), decoded(first["tls.crt"]))
