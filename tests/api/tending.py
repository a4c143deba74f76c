"""Several crews at once, each in a namespace of its own, and what tends them as a cluster would.

``crews("name")`` makes one; ``start`` waits until a controller is ready (a warm standby, or the leader); ``revive`` plays
the kubelet: a container that has ended is started again, under the same Pod name.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from soloist.domain.instants import parse_time
from tests.api.crew import Controller, Crew, Raw, children_of, requests_by_tick
from tests.cluster.backend import Backend, Received
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.cluster.health_pages import asked

Crews = Callable[[str], Crew]
FINAL = {"Succeeded", "Failed", "Unknown", "Interrupted", "Superseded", "Skipped", "Cancelled"}
KEEP = {"successfulRunsHistoryLimit": 100, "failedRunsHistoryLimit": 100}
"""Nothing is trimmed: the runs are what a test reads."""
CALM = {"SOLOIST_LEASE_DURATION": "10", "SOLOIST_LEASE_RETRY_PERIOD": "2"}
"""Leases as they are by default: nobody loses one because the machine is busy, so every hand-over is a planned one."""
STEADY = {"SOLOIST_LEASE_DURATION": "7", "SOLOIST_LEASE_RETRY_PERIOD": "1", "SOLOIST_LEASE_MARGIN": "1"}
"""For a test that loses a Lease on purpose, and must not lose another because the machine stands still for a while."""
EVERY_TICK = {"missedRunPolicy": "RunAll", "maxMissedRuns": 100, "concurrencyPolicy": "Allow"}
"""No tick has a reason not to run."""


@pytest.fixture
def crews(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Crews]:
    """Makes crews; all are gone after the test, with their namespaces, and what they logged is shown when it failed."""
    made: list[Crew] = []

    def make(name: str) -> Crew:
        namespace = Namespace(name=f"t-{name}-{uuid.uuid4().hex[:8]}", cluster=control_plane)
        control_plane.api().create("/api/v1/namespaces", {"metadata": {"name": namespace.name}})
        made.append(Crew(control_plane, namespace, tmp_path / name, env=dict(CALM)))
        made[-1].folder.mkdir()
        return made[-1]

    yield make
    for crew in made:
        crew.stop()
        crew.namespace.api.delete(f"/api/v1/namespaces/{crew.namespace.name}")
    for crew in made:
        for member in crew.members.values():
            print(f"---- log of {member.name} in {crew.namespace.name}\n{member.log()[-4000:]}")


def start(crew: Crew, *names: str, **env: str) -> None:
    """Start them, the first first: it leads before the others come together, and all are ready when this returns."""
    for together in (names[:1], names[1:]):
        _start([(crew, name) for name in together], **env)


def start_each(crews: Iterable[Crew], name: str, **env: str) -> None:
    """Start one in each crew, all at once; ready, and somebody leads, when this returns."""
    _start([(crew, name) for crew in crews], **env)


def _start(whom: list[tuple[Crew, str]], **env: str) -> None:
    ports = free_ports(len(whom))
    for (crew, name), port in zip(whom, ports, strict=True):
        crew.start(name, **{"SOLOIST_HEALTH_PORT": str(port), **env})
    for (crew, name), port in zip(whom, ports, strict=True):
        crew.wait(partial(ready, port), what=f"{name} is ready", timeout=120)
        crew.leader(timeout=120)


def ready(port: int) -> bool:
    return asked(port)[0] == 200


def not_ready(port: int) -> str:
    """What /readyz says where it says no; empty where it says yes, or nothing yet."""
    status, text = asked(port)
    return "" if status == 200 else text


def leads(member: Controller) -> bool | None:
    """Whether it says so on /metrics; None while nobody answers there, as where its child is being started again."""
    try:
        return "\nsoloist_leader 1.0\n" in member.metrics()
    except OSError:
        return None


def revive(crew: Crew) -> None:
    """Start those again whose container has ended."""
    for name, member in list(crew.members.items()):
        if not member.process.alive():
            crew.start(name)


def worker(member: Controller) -> int:
    """The pid of the working child; 0 while there is none. (A parent that gives a Lease back has another child.)"""
    for pid in children_of(member.parent):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"soloist.shells.child" in command:
            return pid
    return 0


def ended(crew: Crew, *names: str) -> None:
    for name in names:
        alive = crew.members[name].process.alive
        crew.wait(partial(is_false, alive), what=f"{name} has ended", timeout=90)


def is_false(probe: Callable[[], object]) -> bool:
    return not probe()


def logged(crew: Crew, name: str, words: str) -> None:
    """Wait until a controller says so."""
    crew.wait(lambda: words in crew.members[name].log(), what=f"{name} logs {words!r}", timeout=90)


def phase_of(run: Raw) -> str:
    return str(run.get("status", {}).get("phase", "Pending"))


def tick_of(run: Raw) -> datetime:
    found = parse_time(run["spec"].get("scheduledTime"))
    assert found is not None
    return found


def now() -> datetime:
    return datetime.now(UTC)


def through(crew: Crew, job: str, moment: datetime, *, more: int = 2, reviving: bool = False) -> None:
    """Wait until each run of a tick up to ``moment`` is over, and ``more`` runs after it have succeeded.

    ``reviving`` where the last fault may still strike meanwhile: who has ended is started again.
    """

    def probe() -> bool:
        if reviving:
            revive(crew)
        runs = crew.runs(job)
        old = [run for run in runs if tick_of(run) <= moment]
        later = [run for run in runs if tick_of(run) > moment and phase_of(run) == "Succeeded"]
        return all(phase_of(run) in FINAL for run in old) and len(later) >= more

    until(probe, what=f"{job} is through {moment} and {more} ticks more", timeout=300)


def of_run(backend: Backend, path: str, run: Raw) -> list[Received]:
    """What was received for one run, in order."""
    return [seen for seen in backend.received(path) if seen.header("Soloist-Run") == run["metadata"]["name"]]


def fences(seen: list[Received]) -> list[int]:
    return [int(each.header("Soloist-Fence") or 0) for each in seen]


def keys(seen: list[Received]) -> set[str | None]:
    return {each.header("Idempotency-Key") for each in seen}


def nothing_twice_or_early(backend: Backend, path: str, *, early: float = 0.05) -> None:
    """Safety alone: one first attempt a tick, none sooner than ``early`` seconds before its time."""
    twice = {tick: count for tick, count in requests_by_tick(backend, path).items() if tick and count > 1}
    assert not twice, f"launched twice: {twice}"
    for seen in backend.received(path):
        tick = parse_time(seen.header("Soloist-Scheduled-Time"))
        assert tick is None or seen.at >= tick - timedelta(seconds=early), f"early: {tick} at {seen.at}"


def attempts_ascend(backend: Backend, path: str) -> None:
    """Of each run: one key, each attempt once, in order, each under a fence not lower than the last."""
    by_run: dict[str | None, list[Received]] = {}
    for each in backend.received(path):
        by_run.setdefault(each.header("Soloist-Run"), []).append(each)
    for run, seen in by_run.items():
        numbers: list[Any] = [each.header("Soloist-Attempt") for each in seen]
        assert numbers == sorted(set(numbers)), f"{run}: attempts {numbers}"
        assert len(keys(seen)) == 1, f"{run}: {keys(seen)}"
        assert fences(seen) == sorted(fences(seen)), f"{run}: fences {fences(seen)}"
