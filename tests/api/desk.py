"""Controllers and one backend for all tests of a module: each test brings jobs, and paths, of its own names.

A controller takes seconds to start and to lead; what these tests ask of it disturbs no other job, and that it does not
is part of what they ask: after the last of them each must still be the same process, lead or stand by as it did, and have
logged no error. One works at a desk, unless a test is ``also_with_standbys``: then it is played once more, in `make test-long`,
at a desk where two more stand by.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from soloist.domain.instants import parse_time
from tests.api.crew import Crew, Raw, audit
from tests.api.tending import now, start
from tests.cluster.backend import Backend, Received
from tests.cluster.children import until
from tests.cluster.client import ApiClient
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.metrics_page import series

LONG = {"SOLOIST_LEASE_DURATION": "60", "SOLOIST_LEASE_RETRY_PERIOD": "5", "SOLOIST_LEASE_MARGIN": "6"}
"""No test of a desk is about leadership: an API server that is slow for a while costs nobody the Lease."""

RECEIVER, ANY_HERE, DENIED, DENIED_NETWORK = "127.0.0.1", "0.0.0.0", "127.0.0.2", "127.0.0.0/8"
"""What http actions may call, as whoever runs the controllers has it: of a denied network the receiver's address alone, and
one that leads to the receiver too and is refused by default."""

ALONE, STAFFED = ("a",), ("a", "b", "c")
"""The first leads, the others stand by."""

CREWS = [pytest.param(ALONE, id="alone"), pytest.param(STAFFED, id="staffed", marks=pytest.mark.long)]
also_with_standbys = pytest.mark.parametrize("desk", CREWS, indirect=True)
"""For all tests of a module that work at its desk, so that they share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What a test works at."""

    crew: Crew
    backend: Backend

    @property
    def api(self) -> ApiClient:
        return self.crew.cluster.api()

    @property
    def namespace(self) -> Namespace:
        return self.crew.namespace

    def http(self, name: str, **spec: Any) -> Raw:
        """A ScheduledJob that calls the path of its own name; ``http`` may add to the action."""
        action = {"url": self.backend.url(f"/{name}"), **spec.pop("http", {})}
        return self.crew.job(name, **spec, http=action)

    def calls(self, name: str) -> list[Received]:
        return [seen for seen in self.backend.received() if seen.path == f"/{name}"]

    def called(self, name: str, count: int = 1, *, timeout: float = 90.0) -> list[Received]:
        """Wait for that many calls of the job."""

        def enough() -> list[Received] | None:
            found = self.calls(name)
            return found if len(found) >= count else None

        return until(enough, what=f"{name} called {count} times", timeout=timeout, needs=[self.backend.child])

    def status(self, name: str, wanted: Callable[[Raw], Any], *, what: str, timeout: float = 90.0) -> Raw:
        """Wait for a status of the job that is wanted."""

        def probe() -> Raw | None:
            found = self.crew.status(name)
            return found if wanted(found) else None

        return until(probe, what=f"{name}: {what}", timeout=timeout)

    def rest(self, name: str) -> Raw:
        """Suspend the job, and wait until that is seen and nothing of it goes on; its status."""
        self.crew.edit(name, {"suspend": True})
        return self.quiet(name, lambda status: status["observedSchedule"]["suspend"], what="it is at rest")

    def quiet(self, name: str, wanted: Callable[[Raw], Any], *, what: str) -> Raw:
        """Wait for such a status while nothing of the job goes on: whatever was sent has been received and answered."""
        return self.status(name, lambda status: wanted(status) and not status.get("active"), what=what)

    def audit(self, name: str, *, former: Iterable[datetime] = ()) -> None:
        audit(self.crew, self.backend, name, path=f"/{name}", former=former)

    def clear(self) -> None:
        """Suspend what the test has left going on: it asks nothing more of it, and the next has the machine to itself."""
        for job in self.api.items(self.namespace.ours("scheduledjobs")):
            if not job["spec"].get("suspend"):
                self.crew.edit(job["metadata"]["name"], {"suspend": True})

    def recent(self, name: str, result: str, *, timeout: float = 90.0) -> Raw:
        """Wait for such a line in ``recent``; the newest of them."""
        found = self.status(name, lambda status: lines(status, result), what=f"{result} in recent", timeout=timeout)
        return lines(found, result)[-1]

    def run_of(self, seen: Received) -> Raw:
        found: Raw = self.api.get(self.namespace.ours("jobruns", str(seen.header("Soloist-Run"))))
        return found

    def run(self, name: str, *phases: str, timeout: float = 90.0) -> Raw:
        """Wait for a run of the job in one of these phases."""

        def probe() -> Raw | None:
            return next((run for run in self.crew.runs(name) if phase(run) in phases), None)

        return until(probe, what=f"a run of {name} is {' or '.join(phases)}", timeout=timeout)

    def metric(self, name: str, **labels: str) -> float:
        """The sum over all series of that name and those labels that the leader shows."""
        return sum(series(self.crew.leader().metrics(), name, **labels))

    def delete(self, kind: str, name: str) -> None:
        self.api.delete(self.namespace.ours(kind, name))

    def events(self, name: str, reason: str = "") -> list[Raw]:
        """Events about the ScheduledJob."""
        found = self.api.items(self.namespace.path("events", group="events.k8s.io"))
        about = [event for event in found if event["regarding"]["name"] == name]
        return [event for event in about if reason in ("", event["reason"])]


@pytest.fixture(scope="module")
def desk(
    request: pytest.FixtureRequest, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    members: tuple[str, ...] = getattr(request, "param", ALONE)
    namespace = Namespace(name=f"t-desk-{uuid.uuid4().hex[:8]}", cluster=control_plane)
    control_plane.api().create("/api/v1/namespaces", {"metadata": {"name": namespace.name}})
    folder = tmp_path_factory.mktemp("desk")
    crew = Crew(control_plane, namespace, folder)
    try:
        with Backend(folder / "backend") as backend:
            allowed = f"{RECEIVER}/32,{ANY_HERE}/32"
            start(crew, *members, **LONG, SOLOIST_HTTP_DENY=DENIED_NETWORK, SOLOIST_HTTP_ALLOW=allowed)
            children = {name: crew.members[name].child() for name in members}
            yield Desk(crew=crew, backend=backend)
            assert {name: crew.members[name].child() for name in members} == children, "one was started again"
            assert crew.holder() == members[0], "another leads"
            found = {name: errors(crew.members[name].log()) for name in members}
            assert not any(found.values()), found
    finally:
        crew.stop()
        control_plane.api().delete(f"/api/v1/namespaces/{namespace.name}")
        for member in crew.members.values():
            print(f"---- log of {member.name}\n{member.log()[-20000:]}")


@pytest.fixture(autouse=True)
def cleared(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test at a desk."""
    yield
    desk = getattr(request.node, "funcargs", {}).get("desk")
    if isinstance(desk, Desk):
        desk.clear()


def log_lines(log: str) -> list[Raw]:
    """Each line of a controller's log; what is not JSON (a traceback of the interpreter) as an error."""
    result = []
    for line in log.splitlines():
        try:
            result.append(json.loads(line))
        except ValueError:
            result.append({"level": "error", "message": line})
    return result


def errors(log: str) -> list[Raw]:
    """What must not be there while nothing is wrong with the world. An API server that others keep busy may be slow."""
    lines = [line for line in log_lines(log) if "no answer within" not in str(line.get("error"))]
    return [line for line in lines if line["level"] in ("error", "critical") or line["message"] == "error survived"]


def phase(run: Raw) -> str:
    return str(run.get("status", {}).get("phase", "Pending"))


def lines(status: Raw, result: str) -> list[Raw]:
    return [line for line in status.get("recent", []) if line["result"] == result]


def condition(status: Raw, kind: str) -> Raw:
    found: Raw = next((c for c in status.get("conditions", []) if c["type"] == kind), {})
    return found


def moment(text: Any) -> datetime:
    found = parse_time(text)
    assert found is not None, text
    return found


def tick(seen: Received) -> datetime:
    return moment(seen.header("Soloist-Scheduled-Time"))


def span(line: Raw) -> tuple[datetime, datetime]:
    return moment(line["first"]), moment(line["last"])


def away(moment: datetime) -> timedelta:
    """How far off; negative where it is past."""
    return moment - now()
