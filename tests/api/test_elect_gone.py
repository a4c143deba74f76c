"""The README's table of failures for a sidecar that is gone beside an application that is not: a second, half a minute, five minutes.

Rows run at the same time, each with two replicas of which the holder's sidecar is killed, parent and child, so that nobody gives
its Lease back. In the gate half a minute is scaled down: its Lease is shorter by the same factor. In full it is among the long ones.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from soloist.domain.term import Timing
from tests.api.crew import LEASE_SECONDS
from tests.api.elect_pods import Pod, command_pids, compiled, holder
from tests.api.slot_books import moment, unexplained
from tests.api.table import Table, picked
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SECOND = timedelta(seconds=1)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
PATIENCE = 120.0
TIMING = Timing()
OWN_TIMES = {
    "SOLOIST_LEASE_DURATION": str(TIMING.lease),
    "SOLOIST_LEASE_RETRY_PERIOD": str(TIMING.period),
    "SOLOIST_LEASE_MARGIN": str(TIMING.margin),
}
Gone = tuple[float, Mapping[str, str]]
OF_THE_GATE: dict[str, Gone] = {"1-s": (1.0, {}), "30-s": (30.0 * LEASE_SECONDS / TIMING.lease, {})}
IN_FULL: dict[str, Gone] = {"30-s-in-full": (30.0, OWN_TIMES), "5-min-in-full": (300.0, OWN_TIMES)}


@dataclass
class Row:
    """What two replicas did while the sidecar of ``lost`` was gone for at least so many seconds; each sidecar has a command too."""

    name: str
    seconds: float
    pods: list[Pod]
    gone: datetime = LONG_AGO
    back: datetime = LONG_AGO
    app: int = 0
    commands: list[int] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)
    lost: Pod = field(init=False)

    @property
    def is_long(self) -> bool:
        return self.seconds > 1

    def slots(self, *, within: tuple[datetime, datetime], pods: list[Pod]) -> list[datetime]:
        """Those that began after the first moment and before the second, as they were swept."""
        found = [moment(line["slot"]) for pod in pods for line in pod.swept()]
        return [slot for slot in found if within[0] < slot < within[1]]

    def was_told(self) -> bool:
        told = [line for line in self.lost.lines() if line["at"] > self.gone.timestamp()]
        return any(line.get("why", "").startswith("Unreachable") for line in told)

    @property
    def others(self) -> list[Pod]:
        return [pod for pod in self.pods if pod is not self.lost]

    def run(self) -> None:
        for pod in self.pods:
            pod.start()
        self._wait_for(3, since=LONG_AGO, pods=self.pods)
        self.lost = until(self._leads_with_its_command, what=f"{self.name}: one holds it", timeout=PATIENCE)
        self.app, self.commands = self.lost.app.pid, self._commands(self.lost)
        self.lost.sidecar.stop()
        self.gone, began = datetime.now(UTC), time.monotonic()
        until(lambda: not self._commands(self.lost), what=f"{self.name}: its command has ended", timeout=PATIENCE)
        until(self.was_told, what=f"{self.name}: its application is told so", timeout=PATIENCE)
        if self.is_long:
            self._wait_for(2, since=self.gone, pods=self.others)
        time.sleep(max(0.0, began + self.seconds - time.monotonic()))
        self.back = datetime.now(UTC)
        self.lost.sidecar.start()
        until(lambda: self.lost.ask("/sweep")[0] in (200, 409), what=f"{self.name}: it is back", timeout=PATIENCE)
        self._wait_for(3, since=self.back, pods=self.pods)
        self.record = holder(self.pods).ask("/sweep/ticks")[1]["timers"]["1s"]

    def _wait_for(self, count: int, *, since: datetime, pods: list[Pod]) -> None:
        ever = datetime.max.replace(tzinfo=UTC)
        what = f"{self.name}: {count} slots are swept"
        until(lambda: len(self.slots(within=(since, ever), pods=pods)) >= count, what=what, timeout=PATIENCE)

    def _leads_with_its_command(self) -> Pod | None:
        return next((pod for pod in self.pods if pod.ask("/sweep")[0] == 200 and self._commands(pod)), None)

    def _commands(self, pod: Pod) -> list[int]:
        named = f"POD_NAME={pod.name}\0".encode()
        return [pid for pid in command_pids(marker(self.name)) if named in environment(pid)]


def marker(row: str) -> str:
    return f"<of-the-row-{row}>"


def environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _row(name: str, gone: Gone, stack: ExitStack, cluster: ControlPlane, program: Path) -> Row:
    folder, namespace, (seconds, times) = program.parent / name, f"t-gone-{name}", gone
    config = cluster.kubeconfig(folder / "kubeconfig")
    cluster.api().create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    env = {"KUBECONFIG": str(config), "POD_NAMESPACE": namespace, **times}
    command = ("sh", "-c", f"while :; do sleep 1; done # {marker(name)}")
    arguments = ("--lease", "sweep", "--", *command)
    pods = [Pod(each, folder, program, dict(env), arguments=arguments) for each in "ab"]
    for pod in pods:
        stack.callback(print_end, pod)
        stack.callback(pod.stop)
    return Row(name, seconds, pods)


def print_end(pod: Pod) -> None:
    print(f"---- log of {pod.sidecar.log}\n{pod.sidecar.log.read_text()[-4000:]}")


@pytest.fixture(scope="module")
def table(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table[Gone, Row]]:
    program = compiled(tmp_path_factory.mktemp("gone"))
    with Table(OF_THE_GATE, IN_FULL, make=lambda *row: _row(*row, control_plane, program)) as rows:
        yield rows


@pytest.fixture
def row(table: Table[Gone, Row], request: pytest.FixtureRequest) -> Row:
    return table[request.param]


ALL, _, _ = picked(OF_THE_GATE, IN_FULL)


@ALL
def test_an_application_whose_sidecar_is_gone_gets_no_slot(row: Row) -> None:
    assert row.slots(within=(row.gone, row.back), pods=[row.lost]) == []
    assert row.was_told()


@ALL
def test_slots_go_on_after_the_lease_of_the_lost_sidecar(row: Row) -> None:
    """Of a longer loss: with the others, while it lasts."""
    if row.is_long:
        assert row.slots(within=(row.gone, row.back), pods=row.others)
    assert row.slots(within=(row.back, moment(row.record["last"]) + SECOND), pods=row.pods)


@ALL
def test_an_application_outlives_its_sidecar_and_its_slot_is_given_to_nobody_else(row: Row) -> None:
    assert row.lost.app.alive()
    assert row.lost.app.pid == row.app
    counted = Counter(line["slot"] for pod in row.pods for line in pod.swept())
    assert {slot: count for slot, count in counted.items() if count > 1} == {}


@ALL
def test_a_command_does_not_outlive_its_sidecar(row: Row) -> None:
    assert row.commands
    assert set(row.commands) & set(command_pids(marker(row.name))) == set()


@ALL
def test_each_slot_that_passed_meanwhile_has_its_reason(row: Row) -> None:
    swept = {moment(line["slot"]) for pod in row.pods for line in pod.swept()}
    assert unexplained(swept, row.record, SECOND, faults=[row.gone]) == []
