"""Where the figures are taken: one API server for all of them, a backend, and controllers as real processes.

The audit log of that server (of Jobs only) says to the microsecond when a Job was created or un-suspended, whoever did it:
so ours and the CronJob controller are timed by the same clock, and nobody watches meanwhile.
"""

from __future__ import annotations

import http.client
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.api.crew import Controller, Crew
from tests.bench.bulk import create_all
from tests.bench.processes import Meter
from tests.cluster import server_flags
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace, install_crds
from tests.cluster.free_ports import free_ports

# Without the Job controller: see job_bursts.
CONTROLLERS = ("cronjob-controller", "serviceaccount-controller")
TUNED = ("--kube-api-qps=2000", "--kube-api-burst=2000", "--concurrent-cron-job-syncs=20")
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, verbs: [create, update, patch], resources: [{group: batch, resources: [jobs]}]}
- {level: None}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    cluster: ControlPlane
    backend: Backend
    folder: Path
    quick: bool

    def namespace(self, name: str) -> Namespace:
        self.cluster.api().create("/api/v1/namespaces", {"metadata": {"name": name}})
        return Namespace(name=name, cluster=self.cluster)

    @contextmanager
    def crew(self, namespace: Namespace, **env: str) -> Iterator[Crew]:
        """Controllers at the default times of a Lease; gone at the end, their runs and jobs too."""
        folder = self.folder / namespace.name
        made = Crew(self.cluster, namespace, folder, env=env)
        try:
            yield made
        finally:
            made.stop()
            self.clear(namespace)

    def clear(self, namespace: Namespace) -> None:
        """What is left of a section shall not weigh on the next. There is no garbage collector here."""
        api = self.cluster.api(timeout=300)
        for path in (namespace.ours("scheduledjobs"), namespace.ours("jobruns")):
            api.delete(path)
        for resource in ("cronjobs", "jobs"):
            api.delete(namespace.path(resource, group="batch"), {"propagationPolicy": "Background"})

    def pids(self, crew: Crew) -> dict[str, int]:
        """By what they are: for a Meter."""
        leader = crew.leader()
        followers = {f"follower {name}": member.child() for name, member in crew.members.items() if member != leader}
        return {"leader": leader.child(), **followers, **self.server_pids(), "backend": self.backend.child.pid}

    def server_pids(self) -> dict[str, int]:
        return {
            "API server": self.cluster.api_server.pid,
            "etcd": self.cluster.etcd.pid,
            "controller manager": self.cluster.controller_manager.pid,
        }

    def meter(self, crew: Crew) -> Meter:
        return Meter.start(self.pids(crew))

    def job_times(self, namespace: Namespace, verb: str) -> dict[str, datetime]:
        """When the API server had answered the first such write on each Job, by its name ("" is not among them)."""
        found: dict[str, datetime] = {}
        named = f'"{namespace.name}"'
        for line in (self.folder / "audit.log").read_text().splitlines():
            if named not in line:
                continue
            event = json.loads(line)
            about = event["objectRef"]
            # A create's name is not in its path; the server fills it in from the object.
            if (
                event["verb"] == verb
                and about.get("namespace") == namespace.name
                and event["responseStatus"]["code"] < 300
            ):
                when = datetime.strptime(event["stageTimestamp"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
                found.setdefault(about.get("name", ""), when)
        return found


@contextmanager
def stage(*, quick: bool) -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="soloist-bench-"))
    policy = folder / "audit-policy.yaml"
    policy.write_text(AUDIT_POLICY)
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}", "--audit-log-mode=blocking")
    try:
        with (
            ControlPlane(controllers=CONTROLLERS, controller_flags=server_flags.FAST, api_flags=audit) as cluster,
            Backend(folder / "backend") as backend,
        ):
            install_crds(cluster)
            yield Stage(cluster=cluster, backend=backend, folder=folder, quick=quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def scheduled_jobs(namespace: Namespace, count: int, **spec: Any) -> None:
    """``count`` of them, ``j0000`` and so on; ``{name}`` in a url is each one's own."""
    bodies = [
        {
            "apiVersion": "soloist.dev/v1alpha1",
            "kind": "ScheduledJob",
            "metadata": {"name": (name := f"j{number:04}")},
            "spec": json.loads(json.dumps(spec).replace("{name}", name)),
        }
        for number in range(count)
    ]
    create_all(namespace.cluster, namespace.ours("scheduledjobs"), bodies)


def next_minute(*, ahead: float) -> datetime:
    """The next full minute that is at least ``ahead`` seconds away."""
    soonest = datetime.fromtimestamp(time.time() + ahead, UTC)
    return soonest.replace(second=0, microsecond=0) + timedelta(minutes=1)


def sleep_until(moment: datetime) -> None:
    time.sleep(max(0.0, moment.timestamp() - time.time()))


def settled(namespace: Namespace, count: int) -> None:
    """Every ScheduledJob has been looked at by the leader."""

    def seen() -> bool:
        time.sleep(1.0)  # such a list is work for the server
        items = namespace.api.items(namespace.ours("scheduledjobs"))
        return len(items) == count and all("observedSchedule" in item.get("status", {}) for item in items)

    until(seen, what=f"{count} ScheduledJobs are observed", timeout=300)


def start_ready(crew: Crew, name: str, *, lease: str = "soloist", **env: str) -> Controller:
    """Start one and wait for its /readyz."""
    (port,) = free_ports(1)
    member = crew.start(name, lease=lease, SOLOIST_HEALTH_PORT=str(port), SOLOIST_HEALTH_ADDRESS="127.0.0.1", **env)
    until(lambda: is_ready(port), what=f"{name} is ready", timeout=60, needs=[member.process])
    return member


def is_ready(port: int) -> bool:
    try:
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        asked.request("GET", "/readyz")
        return asked.getresponse().status == 200
    except OSError:
        return False
    finally:
        asked.close()


def spread(values: Sequence[float], unit: str = "s") -> str:
    """The middle and the ends, for a line of progress."""
    ordered = sorted(values)
    middle, last = ordered[len(ordered) // 2], ordered[-1]
    return f"min {ordered[0]:.3f}, p50 {middle:.3f}, max {last:.3f} {unit} (n={len(ordered)})"
