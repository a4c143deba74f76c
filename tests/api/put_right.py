"""A controller and a worker with rights that can be taken from them, one WorkQueue, and what each of the two says of what it lacks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.api.crew import Controller, Crew, Raw
from tests.api.tending import CALM
from tests.cluster.backend import Backend
from tests.cluster.children import Child, until
from tests.cluster.fixtures import Namespace, when_served
from tests.cluster.free_ports import free_ports
from tests.cluster.health_pages import asked
from tests.postgres.server import Database
from tests.queue.workers import ENTRY, Worker

RIGHTS = Path(__file__).parents[2] / "manifests" / "rbac"
GROUP = "rbac.authorization.k8s.io"
SOON = 180.0
"""What was found good is taken for good for a minute."""


def granted(file: str) -> list[Raw]:
    """All rules of a manifest, but for what is of the cluster as a whole."""
    found = [rule for each in yaml.safe_load_all((RIGHTS / file).read_text()) for rule in each.get("rules", ())]
    return [rule for rule in found if rule["resources"] != ["namespaces"]]


def without(rules: list[Raw], *resources: str, verbs: Collection[str] = ()) -> list[Raw]:
    """Without those verbs, or all, on these."""
    kept = []
    for rule in rules:
        for resource in rule["resources"]:
            left = [v for v in rule["verbs"] if resource not in resources or (verbs and v not in verbs)]
            kept += [{**rule, "resources": [resource], "verbs": left}] if left else []
    return kept


@dataclass
class Scene:
    """``rules`` are those that the two begin with."""

    namespace: Namespace
    backend: Backend
    folder: Path
    database: Database
    dsn: str
    controller: Controller = field(init=False)
    worker: Worker = field(init=False)
    started: int = 0
    ports: dict[str, int] = field(default_factory=dict)
    begun: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.api, self.crew = self.namespace.api, Crew(self.namespace.cluster, self.namespace, self.folder)
        for name in ("controller", "worker"):
            self.api.create(self.namespace.path("serviceaccounts"), {"metadata": {"name": name}})
            self.may(name, granted(f"{name}.yaml"))

    def may(self, name: str, rules: list[Raw]) -> None:
        """Exactly this, from now on."""
        head = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": name}}
        account = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace.name}
        ref = {"apiGroup": GROUP, "kind": "Role", "name": name}
        both = [{**head, "kind": "Role", "rules": rules}, {**head, "kind": "RoleBinding", "subjects": [account], "roleRef": ref}]  # fmt: skip
        self.namespace.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(both))

    def start(self) -> None:
        self.start_controller()
        self.start_worker()

    def start_controller(self) -> None:
        (port,) = free_ports(1)
        env = {
            "SOLOIST_HEALTH_PORT": str(port),
            "SOLOIST_MEASURE_QUEUES": "1",
            "KUBECONFIG": self._config("controller"),
        }
        self.controller = self.crew.start("controller", **CALM, **env)
        self.begun.append(self.controller.process)

    def start_worker(self) -> None:
        """Another one, as a rollout makes it."""
        self.started += 1
        name = f"worker-{self.started}"
        env = {"KUBECONFIG": self._config("worker"), "SOLOIST_NAMESPACE": self.namespace.name, "POD_NAME": name}
        health = {"SOLOIST_HEALTH_PORT": "0", "SOLOIST_HEALTH_ADDRESS": "127.0.0.1"}
        process = Child(name, ENTRY, log=self.folder / f"{name}.log", env={**env, **health})
        process.start()
        self.begun.append(process)
        self.worker = Worker(name, process)

    def replace_worker(self) -> None:
        self.worker.terminate()
        assert self.worker.gone() == 0
        self.start_worker()

    def stop(self) -> None:
        for process in self.begun:
            process.stop()
            print(f"---- log of {process.name}\n{process.tail(40)}")

    def _config(self, name: str) -> str:
        token = self.namespace.cluster.service_account_token(self.namespace.name, name)
        return str(
            self.namespace.cluster.kubeconfig(self.folder / f"rights-of-{name}.kubeconfig", user=name, token=token)
        )

    # What there is

    def secret(self, name: str = "db") -> None:
        data = {"uri": base64.b64encode(self.dsn.encode()).decode()}
        self.api.create(self.namespace.path("secrets"), {"metadata": {"name": name}, "data": data})

    def queue(self, name: str, **spec: Any) -> None:
        deliver = {"http": {"url": self.backend.url(f"/{name}"), "timeoutSeconds": 5}}
        given = {"database": {"secretName": "db", "key": "uri"}, "deliver": deliver, **spec}
        body = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": name}, "spec": given}
        when_served(lambda: self.api.create(self.namespace.ours("workqueues"), body))

    def execute(self, statement: str) -> None:
        with self.database.connect() as connection:
            connection.execute(statement)

    def enqueue(self, queue: str = "q") -> None:
        self.execute(f"SELECT soloist.enqueue('{self.namespace.name}/{queue}', '{{}}')")

    # What is said

    def condition(self, queue: str = "q") -> Raw:
        status = self.api.get(self.namespace.ours("workqueues", queue)).get("status", {})
        return next((each for each in status.get("conditions", ()) if each["type"] == "Valid"), {})

    def until_condition(self, reason: str, queue: str = "q") -> Raw:
        def found() -> Raw | None:
            condition = self.condition(queue)
            return condition if condition.get("reason") == reason else None

        return until(found, what=f"{queue} is {reason}", timeout=SOON, needs=[self.controller.process])

    def event(self, reason: str, says: str) -> Raw:
        """The one Event of that reason whose note has these words."""

        def found() -> list[Raw]:
            events = self.api.items(self.namespace.path("events", group="events.k8s.io"))
            return [each for each in events if each["reason"] == reason and says in each["note"]]

        (one,) = until(found, what=f"an Event {reason} says {says!r}", timeout=SOON)
        return one

    def controller_logs(self, *words: str) -> None:
        def said() -> bool:
            lines = self.controller.log().replace('\\"', '"').splitlines()
            return any(all(word in line for word in words) for line in lines)

        until(said, what=f"the controller logs {words}", timeout=SOON)

    def worker_logs(self, *words: str) -> None:
        def said() -> bool:
            return any(
                all(word in json.dumps(line).replace('\\"', '"') for word in words) for line in self.worker.said()
            )

        until(said, what=f"{self.worker.name} logs {words}", timeout=SOON, needs=[self.worker.process])

    def worker_is(self, code: int, *says: str) -> None:
        def probe() -> bool:
            status, page = self.worker.ask("/readyz")
            return status == code and all(word in page for word in says)

        until(probe, what=f"/readyz of {self.worker.name} is {code} and says {says}", timeout=SOON)

    def controller_is(self, code: int, *says: str) -> None:
        def probe() -> bool:
            status, page = asked(self.controller.health_port)
            return status == code and all(word in page for word in says)

        until(probe, what=f"/readyz of the controller is {code} and says {says}", timeout=SOON)

    def works(self, add: Callable[[], None] | None = None, queue: str = "q") -> None:
        """One more row is delivered, by those that are there."""
        before = len(self.backend.received(f"/{queue}"))
        (add or partial(self.enqueue, queue))()
        self.backend.wait(before + 1, path=f"/{queue}", timeout=SOON)

    def all_is_well(self) -> None:
        self.until_condition("Accepted")
        self.worker_is(200, "1 of 1 queues are worked")
