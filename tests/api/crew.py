"""Some controllers as real processes against a real API server, and the books that are held against what they did.

``crew`` is a fixture: ``crew.start("a")`` starts a parent and its child under the Pod name ``a``; ``crew.leader()`` waits
for the one that the Lease names. ``crew.job("sweep", schedule="@every 2s", http={"url": …})`` makes a ScheduledJob.
``audit(...)`` says what must hold after every test: no tick twice, none early, none lost without a reason.
"""

from __future__ import annotations

import os
import signal
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from soloist.domain.instants import parse_time
from tests.api.reasons import due_ticks, uncounted, unexplained
from tests.cluster.backend import Backend, Received
from tests.cluster.children import Child, until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace

Raw = dict[str, Any]
LEASE_SECONDS = 4
PATIENCE = 90.0
"""Seconds until what is due must be decided and over. A run of which nobody knows is waited for as long as its time-out."""
FAST = {"SOLOIST_LEASE_DURATION": str(LEASE_SECONDS), "SOLOIST_LEASE_RETRY_PERIOD": "0.8", "SOLOIST_LEASE_MARGIN": "1"}


ENTRY = [sys.executable, "-c", "from soloist.shells.main import main; main()", "controller"]
if find_spec("soloist.shells.cli") is None:
    child = (
        "import os, sys; from soloist.shells.child import *; die_with_parent(); die_on_alarm();"
        "from soloist.shells import settings; from soloist.shells.controller import run;"
        "sys.exit(run(settings.load({}, os.environ, kubeconfig_namespace=lambda a, b: None)))"
    )
    parent = "import sys; from soloist.shells.supervisor import run; sys.exit(run([sys.executable, '-c', sys.argv[1]]))"
    ENTRY = [sys.executable, "-c", parent, child]


@dataclass
class Controller:
    """One parent and its child."""

    name: str
    process: Child
    health_port: int = 0

    @property
    def parent(self) -> int:
        return self.process.pid

    def child(self) -> int:
        """The pid of the child; it may be a new one each time."""
        return until(lambda: next(iter(children_of(self.parent)), 0), what=f"{self.name} has a child", timeout=60)

    def kill_child(self) -> None:
        os.kill(self.child(), signal.SIGKILL)

    def kill_both(self) -> None:
        child = self.child()
        os.kill(self.parent, signal.SIGKILL)
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            return  # it died with its parent, as it should

    def signal_child(self, number: signal.Signals) -> None:
        os.kill(self.child(), number)

    def terminate(self) -> None:
        os.kill(self.parent, signal.SIGTERM)

    def metrics(self) -> str:
        """What its child serves under /metrics; of one that was started with a port."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    def log(self) -> str:
        return self.process.log.read_text(errors="replace")


@dataclass
class Crew:
    """Controllers of one installation in one namespace."""

    cluster: ControlPlane
    namespace: Namespace
    folder: Path
    server: str | None = None
    env: dict[str, str] = field(default_factory=lambda: dict(FAST))
    members: dict[str, Controller] = field(default_factory=dict)

    def start(self, name: str, *, server: str | None = None, lease: str = "soloist", **env: str) -> Controller:
        """Start one (again); ``server`` is another way to the API server, ``env`` adds variables."""
        config = self.cluster.kubeconfig(self.folder / f"{name}.kubeconfig", user="admin", server=server or self.server)
        variables = {
            "KUBECONFIG": str(config),
            "POD_NAME": name,
            "POD_UID": f"uid-of-{name}",
            "SOLOIST_LEASE_NAMESPACE": self.namespace.name,
            "SOLOIST_LEASE_NAME": lease,
            "SOLOIST_NAMESPACE": self.namespace.name,
            "SOLOIST_HEALTH_PORT": "0",
            **self.env,
            **env,
        }
        process = Child(name, ENTRY, log=self.folder / f"{name}.log", env=variables)
        process.start()
        self.members[name] = Controller(name, process, int(variables["SOLOIST_HEALTH_PORT"]))
        return self.members[name]

    def lease(self, name: str = "soloist") -> Raw | None:
        path = self.namespace.path("leases", name, group="coordination.k8s.io")
        return self.cluster.api().find(path)

    def holder(self, name: str = "soloist") -> str:
        """The Pod name in the Lease; empty while nobody holds it."""
        found = self.lease(name)
        identity = (found or {}).get("spec", {}).get("holderIdentity") or ""
        return str(identity).split("_", 1)[0]

    def leader(self, *, other_than: str = "", timeout: float = 90.0) -> Controller:
        """Wait until one of the crew holds the Lease."""

        def found() -> Controller | None:
            holder = self.holder()
            return self.members.get(holder) if holder != other_than else None

        return until(found, what=f"somebody other than {other_than!r} leads", timeout=timeout)

    def job(self, name: str, **spec: Any) -> Raw:
        body = {
            "apiVersion": "soloist.dev/v1alpha1",
            "kind": "ScheduledJob",
            "metadata": {"name": name, "namespace": self.namespace.name},
            "spec": spec,
        }
        made: Raw = self.cluster.api().create(self.namespace.ours("scheduledjobs"), body)
        return made

    def edit(self, name: str, spec: Raw) -> Raw:
        made: Raw = self.cluster.api().patch(self.namespace.ours("scheduledjobs", name), {"spec": spec})
        return made

    def trigger(self, job: str, name: str, **spec: Any) -> Raw:
        body = {
            "apiVersion": "soloist.dev/v1alpha1",
            "kind": "JobRun",
            "metadata": {"name": name, "namespace": self.namespace.name},
            "spec": {"scheduledJobName": job, "trigger": "Manual", **spec},
        }
        made: Raw = self.cluster.api().create(self.namespace.ours("jobruns"), body)
        return made

    def status(self, name: str) -> Raw:
        found: Raw = self.cluster.api().get(self.namespace.ours("scheduledjobs", name)).get("status", {})
        return found

    def runs(self, job: str = "") -> list[Raw]:
        items: list[Raw] = self.cluster.api().items(self.namespace.ours("jobruns"))
        return [run for run in items if job in ("", run["spec"]["scheduledJobName"])]

    def phase(self, run: str) -> str:
        found = self.cluster.api().find(self.namespace.ours("jobruns", run))
        return str((found or {}).get("status", {}).get("phase", "Pending" if found else "absent"))

    def wait(self, probe: Callable[[], Any], *, what: str, timeout: float = 90.0) -> Any:
        return until(probe, what=what, timeout=timeout)

    def stop(self) -> None:
        for member in self.members.values():
            member.process.stop()


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(part) for part in text.split()]


@pytest.fixture
def crew(control_plane: ControlPlane, namespace: Namespace, tmp_path: Path) -> Iterator[Crew]:
    """Nobody is started yet; everybody is gone after the test, and what they logged is shown when it failed."""
    made = Crew(control_plane, namespace, tmp_path)
    yield made
    made.stop()
    for member in made.members.values():
        print(f"---- log of {member.name}\n{member.log()[-6000:]}")


def requests_by_tick(backend: Backend, path: str) -> Counter[str]:
    """First attempts received, by scheduled time."""
    received = [seen for seen in backend.received() if seen.path == path and seen.header("Soloist-Attempt") == "1"]
    return Counter(seen.header("Soloist-Scheduled-Time") for seen in received)


def audit(
    crew: Crew, backend: Backend, job: str, *, path: str, early: float = 0.05, former: Iterable[datetime] = ()
) -> None:
    """No tick twice, none early, and none of those due by now lost without a reason, once each is decided and over.

    ``early``: seconds before its time that are forgiven, where the leader's clock is wrong. ``former``: ticks from before the
    last edit, which are asked for as well. Runs that people made must be kept, else they cannot be told from ticks.
    """
    ticks = [*former, *due_ticks(crew.status(job), datetime.now(UTC))]
    lost: list[datetime] = []

    def each_is_explained() -> bool:
        received = {tick for seen in backend.received() if seen.path == path and (tick := tick_of(seen)) is not None}
        lost[:] = unexplained(ticks, crew.status(job), crew.runs(job), received)
        return not lost

    try:
        until(each_is_explained, what="each tick is explained", timeout=PATIENCE)
    except TimeoutError:
        pytest.fail(f"{job}: not received, and no reason: {lost}\n{crew.status(job)}")
    twice = {tick: count for tick, count in requests_by_tick(backend, path).items() if tick and count > 1}
    assert not twice, f"launched twice: {twice}"
    for seen in backend.received():
        tick = tick_of(seen)
        if seen.path == path and tick is not None:
            assert seen.at >= tick - timedelta(seconds=early), f"early: {tick} at {seen.at}"
    status, by_hand = crew.status(job), [run for run in crew.runs(job) if run["spec"].get("trigger") != "Schedule"]
    once = status["observedGeneration"] > 1 or uncounted(status) + len(by_hand) >= 0
    assert once, f"something was counted twice: {status}"


def tick_of(seen: Received) -> datetime | None:
    return parse_time(seen.header("Soloist-Scheduled-Time"))


def expected_ticks(status: Raw, settle: float) -> list[datetime]:
    """The ticks of the schedule as it was last observed, from since to the watermark, which must be near."""
    watermark = parse_time(status["watermark"])
    assert watermark is not None
    due = due_ticks(status, datetime.now(UTC) - timedelta(seconds=settle))
    undecided = [tick for tick in due if tick > watermark]
    assert not undecided, f"ticks stay undecided: {undecided}"
    return due_ticks(status, watermark)
