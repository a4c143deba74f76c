"""pytest fixtures around a real control plane. Without binaries they fail, and say what to install.

A skip must be asked for by SOLOIST_WITHOUT_CLUSTER=1: a cluster that is missing by accident is no green run.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.backend import Backend
from tests.cluster.binaries import locate, to_build
from tests.cluster.children import until
from tests.cluster.client import ApiClient, ApiError
from tests.cluster.control_plane import ControlPlane
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.proxy import TcpProxy
from tests.cluster.versions import Unavailable

CRDS = Path(__file__).parents[2] / "manifests" / "crds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace of one test's own, with paths into it and a kubeconfig for it."""

    name: str
    cluster: ControlPlane

    @property
    def api(self) -> ApiClient:
        return self.cluster.api()

    def path(self, resource: str, name: str = "", *, group: str = "", version: str = "v1") -> str:
        """`path("jobs", group="batch")` is /apis/batch/v1/namespaces/NAME/jobs."""
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return f"{root}/namespaces/{self.name}/{resource}" + (f"/{name}" if name else "")

    def ours(self, resource: str, name: str = "") -> str:
        """The path of scheduledjobs and jobruns."""
        return self.path(resource, name, group="soloist.dev", version="v1alpha1")

    def kubectl(self, *arguments: str | Path, stdin: str | None = None, user: str = "admin") -> str:
        return self.cluster.kubectl("-n", self.name, *arguments, stdin=stdin, user=user)


@pytest.fixture(scope="session")
def cluster_binaries(request: pytest.FixtureRequest) -> None:
    if os.environ.get("SOLOIST_WITHOUT_CLUSTER") == "1":
        pytest.skip("SOLOIST_WITHOUT_CLUSTER=1: no API server wanted")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        # A build takes minutes; its progress is for the person who waits.
        with capture.global_and_fixture_disabled() if capture and to_build() else nullcontext():
            locate()
    except Unavailable as reason:
        pytest.fail(str(reason), pytrace=False)


@pytest.fixture(scope="session")
def control_plane(cluster_binaries: None) -> Iterator[ControlPlane]:
    """One cluster for all tests, with the CRDs of manifests/crds. What stops or floods it takes a `fresh_control_plane`."""
    with ControlPlane() as cluster:
        install_crds(cluster)
        yield cluster


@pytest.fixture
def fresh_control_plane(cluster_binaries: None) -> Iterator[Callable[..., ControlPlane]]:
    """Makes clusters of the test's own: `fresh_control_plane(audit=True)`; 4 s each."""
    made: list[ControlPlane] = []

    def make(**options: Any) -> ControlPlane:
        made.append(ControlPlane(**options))
        cluster = made[-1].up()
        install_crds(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.down()


def install_crds(cluster: ControlPlane) -> None:
    if any(CRDS.glob("*.yaml")):
        cluster.apply(CRDS)
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", "-f", CRDS)
        for resource in ("scheduledjobs", "jobruns", "workqueues"):
            path = f"/apis/soloist.dev/v1alpha1/{resource}?limit=1"
            when_served(lambda path=path: cluster.api().get(path))


def when_served(ask: Callable[[], Any]) -> Any:
    """What it gives. A kind that is new or has just changed has its storage made anew; who comes in between is told 404, 429 or 503."""

    def asked() -> tuple[Any] | None:
        try:
            return (ask(),)
        except ApiError as refused:
            if refused.status in (404, 429, 503):
                return None
            raise

    return until(asked, what="the kind is served", timeout=120)[0]


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[Namespace]:
    made = Namespace(name=f"t-{uuid.uuid4().hex[:10]}", cluster=control_plane)
    control_plane.api().create("/api/v1/namespaces", {"metadata": {"name": made.name}})
    yield made
    if control_plane.api_server.alive():
        made.api.delete(f"/api/v1/namespaces/{made.name}")


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    with Backend(tmp_path / "backend") as receiving:
        yield receiving


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[TcpProxy]:
    """TCP, in front of the API server: `control_plane.kubeconfig(path, server=proxy.server)`."""
    with TcpProxy(control_plane.port) as between:
        yield between


@pytest.fixture
def https_proxy(control_plane: ControlPlane) -> Iterator[HttpsProxy]:
    with HttpsProxy(target=control_plane.port, authority=control_plane.authority) as between:
        yield between
