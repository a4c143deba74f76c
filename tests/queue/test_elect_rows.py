"""`soloist elect --database`: the same on rows, without a cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.crew import children_of
from tests.api.elect_pods import Pod, holder
from tests.cluster.children import until
from tests.postgres.server import Database


@pytest.fixture
def pods(own_queue_database: Database, tmp_path: Path) -> Iterator[list[Pod]]:
    env = {"SOLOIST_DATABASE": own_queue_database.dsn(), "SOLOIST_HEALTH": "", "KUBECONFIG": "/none"}
    made = [Pod(name, tmp_path, tmp_path / "none.js", env, arguments=("--lease", "sweep")) for name in "ab"]
    for pod in made:
        pod.sidecar.start()
    yield made
    for pod in made:
        pod.stop()
        print(f"---- log of {pod.name}\n{pod.sidecar.log.read_text()[-5000:]}")


def slot(pod: Pod) -> str:
    """The next that is granted."""

    def granted() -> str:
        code, said = pod.ask("/sweep/ticks?every=1s", "POST")
        return str(said["slot"]) if code == 200 else ""

    return until(granted, what=f"{pod.name} is granted a slot", timeout=120)


def test_replicas_share_a_lease_in_a_row_and_its_slots_survive_a_hand_over(pods: list[Pod]) -> None:
    first = holder(pods)
    slots = [slot(first), slot(first)]
    fence = first.ask("/sweep")[1]["fence"]
    (child,) = children_of(first.sidecar.pid)
    os.kill(child, signal.SIGKILL)
    second = holder(pods, other_than=first)
    assert second.ask("/sweep")[1]["fence"] > fence
    slots += [slot(second), slot(second)]
    assert slots == sorted(set(slots))
    until(
        lambda: second.ask("/sweep/ticks")[1]["timers"]["1s"]["last"] == slots[-1],
        what="the last one is shown, with the next reading",
        timeout=120,
    )
    until(lambda: not first.sidecar.alive(), what="the first has ended, for whoever runs it to see", timeout=120)
    first.sidecar.start()
    until(lambda: first.ask("/sweep")[0] == 409, what="the first is a candidate again", timeout=120)
    assert first.ask("/sweep/ticks?every=1s", "POST")[1]["reason"] == "NotHolder"
