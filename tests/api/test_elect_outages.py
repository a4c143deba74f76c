"""Sidecars with their own times while the API server is away in full: half a minute, refused, silent or resetting, and five minutes.

All outages at the same time, each with two replicas behind a wire of its own. The short one of the gate is in test_elect.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.term import Timing
from tests.api.elect_pods import Pod, compiled, holder
from tests.api.slot_books import moment, reasons, unexplained
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.proxy import TcpProxy

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.long]

SECOND = timedelta(seconds=1)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
TIMING = Timing()
OWN_TIMES = {
    "SOLOIST_LEASE_DURATION": str(TIMING.lease),
    "SOLOIST_LEASE_RETRY_PERIOD": str(TIMING.period),
    "SOLOIST_LEASE_MARGIN": str(TIMING.margin),
}
Away = Callable[[TcpProxy], None]
OUTAGES: dict[str, tuple[float, Away]] = {
    "30-s-refused": (30.0, TcpProxy.refuse),
    "30-s-silent": (30.0, TcpProxy.blackhole),
    "30-s-reset": (30.0, TcpProxy.reset),
    "5-min-refused": (300.0, TcpProxy.refuse),
}


@dataclass
class Outage:
    """What was asked of the holder of before: when (CLOCK_BOOTTIME since the server went), and the code that it answered."""

    name: str
    seconds: float
    away: Away
    pods: list[Pod]
    wire: TcpProxy
    said: list[tuple[float, int]] = field(default_factory=list)
    gone: datetime = LONG_AGO
    back: datetime = LONG_AGO
    pids: list[list[int]] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)

    def swept(self) -> list[dict[str, Any]]:
        return [line for pod in self.pods for line in pod.swept()]

    def slots(self) -> Counter[datetime]:
        return Counter(moment(line["slot"]) for line in self.swept())

    def play(self) -> None:
        for pod in self.pods:
            pod.start()
        until(lambda: len(self.swept()) >= 3, what=f"{self.name}: three slots are swept", timeout=120)
        before = holder(self.pods)
        self.pids.append(self._pids())
        self.gone, began = datetime.now(UTC), time.clock_gettime(time.CLOCK_BOOTTIME)
        self.away(self.wire)
        if self.away is TcpProxy.refuse:
            self.wire.cut()
        while (passed := time.clock_gettime(time.CLOCK_BOOTTIME) - began) < self.seconds:
            self.said.append((passed, before.ask("/sweep")[0]))
            time.sleep(0.2)
        self.back = datetime.now(UTC)
        self.wire.forward()
        until(lambda: len(self._after()) >= 3, what=f"{self.name}: three slots more", timeout=120)
        self.pids.append(self._pids())
        self.record = holder(self.pods).ask("/sweep/ticks")[1]["timers"]["1s"]

    def _after(self) -> list[datetime]:
        return [slot for slot in self.slots() if slot > self.back]

    def _pids(self) -> list[int]:
        return [pid for pod in self.pods for pid in pod.sidecar_pids()]


@pytest.fixture(scope="module")
def outages(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Outage]]:
    folder = tmp_path_factory.mktemp("elect-outages")
    program = compiled(folder)
    with ExitStack() as stack:
        made = {}
        for name, (seconds, away) in OUTAGES.items():
            wire = stack.enter_context(TcpProxy(control_plane.port))
            config = control_plane.kubeconfig(folder / name / "kubeconfig", server=wire.server)
            namespace = f"t-elect-{name}"
            control_plane.api().create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            env = {"KUBECONFIG": str(config), "SOLOIST_LEASE": "sweep", "POD_NAMESPACE": namespace, **OWN_TIMES}
            pods = [Pod(each, folder / name, program, dict(env)) for each in "ab"]
            for pod in pods:
                stack.callback(print_end, pod)
                stack.callback(pod.stop)
            made[name] = Outage(name, seconds, away, pods, wire)
        with ThreadPoolExecutor(len(made)) as pool:
            for future in [pool.submit(each.play) for each in made.values()]:
                future.result()
        yield made


def print_end(pod: Pod) -> None:
    print(f"---- log of {pod.sidecar.log}\n{pod.sidecar.log.read_text()[-4000:]}")


@pytest.fixture(params=OUTAGES)
def outage(request: pytest.FixtureRequest, outages: dict[str, Outage]) -> Outage:
    return outages[request.param]


def test_no_slot_is_swept_twice_or_while_the_api_server_is_away(outage: Outage) -> None:
    """But for the one that was on record when it went."""
    counted = outage.slots()
    assert {slot: count for slot, count in counted.items() if count > 1} == {}
    assert [slot for slot in counted if outage.gone < slot < outage.back - SECOND] == []


def test_the_holder_believes_in_itself_until_its_trust_ends_and_no_longer(outage: Outage) -> None:
    believed = [passed for passed, code in outage.said if code == 200]
    assert believed, "an outage is no loss at once"
    assert max(believed) < TIMING.lease - TIMING.margin + 1
    assert {code for passed, code in outage.said if passed > TIMING.lease} == {409}


def test_a_sidecar_lives_through_it_and_answers(outage: Outage) -> None:
    before, after = outage.pids
    assert before == after
    assert 0 not in {code for _, code in outage.said}


def test_slots_are_granted_again_within_a_lease_after_it_is_back(outage: Outage) -> None:
    slack = 5.0 * max(1.0, os.getloadavg()[0] / 4)
    first = min(line["at"] for line in outage.swept() if line["at"] > outage.back.timestamp())
    assert first - outage.back.timestamp() < TIMING.lease + slack


def test_each_slot_of_it_has_its_reason(outage: Outage) -> None:
    told = reasons(outage.record, SECOND)
    assert unexplained(set(outage.slots()), outage.record, SECOND, faults=[outage.gone]) == []
    ended = outage.gone + timedelta(seconds=TIMING.lease)
    middle = [slot for slot in told if ended < slot < outage.back - 2 * SECOND]
    assert len(middle) >= outage.seconds - TIMING.lease - 4
    assert {told[slot] for slot in middle} == {"NoHolder"}


def test_the_applications_are_told_that_it_could_not_be_recorded_or_that_nobody_holds(outage: Outage) -> None:
    said = set().union(*(pod.reasons() for pod in outage.pods))
    assert "NotHolder" in said
    assert said <= {"NotHolder", "NotRecorded", "AlreadyGranted", "GivenUp", "NoMemory", "TermEnded", "Unreachable"}
