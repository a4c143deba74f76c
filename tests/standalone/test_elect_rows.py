"""`soloist elect --database`: the Leases of an application's replicas in rows, where there is no cluster."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.children import Child, until
from tests.cluster.free_ports import free_ports
from tests.postgres.server import Database
from tests.standalone.crew import ENTRY, STEADY

pytestmark = pytest.mark.slow


@dataclass
class Sidecar:
    process: Child
    port: int

    def ask(self, path: str, method: str = "GET") -> tuple[int, dict[str, Any]]:
        """Status and answer; 0 while nobody answers."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)
        except OSError:
            return 0, {}

    def holds(self) -> bool:
        return self.ask("sweep")[0] == 200

    def child(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])


@pytest.fixture
def sidecar(tmp_path: Path, own_queue_database: Database) -> Iterator[Callable[..., Sidecar]]:
    made: list[Sidecar] = []

    def begin(*words: str) -> Sidecar:
        (port,) = free_ports(1)
        env = {name: value for name, value in os.environ.items() if not name.startswith("SOLOIST_")}
        env |= {**STEADY, "SOLOIST_DATABASE": own_queue_database.dsn(), "SOLOIST_HEALTH_PORT": "0", "POD_NAMESPACE": ""}
        name = f"sidecar-{len(made)}"
        argv = [*ENTRY, "elect", "--lease", "sweep", "--api-port", str(port), *words]
        process = Child(name, argv, log=tmp_path / f"{name}.log", env=env)
        process.start()
        made.append(Sidecar(process, port))
        return made[-1]

    yield begin
    for each in made:
        each.process.stop()
        print(f"---- {each.process.name}\n{each.process.log.read_text()[-3000:]}")


def test_one_of_two_holds_it_and_each_slot_is_granted_once_through_a_crash_and_a_release(
    sidecar: Callable[..., Sidecar],
) -> None:
    pair = [sidecar(), sidecar()]
    granted: list[tuple[str, int]] = []

    def grants(count: int) -> bool:
        for each in pair:
            status, said = each.ask("sweep/ticks?every=2s", "POST")
            if status == 200:
                granted.append((said["slot"], said["fence"]))
        return len(granted) >= count

    until(lambda: grants(2), what="two slots are granted", timeout=120)
    holder = next(each for each in pair if each.holds())
    (other,) = [each for each in pair if each is not holder]
    until(lambda: other.ask("sweep")[0] == 409, what="the other knows who holds it", timeout=120)
    os.kill(holder.child(), 9)
    until(other.holds, what="the other holds it: the parent of the dead one gave it back", timeout=120)
    until(lambda: grants(4), what="slots go on", timeout=120)
    assert other.ask("release", "POST")[0] == 202
    assert not other.holds()
    pair[pair.index(holder)] = third = sidecar()
    until(third.holds, what="a third one holds it", timeout=120)
    until(lambda: grants(6), what="slots go on", timeout=120)
    slots, fences = [slot for slot, _ in granted], [fence for _, fence in granted]
    assert len(slots) == len(set(slots))
    assert fences == sorted(fences)
    assert len(set(fences)) >= 3


def test_its_command_is_told_of_the_lease_and_not_of_the_database(sidecar: Callable[..., Sidecar]) -> None:
    script = 'echo "told: $SOLOIST_LEASE ${SOLOIST_FENCE:+fence} ${SOLOIST_DATABASE:-nothing}"; exec sleep 600'
    one = sidecar("--", "sh", "-c", script)
    until(lambda: "told: sweep fence nothing" in one.process.log.read_text(), what="it runs", timeout=120)
