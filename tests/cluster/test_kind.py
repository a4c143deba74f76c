"""What is done with a cluster of kind's, up to where Docker is needed: kind and docker are stood in for, the API server is a real one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cluster import kind
from tests.cluster.binaries import locate
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kind import Kind
from tests.cluster.versions import Unavailable

NETWORK = [{"IPAM": {"Config": [{"Subnet": "fc00::/64"}, {"Subnet": "172.18.0.0/16", "Gateway": "172.18.0.1"}]}}]


def stand_in(folder: Path, name: str, script: str) -> None:
    """A program that writes down how it was called."""
    (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {folder}/called\n{script}\n')
    (folder / name).chmod(0o755)


@pytest.mark.cluster
def test_a_cluster_is_made_entered_as_an_administrator_and_deleted(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = control_plane.kubeconfig(tmp_path / "kind.kubeconfig")
    stand_in(tmp_path, "kind", f'[ "$1 $2" != "create cluster" ] || cp {config} "$6"')
    stand_in(tmp_path, "docker", f"echo '{json.dumps(NETWORK)}'")
    (tmp_path / "kubectl").symlink_to(locate("kubectl")["kubectl"])
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert kind.is_possible()
    with Kind("t") as cluster:
        assert (cluster.address, cluster.networks) == ("172.18.0.1", ("172.18.0.0/16",))
        assert cluster.api().get("/api/v1/namespaces/kube-system")["metadata"]["name"] == "kube-system"
        assert "kube-system" in cluster.kubectl("get", "namespaces")
        assert cluster.tokens["admin"] not in control_plane.tokens.values()
    called = (tmp_path / "called").read_text().splitlines()
    assert [line for line in called if line.startswith("kind create cluster --name t --kubeconfig")]
    assert called[-1] == "kind delete cluster --name t"
    control_plane.kubectl("-n", "kube-system", "delete", "serviceaccount", kind.ACCOUNT)
    control_plane.kubectl("delete", "clusterrolebinding", kind.ACCOUNT)


def test_a_program_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not kind.is_possible()
    with pytest.raises(Unavailable, match=r"kind is not on PATH: install it, see https://kind\.sigs\.k8s\.io"):
        Kind()


@pytest.mark.parametrize("docker", ["exit 1", ""], ids=["that does not answer", "without kind"])
def test_without_a_docker_that_answers_another_node_is_made(
    docker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "docker", docker)
    for name in ("kind", "kubectl") if docker else ("kubectl",):
        stand_in(tmp_path, name, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not kind.is_possible()
