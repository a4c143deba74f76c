"""A worker whose WorkQueues are on a real API server: what it may ask there, what it follows, and how small it stays."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.children import until
from tests.cluster.fixtures import Namespace
from tests.cluster.proxy import TcpProxy
from tests.queue.test_worker_trouble import MODULES
from tests.queue.workers import Crew, Worker

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
RIGHTS = Path(__file__).parents[2] / "manifests" / "rbac" / "worker.yaml"


class Stage:
    """A namespace with WorkQueues, and workers under the ServiceAccount of the manifest."""

    def __init__(self, crew: Crew, namespace: Namespace) -> None:
        self.crew, self.namespace = crew, namespace
        self.cluster = namespace.cluster
        self.cluster.apply(RIGHTS)
        keys = ("--clusterrole=soloist-worker-keys", "--serviceaccount=soloist:soloist-worker")
        namespace.kubectl("create", "rolebinding", "keys", *keys)
        self.secret(crew.database.dsn())

    def secret(self, dsn: str) -> None:
        body = {"metadata": {"name": "db"}, "data": {"uri": base64.b64encode(dsn.encode()).decode()}}
        path = self.namespace.path("secrets", "db")
        if self.namespace.api.find(path) is None:
            self.namespace.api.create(self.namespace.path("secrets"), body)
        else:
            self.namespace.api.patch(path, body)

    def queue(self, name: str = "q", **spec: Any) -> dict[str, Any]:
        http = {"url": self.crew.backend.url(f"/{name}"), "timeoutSeconds": 5}
        body = {
            "apiVersion": "soloist.dev/v1alpha1",
            "kind": "WorkQueue",
            "metadata": {"name": name},
            "spec": {"database": {"secretName": "db", "key": "uri"}, "deliver": {"http": http}, **spec},
        }
        made: dict[str, Any] = self.namespace.api.create(self.namespace.ours("workqueues"), body)
        return made

    def env(self, name: str, server: str | None = None) -> dict[str, str]:
        token = self.cluster.service_account_token("soloist", "soloist-worker")
        file = self.crew.folder / f"{name}.kubeconfig"
        config = self.cluster.kubeconfig(file, user="soloist-worker", token=token, server=server)
        return {"SOLOIST_FILE": "", "KUBECONFIG": str(config), "SOLOIST_NAMESPACE": ""}

    def start(self, name: str, **more: Any) -> Worker:
        return self.crew.start(name, **self.env(name, **more))

    def fill(self, count: int, queue: str = "q") -> None:
        with self.crew.connect() as connection:
            for number in range(count):
                connection.execute(
                    "SELECT soloist.enqueue(%s, jsonb_build_object('n', %s::int))",
                    (f"{self.namespace.name}/{queue}", number),
                )

    def until_empty(self) -> None:
        rows = "SELECT count(*) FROM soloist.work_items"
        until(lambda: self.crew.ask(rows) == 0, what="nothing is left", timeout=120)


@pytest.fixture
def stage(crew: Crew, namespace: Namespace) -> Stage:
    return Stage(crew, namespace)


def test_a_workqueue_is_worked_from_its_creation_to_its_deletion(stage: Stage) -> None:
    worker = stage.start("w")
    worker.wait_until_it_says("started")
    stage.queue()
    stage.fill(20)
    stage.until_empty()
    path = stage.namespace.ours("workqueues", "q")
    stage.namespace.api.patch(path, {"spec": {"suspend": True}})
    until(lambda: worker.metric("soloist_queue_open") == 0, what="it is suspended", timeout=90)
    stage.fill(5)
    stage.namespace.api.patch(path, {"spec": {"suspend": False}})
    stage.until_empty()
    stage.namespace.api.delete(path)
    until(lambda: worker.metric("soloist_queue_open") == 0, what="it is worked no more", timeout=90)
    assert len(stage.crew.backend.received("/q")) == 25
    assert worker.ask("/healthz")[0] == 200
    # It sees the queues of all namespaces: whether it is ready hangs on those of other tests.
    assert stage.namespace.name not in worker.ask("/readyz")[1]
    worker.terminate()
    assert worker.gone() == 0
    assert stage.crew.claimed() == 0


def test_a_secret_that_comes_late_is_found(stage: Stage) -> None:
    stage.namespace.api.delete(stage.namespace.path("secrets", "db"))
    stage.queue()
    stage.fill(3)
    worker = stage.start("w")
    until(lambda: any("does not exist" in line["error"] for line in worker.said("error survived")), what="it says so", timeout=90)  # fmt: skip
    stage.secret(stage.crew.database.dsn())
    stage.until_empty()


def test_while_the_api_server_is_away_rows_are_worked_all_the_same(stage: Stage, proxy: TcpProxy) -> None:
    stage.queue()
    worker = stage.start("w", server=proxy.server)
    worker.wait_until_it_says("queue is worked")
    proxy.refuse()
    proxy.cut()
    stage.fill(20)
    stage.until_empty()
    proxy.forward()
    stage.queue("r")
    stage.fill(5, "r")
    stage.until_empty()


def test_a_worker_of_a_cluster_is_small_and_imports_neither_kopf_nor_the_asyncio_client(stage: Stage) -> None:
    stage.queue()
    env = {**os.environ, **stage.env("modules"), "SOLOIST_HEALTH_PORT": "0"}
    done = subprocess.run(
        [sys.executable, "-c", MODULES], env=env, capture_output=True, text=True, timeout=180, check=True
    )
    modules = set(done.stdout.splitlines())
    assert {"soloist.adapters.postgres.managed", "soloist.adapters.kube.api"} <= modules
    assert "kopf" not in modules
    assert [name for name in modules if name == "kubernetes.aio" or name.startswith("kubernetes.aio.")] == []
    worker = stage.start("w")
    stage.fill(2000)
    stage.until_empty()
    print(f"{worker.resident_mb():.0f} MB resident")
    assert worker.resident_mb() <= 90
