"""The payroll of manifests/examples/payroll as its page leaves it: installed on a cluster that had nothing of ours, and resumed, with two
replicas of its backend behind a Service.

``stage.start("w0")`` starts a worker as the applied Deployment does: its arguments, its ServiceAccount. Who dies is killed by a test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.adoption.backend_process import BackendProcess
from tests.adoption.page import Reader
from tests.adoption.payroll_books import Schedules
from tests.adoption.service import Service
from tests.api.crew import FAST
from tests.cluster.backend import Backend
from tests.cluster.children import Child
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.postgres.server import Database
from tests.queue.workers import ENTRY, Worker

TOKEN, SOLOIST = "word-of-the-test", ENTRY[:-1]
SECONDS = {
    "timeoutSeconds: 60": "timeoutSeconds: 10",
    "leaseSeconds: 90": "leaseSeconds: 12",
    "schedule: [30s, 5m, 1h]": "schedule: [1s]",
    "maxAttempts: 4": "maxAttempts: 100",
}
"""Of the page's queue, so that a test need not wait; a backend that is away for long uses up no schedule's tries."""


class Payroll:
    """Two backends, one queue, and the workers that a test starts."""

    def __init__(
        self, cluster: ControlPlane, place: Database, provider: Backend, service: Service, folder: Path
    ) -> None:
        self.cluster, self.provider, self.service, self.folder = cluster, provider, service, folder
        self.schedules = Schedules(place, provider)
        self.workers: dict[str, Worker] = {}
        self.controller = Child("controller", [*SOLOIST, "controller"], log=folder / "controller.log")
        variables = {"DATABASE_URL": place.dsn(), "INTERNAL_TOKEN": TOKEN, "PAYMENTS_URL": provider.url("/payments")}
        self.backends = {name: BackendProcess("payroll", name, folder, **variables, PGAPPNAME=name) for name in ("b0", "b1")}  # fmt: skip
        self.reader = Reader(
            "payroll",
            folder,
            Namespace(name="payroll", cluster=cluster),
            put={"http://payroll.payroll.svc": service.url, **SECONDS},
            DATABASE_URL=place.dsn(),
            SOLOIST_DATABASE_URL=place.dsn(place.server.role("soloist_payroll")),
            INTERNAL_TOKEN=TOKEN,
        )

    def install(self) -> None:
        """Steps 3 to 6 of the page. What install.yaml would run as Pods are processes here."""
        self.cluster.api().create("/api/v1/namespaces", {"metadata": {"name": "payroll"}})
        for backend in self.backends.values():
            backend.start()
        self.service.stands_for([backend.port for backend in self.backends.values()])
        self.reader.do(3)
        self.reader.do(4)
        self.controller.env = {**self._as("soloist"), **FAST, "SOLOIST_LEASE_NAMESPACE": "soloist", "POD_UID": "uid"}
        self.controller.start()
        said = self.reader.do(5)
        assert "Nothing stops the queue but spec.suspend: true." in said, said
        self.reader.do(6)

    def down(self) -> None:
        backends = [backend.child for backend in self.backends.values()]
        for child in (self.controller, *backends, *(worker.process for worker in self.workers.values())):
            child.stop()

    def deployment(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.api().get("/apis/apps/v1/namespaces/soloist/deployments/soloist-worker")
        return found

    def letters(self) -> list[dict[str, Any]]:
        """As `soloist queue dead` lists them."""
        asked = ("queue", "dead", "payroll", "-n", "payroll", "--limit", "1000")
        found: list[dict[str, Any]] = self.reader.said(*asked)["letters"]
        return found

    def provider_takes(self, seconds: float) -> None:
        """For each payment, from now on."""
        self.provider.clear()
        self.provider.rule(delay=seconds)

    def tries(self, most: int) -> None:
        """Of each schedule, for workers that start from now on."""
        patch = json.dumps({"spec": {"table": {"maxAttempts": most}}})
        self.cluster.kubectl("-n", "payroll", "patch", "workqueue", "payroll", "--type", "merge", "-p", patch)

    # Who works

    def start(self, *names: str) -> None:
        """Workers; returns when each works the queue."""
        (container,) = self.deployment()["spec"]["template"]["spec"]["containers"]
        for name in names:
            argv = [*SOLOIST, *container["args"]]
            child = Child(name, argv, log=self.folder / f"{name}.log", env=self._as("soloist-worker", name))
            child.start()
            self.workers[name] = Worker(name, child)
        for name in names:
            self.workers[name].wait_until_it_says("queue is worked", timeout=60)

    def _as(self, account: str, name: str = "") -> dict[str, str]:
        token = self.cluster.service_account_token("soloist", account)
        config = self.cluster.kubeconfig(self.folder / f"{account}{name}.kubeconfig", user=account, token=token)
        here = {"SOLOIST_HEALTH_PORT": "0", "SOLOIST_HEALTH_ADDRESS": "127.0.0.1"}
        return {"KUBECONFIG": str(config), "POD_NAME": name or account, **here}

    def stop(self, *names: str) -> None:
        """As an autoscaler does: SIGTERM, and each ends what it has begun."""
        for name in names:
            self.workers[name].terminate()
        for name in names:
            assert self.workers.pop(name).gone() == 0

    def kill_backend_of(self, schedule: int) -> BackendProcess:
        """The one that is paying it; it can be started again."""
        paying = self.backends[self.schedules.backend_of(schedule)]
        paying.kill()
        return paying

    def kill(self, name: str) -> None:
        self.workers.pop(name).kill()
