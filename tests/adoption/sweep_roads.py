"""The two roads of the example sweeps as processes: what runs, how it is lost, and where it is on record why a slot was not swept.

What the sidecars and the instances are told stands in the manifests of the example; only ports are put in their place.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from soloist.domain.slot_memory import SLOTS
from tests.adoption.backend_process import BackendProcess
from tests.adoption.page import Reader
from tests.adoption.sweeping import PERIOD, SWEEPS, Road, Undo
from tests.api.crew import Controller, Crew, expected_ticks
from tests.api.elect_pods import Pod
from tests.api.slot_books import moment, reasons, unexplained
from tests.cluster.children import until
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.cluster.proxy import TcpProxy

INSTANCES = ("one", "two", "three")
PATIENT = timedelta(seconds=10)
"""How long the client of docs/elect.md waits for an answer."""


def instance(reader: Reader, manifest: str, name: str, folder: Path, **env: str) -> BackendProcess:
    """As the Deployment of that manifest has it."""
    told = {
        each["name"]: each["value"]
        for each in _container(reader.example / manifest, "backend")["env"]
        if "value" in each
    }
    return BackendProcess("sweeps", name, folder, program="dist/main.js", **{**told, "POD_NAME": name, **env})


class ByEndpoint(Road):
    """Road A: two controllers, three instances. What is done to the instance that sweeps is done to the leader as well."""

    name = "a"

    def __init__(self, crew: Crew, wire: TcpProxy, instances: dict[str, BackendProcess]) -> None:
        super().__init__(wire, instances)
        self.crew = crew
        self.recent: dict[str, set[tuple[str, str, str]]] = {sweep: set() for sweep in SWEEPS}

    def start(self) -> None:
        for each in self.instances.values():
            each.start()
        for name in ("left", "right"):
            self.crew.start(name)

    def terminated(self, instance: str) -> Undo:
        leader = self.crew.leader()
        leader.terminate()
        self.instances[instance].terminate()
        return lambda: self._again(instance, leader)

    def killed(self, instance: str) -> Undo:
        leader = self.crew.leader()
        leader.kill_both()
        self.instances[instance].kill()
        return lambda: self._again(instance, leader)

    def frozen(self, instance: str) -> Undo:
        leader = self.crew.leader()
        pids = (leader.parent, leader.child(), self.instances[instance].child.pid)
        signal_to(pids, signal.SIGSTOP)
        return lambda: signal_to(pids, signal.SIGCONT)

    def _again(self, instance: str, leader: Controller) -> None:
        until(lambda: not leader.process.alive(), what="the leader is gone", timeout=60)
        self.crew.start(leader.name)
        self.instances[instance].start()

    def note(self) -> None:
        for sweep in SWEEPS:
            lines = self.crew.status(sweep).get("recent", [])
            self.recent[sweep] |= {(line["result"], line["first"], line["last"]) for line in lines}

    def without_reason(self, swept: dict[str, set[datetime]], faults: Sequence[datetime]) -> list[str]:
        found = []
        for sweep in SWEEPS:
            ticks = expected_ticks(self.crew.status(sweep), settle=8.0)
            found += [
                f"{sweep} {at}" for at in ticks if at not in swept[sweep] and not has_reason(at, self.recent[sweep])
            ]
        return found

    def stop(self) -> None:
        self.crew.stop()
        for each in self.instances.values():
            each.kill()


class ByElection(Road):
    """Road B: three Pods, each an instance and its sidecar, whose rights are those of manifests/rbac/elect.yaml."""

    name = "b"

    def __init__(
        self, namespace: Namespace, wire: TcpProxy, pods: dict[str, Pod], instances: dict[str, BackendProcess]
    ) -> None:
        super().__init__(wire, instances)
        self.namespace, self.pods = namespace, pods
        self.told: dict[str, dict[datetime, str]] = {sweep: {} for sweep in SWEEPS}

    def start(self) -> None:
        for pod in self.pods.values():
            pod.start()

    def terminated(self, instance: str) -> Undo:
        self.pods[instance].shut_down()
        return self.pods[instance].start

    def killed(self, instance: str) -> Undo:
        self.pods[instance].signal_all(signal.SIGKILL)
        return self.pods[instance].start

    def frozen(self, instance: str) -> Undo:
        self.pods[instance].signal_all(signal.SIGSTOP)
        return lambda: self.pods[instance].signal_all(signal.SIGCONT)

    def note(self) -> None:
        for sweep, record in self._records().items():
            self.told[sweep] |= reasons(record, PERIOD)

    def without_reason(self, swept: dict[str, set[datetime]], faults: Sequence[datetime]) -> list[str]:
        """A slot may have been granted to a question whose answer came to nobody: of that the instance says so itself."""
        unheard = [at for at, reason in self.passed() if reason in ("TermEnded", "Unreachable")]
        found = []
        for sweep, record in self._records().items():
            missing = unexplained(swept[sweep], record, PERIOD, faults=faults)
            told = [slot for slot in missing if slot in self.told[sweep]]
            lost = [slot for slot in missing if any(slot <= at <= slot + PERIOD + PATIENT for at in unheard)]
            found += [f"{sweep} {slot}" for slot in missing if slot not in [*told, *lost]]
        return found

    def _records(self) -> dict[str, dict[str, Any]]:
        """Of each timer, as the Lease has it."""
        lease = self.namespace.api.find(self.namespace.path("leases", "sweep", group="coordination.k8s.io")) or {}
        found: dict[str, dict[str, Any]] = json.loads(lease.get("metadata", {}).get("annotations", {}).get(SLOTS, "{}"))
        return found

    def stop(self) -> None:
        for pod in self.pods.values():
            pod.stop()


def pod(reader: Reader, namespace: str, name: str, folder: Path, config: Path) -> tuple[Pod, BackendProcess]:
    """As the Deployment of elect.yaml has it: the sidecar's arguments are its own, but for the application's port."""
    (port,) = free_ports(1)
    app = instance(reader, "elect.yaml", name, folder, SOLOIST_SIDECAR=f"http://127.0.0.1:{port}")
    command, *words = _container(reader.example / "elect.yaml", "soloist")["args"]
    assert command == "elect"
    arguments = tuple(word.replace(":8080", f":{app.port}") for word in words)
    env = {"KUBECONFIG": str(config), "POD_NAMESPACE": namespace, "POD_UID": f"uid-of-{name}"}
    made = Pod(f"{name}-sidecar", folder, folder, env, arguments=arguments, port=port, app_port=app.port)
    made.app = app.child
    return made, app


def signal_to(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def has_reason(tick: datetime, lines: set[tuple[str, str, str]]) -> bool:
    """Whether one of the lines of status.recent (result, first, last) says why nothing came of it."""
    others = [(first, last) for result, first, last in lines if result != "Succeeded"]
    return any(moment(first) <= tick <= moment(last) for first, last in others)


def _container(manifest: Path, name: str) -> dict[str, Any]:
    """That container of the Deployment."""
    documents = yaml.safe_load_all(manifest.read_text(encoding="utf-8"))
    (spec,) = (each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment")
    (found,) = (each for each in [*spec.get("initContainers", ()), *spec["containers"]] if each["name"] == name)
    return dict(found)
