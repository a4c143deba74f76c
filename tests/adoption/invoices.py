"""The stage of the example `invoices` as processes: its replicas with their sidecars, and controllers and workers against an API server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.adoption.backend_process import BackendProcess
from tests.adoption.bank import Bank
from tests.adoption.invoices_records import AUTHORIZATION, QUICKER, Records
from tests.adoption.page import Reader
from tests.adoption.service import Service
from tests.api.crew import Crew
from tests.api.elect_pods import Pod
from tests.cluster.backend import Backend
from tests.cluster.children import Child
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.postgres.server import Database
from tests.queue.workers import ENTRY, Worker


@dataclass
class Stage(Records):
    """Two replicas of the backend behind ``service``, each with its sidecar in ``pods``; nothing is started."""

    folder: Path
    service: Service
    backends: dict[str, BackendProcess]
    pods: dict[str, Pod]

    def start(self) -> None:
        """What is recorded from now on, and the replicas."""
        self.note()
        for pod in self.pods.values():
            pod.start()
        for backend in self.backends.values():
            backend.ready()

    def log(self) -> list[str]:
        return [line for each in self.backends.values() for line in each.log().splitlines()]


@contextmanager
def invoices(
    database: Database,
    folder: Path,
    *,
    namespace: Namespace | None = None,
    **elect: str,
) -> Iterator[Stage]:
    """The page is copied, with addresses and times of the test put in; nothing of it is done yet. ``elect``: how sidecars elect."""
    with ExitStack() as stack:
        receiver, bank = stack.enter_context(Backend(folder)), stack.enter_context(Bank())
        env = {"DATABASE_URL": database.dsn(), "AUTHORIZATION": AUTHORIZATION}
        backends, pods = {}, {}
        for name in ("b1", "b2"):
            (port,) = free_ports(1)
            asks = {"SOLOIST_SIDECAR": f"http://127.0.0.1:{port}", "PAYMENTS_URL": bank.url, "WATCH_MS": "50"}
            backends[name] = BackendProcess("invoices", name, folder, **env, **asks)
            sidecar = {**elect, "SOLOIST_LEASE": "payments"}
            pods[name] = Pod(f"{name}-sidecar", folder, folder, sidecar, port=port, app_port=backends[name].port)
            pods[name].app = backends[name].child
            stack.callback(pods[name].stop)
        service = stack.enter_context(Service([each.port for each in backends.values()]))
        reader = Reader("invoices", folder, namespace, put=QUICKER, **env, BACKEND=service.url)
        yield Stage(database, receiver, bank, reader, folder, service, backends, pods)


@dataclass
class Cluster:
    """Controllers and workers of the stage, as processes against an API server."""

    namespace: Namespace
    folder: Path
    crew: Crew
    workers: dict[str, Worker] = field(default_factory=dict)

    def worker(self, name: str) -> Worker:
        config = self.namespace.cluster.kubeconfig(self.folder / f"{name}.kubeconfig", namespace=self.namespace.name)
        env = {
            "KUBECONFIG": str(config),
            "SOLOIST_NAMESPACE": self.namespace.name,
            "SOLOIST_HEALTH_PORT": "0",
            "SOLOIST_HEALTH_ADDRESS": "127.0.0.1",
            "SOLOIST_DATA_ALLOW": "127.0.0.0/8",
            "POD_NAME": name,
        }
        process = Child(name, ENTRY, log=self.folder / f"{name}.log", env=env)
        process.start()
        self.workers[name] = Worker(name, process)
        return self.workers[name]

    def stop(self) -> None:
        self.crew.stop()
        for worker in self.workers.values():
            worker.process.stop()


@contextmanager
def cluster(control_plane: ControlPlane, folder: Path) -> Iterator[Cluster]:
    """A namespace, and nobody in it yet."""
    namespace = Namespace(name=f"t-{uuid.uuid4().hex[:10]}", cluster=control_plane)
    control_plane.api().create("/api/v1/namespaces", {"metadata": {"name": namespace.name}})
    made = Cluster(namespace, folder, Crew(control_plane, namespace, folder))
    try:
        yield made
    finally:
        made.stop()
        namespace.api.delete(f"/api/v1/namespaces/{namespace.name}")
