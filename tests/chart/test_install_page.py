"""Each command of docs/install.md for helm and kubectl is run as it stands, in the order of the page, at a real API server without nodes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.rendering import ROOT, helm_binary
from tests.cluster.binaries import locate
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALL = (
    "helm install soloist charts/soloist --namespace soloist --create-namespace --set 'secrets.namespaces={default}'"
)
WITH_HELM = (
    "helm show values charts/soloist",
    INSTALL,
    "kubectl apply -f manifests/examples/http-every-30-seconds.yaml",
    "kubectl get sj,jr",
    "kubectl label namespace soloist pod-security.kubernetes.io/enforce=restricted",
    "kubectl scale deployment soloist-worker -n soloist --replicas=0",
    "helm upgrade soloist charts/soloist --namespace soloist --reset-then-reuse-values",
    "helm uninstall soloist --namespace soloist",
    "kubectl delete crd scheduledjobs.soloist.dev jobruns.soloist.dev workqueues.soloist.dev",
    "kubectl delete namespace soloist",
)
WITHOUT_HELM = (
    "kubectl apply --server-side -f manifests/install.yaml",
    "kubectl create rolebinding soloist-keys -n NAMESPACE --clusterrole=soloist-keys --serviceaccount=soloist:soloist",
)
WITHOUT_A_RELEASE = (
    "kubectl apply --server-side -f manifests/crds",
    "kubectl apply -f manifests/rbac/controller.yaml",
    "kubectl create token soloist -n soloist --duration=8h",
)
OF_A_POD = {
    "helm test soloist --namespace soloist --logs": "run on a node, by tests/e2e/scene_1_installed.py",
    "kubectl get --raw /api/v1/namespaces/soloist/pods/NAME:8080/proxy/readyz": "the page itself is asked for by every test that waits until one is ready",
}
"""What asks a Pod, of which there is none here, and what is known of it."""
SPOKEN_OF = {"helm test", "helm verify", "kubectl apply", "kubectl soloist", "kubectl create token"}


def commands() -> set[str]:
    """In blocks and in the text."""
    lines = [line for block in re.findall(r"^```\w*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE) for line in block.splitlines()]  # fmt: skip
    shown = {line.partition("  #")[0].strip() for line in lines}
    named = {found.strip() for found in re.findall(r"`([^`\n]+)`", PAGE)}
    return {each for each in shown | named if re.match("(helm|kubectl) ", each)} - SPOKEN_OF


def test_every_command_of_the_page_is_run_here_or_asks_a_pod() -> None:
    assert commands() == {*WITH_HELM, *WITHOUT_HELM, *WITHOUT_A_RELEASE, *OF_A_POD}
    assert INSTALL in README


class Terminal:
    """In the checkout, where helm, kubectl and a kubeconfig are found as a reader has them."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self.cluster = cluster
        path = f"{helm_binary().parent}:{locate('kubectl')['kubectl'].parent}:{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig(folder / "kubeconfig"))}

    def run(self, command: str) -> str:
        done = self.tried(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def tried(self, command: str) -> subprocess.CompletedProcess[str]:
        command = command.replace(" NAMESPACE ", " default ")
        return subprocess.run(
            ["bash", "-c", command], cwd=ROOT, env=self.env, capture_output=True, text=True, check=False, timeout=300
        )


@pytest.fixture
def terminal(cluster_binaries: None, tmp_path: Path) -> Iterator[Terminal]:
    """Without the kinds: they come with what is installed."""
    with ControlPlane() as cluster:
        yield Terminal(cluster, tmp_path)


def test_the_commands_of_the_page_do_what_it_says(terminal: Terminal) -> None:
    api = terminal.cluster.api()
    said = {}
    for command in WITH_HELM:
        if "manifests/examples" in command:  # kinds that were just made are served after a moment
            until(lambda: terminal.tried("kubectl get sj").returncode == 0, what="the kinds are served", timeout=120)
        said[command] = terminal.run(command)
        if command == INSTALL:
            workers = api.get("/apis/apps/v1/namespaces/soloist/deployments/soloist-worker")
    assert "replicas:" in said[WITH_HELM[0]]
    assert "scheduledjob.soloist.dev/api-version created" in said[WITH_HELM[2]]
    assert re.search(r"^\S*api-version ", said["kubectl get sj,jr"], re.MULTILINE)
    assert workers["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert api.find("/api/v1/namespaces/soloist") is None
    assert api.find("/apis/soloist.dev/v1alpha1/scheduledjobs") is None

    for command in WITHOUT_HELM:
        terminal.run(command)
    assert api.get("/apis/apps/v1/namespaces/soloist/deployments/soloist-controller")["spec"]["replicas"] == 2
    secret = {"group": "", "resource": "secrets", "verb": "get", "namespace": "default"}
    until(lambda: api.may("system:serviceaccount:soloist:soloist", **secret), what="it may read them", timeout=60)
    terminal.run("kubectl delete -f manifests/install.yaml")

    for command in WITHOUT_A_RELEASE:
        said[command] = terminal.run(command)
    assert said[WITHOUT_A_RELEASE[-1]].count(".") == 2
