"""A release on a real API server: installed, upgraded, uninstalled and installed again, with what people made left alone by all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from soloist import __version__
from tests.chart.going_away import ALL_ON, SAID_TAKEN, TAKEN, kinds, of_the_release
from tests.chart.rendering import CHART, helm
from tests.cluster.children import until
from tests.cluster.client import ApiError
from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

HOME = "soloist"
JOBS = "/apis/soloist.dev/v1alpha1/namespaces/default/scheduledjobs"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{HOME}/deployments"
JOB = {
    "apiVersion": "soloist.dev/v1alpha1",
    "kind": "ScheduledJob",
    "metadata": {"name": "hello"},
    "spec": {"schedule": "@hourly", "http": {"url": "http://backend/"}},
}


@pytest.fixture
def cluster(cluster_binaries: None) -> Iterator[ControlPlane]:
    """Without the CRDs: they come with the release."""
    with ControlPlane() as made:
        yield made


def test_what_people_made_outlives_upgrade_and_uninstallation(cluster: ControlPlane, tmp_path: Path) -> None:
    config = cluster.kubeconfig(tmp_path / "kubeconfig")

    def run(*arguments: str | Path) -> str:
        done = helm(*arguments, "--namespace", HOME, "--kubeconfig", config)
        assert done.returncode == 0, done.stderr
        return done.stdout

    api = cluster.api()
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({**ALL_ON, "controller": {"replicas": 3}}))
    run("install", HOME, CHART, "--create-namespace", "--values", values)
    until(lambda: created(cluster), what="the kinds that came with the release are served", timeout=120)
    assert images(cluster) == {f"soloist:{__version__}"}

    run("upgrade", HOME, CHART, "--reset-then-reuse-values", "--set", "image.tag=another")
    assert images(cluster) == {"soloist:another"}
    assert api.get(f"{DEPLOYMENTS}/soloist-controller")["spec"]["replicas"] == 3

    before = api.get(f"{JOBS}/hello")
    assert kinds(of_the_release(cluster.kubectl)) == TAKEN.keys()
    run("uninstall", HOME)
    assert api.get(f"{JOBS}/hello") == before
    assert "finalizers" not in before["metadata"]
    until(lambda: not of_the_release(cluster.kubectl), what="nothing of the release is left but the kinds", timeout=120)

    run("install", HOME, CHART)
    assert api.get(f"{JOBS}/hello") == before


def created(cluster: ControlPlane) -> Any:
    try:
        return cluster.api().create(JOBS, JOB)
    except ApiError as refused:
        if refused.status in (404, 429):
            return None
        raise


def images(cluster: ControlPlane) -> set[str]:
    pods = [each["spec"]["template"]["spec"] for each in cluster.api().items(DEPLOYMENTS)]
    return {container["image"] for pod in pods for container in pod["containers"]}


def test_the_page_names_whatever_is_taken() -> None:
    assert [words for words in TAKEN.values() if words not in SAID_TAKEN] == []
