"""Three replicas with a timer each, and every way to lose the one whose turn it is: no slot is swept twice, each missing one has a reason.

One story for all of it, since what matters is that it goes on: the holder is shut down, killed, frozen; its application
dies alone; the API server is away. The tests hold what came of it against what is promised.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.api.crew import children_of
from tests.api.desk import log_lines
from tests.api.elect_pods import EXAMPLES, Pod, command_pids, compiled, holder
from tests.api.slot_books import moment, reasons, unexplained
from tests.api.tending import STEADY
from tests.cluster.children import Child, until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.proxy import TcpProxy

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SECOND = timedelta(seconds=1)
OUTAGE = 6.0
"""Seconds without an API server: one and a half Leases."""


@dataclass
class Story:
    """What the three did; ``faults`` are when somebody was lost in the middle of what he did."""

    pods: list[Pod]
    stranger: Pod
    faults: list[datetime] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)
    during_outage: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    handover_at_sigterm: float = 0.0

    def swept(self) -> list[dict[str, Any]]:
        return sorted((line for pod in self.pods for line in pod.swept()), key=lambda line: line["at"])

    def remembered(self) -> dict[str, Any] | None:
        """What the Lease knows of the timer, as its holder has it."""
        code, said = holder(self.pods).ask("/sweep/ticks")
        return dict(said["timers"]["1s"]) if code == 200 else None

    def terms_lost(self) -> list[datetime]:
        """When a sidecar lost its term or its life: by one of the faults, or since the machine stood still for a while."""
        logs = [line for pod in self.pods for line in log_lines(pod.sidecar.log.read_text())]
        return [moment(line["time"]) for line in logs if line["message"] in ("lease lost", "child ended")]

    def wait_for(self, more: int, *, without: Pod | None = None) -> None:
        """So many slots more are swept, by others than ``without``."""
        pods = [pod for pod in self.pods if pod is not without]
        before = sum(len(pod.swept()) for pod in pods)
        until(lambda: sum(len(pod.swept()) for pod in pods) >= before + more, what=f"{more} slots more", timeout=120)

    def lose(self, do: Callable[[Pod], None], back: Callable[[Pod], None]) -> None:
        """Something happens to the holder; the others go on; then it is put right."""
        lost = holder(self.pods)
        self.faults.append(datetime.now(UTC))
        do(lost)
        self.wait_for(2, without=lost)
        back(lost)
        self.faults.append(datetime.now(UTC))
        until(lambda: lost.ask("/sweep")[0] == 409, what=f"{lost.name} is back as a candidate", timeout=120)


def lost(pod: Pod) -> None:
    pod.signal_all(signal.SIGKILL)


def frozen(pod: Pod) -> None:
    pod.signal_all(signal.SIGSTOP)


def thawed(pod: Pod) -> None:
    pod.signal_all(signal.SIGCONT)


def application_killed(pod: Pod) -> None:
    pod.app.stop()


@pytest.fixture(scope="module")
def story(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("elect")
    program = compiled(folder)
    with TcpProxy(control_plane.port) as wire:
        config = control_plane.kubeconfig(folder / "kubeconfig", server=wire.server)
        env = {"KUBECONFIG": str(config), "SOLOIST_LEASE": "sweep"}
        pods = [Pod(name, folder, program, dict(env)) for name in "abc"]
        stranger = Pod("stranger", folder, program, {"SOLOIST_LEASE": ""})
        made = Story(pods, stranger)
        try:
            for pod in [*pods, stranger]:
                pod.start()
            made.wait_for(3)
            made.lose(Pod.shut_down, Pod.start)
            made.lose(lost, Pod.start)
            made.lose(frozen, thawed)
            made.lose(application_killed, Pod.start)
            outage(made, wire)
            made.wait_for(max(3, 21 - len(made.swept())))
            made.record = until(made.remembered, what="the Lease remembers its slots", timeout=60)
        finally:
            for pod in [*pods, stranger]:
                pod.stop()
        yield made
        for pod in [*pods, stranger]:
            print(f"---- log of {pod.name}\n{pod.sidecar.log.read_text()[-5000:]}")


def outage(made: Story, wire: TcpProxy) -> None:
    before = holder(made.pods)
    made.faults.append(datetime.now(UTC))
    wire.refuse()
    wire.cut()
    ends = time.monotonic() + OUTAGE
    while time.monotonic() < ends:
        made.during_outage.append(before.ask("/sweep"))
        time.sleep(0.1)
    wire.forward()
    made.faults.append(datetime.now(UTC))
    made.wait_for(3)


def test_no_slot_is_swept_twice(story: Story) -> None:
    counted = Counter(line["slot"] for line in story.swept())
    assert len(counted) >= 20
    assert {slot: count for slot, count in counted.items() if count > 1} == {}
    assert len({line["key"] for line in story.swept()}) == len(counted)


def test_no_slot_is_swept_before_its_time(story: Story) -> None:
    for line in story.swept():
        assert datetime.fromtimestamp(line["at"], UTC) >= moment(line["slot"]) - timedelta(milliseconds=5), line


def test_slots_and_fences_only_rise(story: Story) -> None:
    in_order = sorted(story.swept(), key=lambda line: line["slot"])
    fences = [line["fence"] for line in in_order]
    assert fences == sorted(fences)
    assert len(set(fences)) >= 5, "each loss gave the Lease to a new term"


def test_each_missing_slot_has_its_reason(story: Story) -> None:
    swept = {moment(line["slot"]) for line in story.swept()}
    told = reasons(story.record, SECOND)
    faults = [*story.faults, *story.terms_lost()]
    assert unexplained(swept, story.record, SECOND, faults=faults) == []
    assert swept & set(told) == set()
    assert {"NoHolder"} <= set(told.values()) <= {"NoHolder", "NotAsked", "NotRecorded"}


def test_the_others_are_told_why_they_may_not_run(story: Story) -> None:
    for pod in story.pods:
        assert "NotHolder" in pod.reasons()
        assert pod.reasons() <= {"NotHolder", "AlreadyGranted", "GivenUp", "NoMemory", "TermEnded", "NotRecorded", "Unreachable"}  # fmt: skip
    assert "NotRecorded" in set().union(*(pod.reasons() for pod in story.pods))


def test_an_outage_ends_the_holders_term_and_it_says_so(story: Story) -> None:
    codes = [code for code, _ in story.during_outage]
    assert codes[-1] == 409, "it believes in itself without an API server"
    assert 0 not in codes, "the sidecar itself went away"
    said = story.during_outage[-1][1]["message"]
    assert "LeaseUnreachable" in said or "could not be renewed" in said


def test_an_application_whose_sidecar_has_nothing_configured_does_not_run(story: Story) -> None:
    assert story.stranger.swept() == []
    assert story.stranger.reasons() == {"Unreachable"}
    assert "no Lease is named: write --lease NAME or SOLOIST_LEASE" in story.stranger.sidecar.tail()


@pytest.fixture
def pair(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[..., list[Pod]]]:
    """Makes two sidecars without applications."""
    config = control_plane.kubeconfig(tmp_path / "kubeconfig")
    made: list[Pod] = []

    def make(*arguments: str, **env: str) -> list[Pod]:
        for name in "ab":
            env = {"KUBECONFIG": str(config), "SOLOIST_HEALTH": "", **env}
            made.append(Pod(name, tmp_path, tmp_path / "none.js", env, arguments=arguments))
            made[-1].sidecar.start()
        return made

    yield make
    for pod in made:
        pod.sidecar.stop()
        print(f"---- log of {pod.name}\n{pod.sidecar.log.read_text()[-5000:]}")


def test_a_command_runs_with_the_holder_and_ends_before_the_next_begins(pair: Callable[..., list[Pod]]) -> None:
    script = "trap 'exit 0' TERM; while :; do sleep 0.05; done # of-soloist-elect"
    pods = pair("--lease", "one-command", "--", "sh", "-c", script, **STEADY)
    first = holder(pods, lease="one-command")
    running = until(lambda: command_pids("of-soloist-elect"), what="the command runs", timeout=90)
    assert len(running) == 1
    assert b"SOLOIST_LEASE=one-command" in Path(f"/proc/{running[0]}/environ").read_bytes()

    (child,) = children_of(first.sidecar.pid)
    os.kill(child, signal.SIGSTOP)  # the elector alone: its command is not frozen with it
    until(lambda: running[0] not in command_pids("of-soloist-elect"), what="its guard killed it", timeout=90)
    second = holder(pods, lease="one-command", other_than=first)
    after = until(lambda: command_pids("of-soloist-elect"), what="the other's runs", timeout=90)
    os.kill(child, signal.SIGCONT)
    until(lambda: first.ask("/one-command")[0] == 409, what="the first is a candidate again", timeout=90)
    assert command_pids("of-soloist-elect") == after

    assert second.ask("/one-command/release?for=60s", "POST")[0] == 202
    assert holder(pods, lease="one-command", other_than=second) is first
    until(
        lambda: (found := command_pids("of-soloist-elect")) and found != after and len(found) == 1,
        what="one runs, the first's",
        timeout=90,
    )


def test_leases_are_held_each_on_its_own_and_given_up_each_on_its_own(pair: Callable[..., list[Pod]]) -> None:
    pods = pair("--lease", "one", "--lease", "two")
    first = holder(pods, lease="one")
    of_two = holder(pods, lease="two")
    assert first.ask("/one/release?for=60s", "POST") == (202, {"released": ["one"]})
    other = holder(pods, lease="one", other_than=first)
    assert of_two.ask("/two")[0] == 200
    assert first.ask("/one")[1]["reason"] == "GivenUp"
    of_two.sidecar.signal(signal.SIGKILL)
    assert holder(pods, lease="two", other_than=of_two).ask("/one")[0] in (200, 409)
    survivor = next(pod for pod in pods if pod is not of_two)
    if survivor is other:
        assert holder([survivor], lease="one") is other


def test_the_python_client_runs_under_a_slot_and_never_without_its_sidecar(
    pair: Callable[..., list[Pod]], tmp_path: Path
) -> None:
    assert set(EXAMPLES) == {"ts-client", "ts-timer", "python-client", "python-timer", "values"}
    pod = holder(pair("--lease", "sweep-in-python"), lease="sweep-in-python")
    timer = EXAMPLES["python-timer"].replace('"300s"', '"1s"').replace("sleep(60)", "sleep(0.2)")
    timer = timer.replace('"sweep"', '"sweep-in-python"')
    program = tmp_path / "app.py"
    program.write_text(
        f"{EXAMPLES['python-client']}\n\nimport time\n\n\n"
        f"def sweep(slot):\n    print('swept', slot['slot'], slot['fence'], flush=True)\n\n\n{timer}"
    )
    app = Child("app", [sys.executable, program], log=tmp_path / "app.log", env={"SOLOIST_SIDECAR": pod.url})
    app.start()
    try:
        until(lambda: app.log.read_text().count("swept") >= 3, what="three slots are swept", timeout=120)
        pod.sidecar.stop()
        until(lambda: "Unreachable" in app.tail(1), what="the sidecar cannot be reached", timeout=90)
        swept = app.log.read_text().count("swept")
        unreachable = app.log.read_text().count("Unreachable")
        until(lambda: app.log.read_text().count("Unreachable") > unreachable + 8, what="slots go by", timeout=90)
        assert app.log.read_text().count("swept") == swept
    finally:
        app.stop()
    slots = [line.split()[1] for line in app.log.read_text().splitlines() if line.startswith("swept")]
    assert slots == sorted(set(slots))
    assert "AlreadyGranted" in app.log.read_text()


def test_what_is_not_the_application_beside_it_is_refused(pair: Callable[..., list[Pod]]) -> None:
    pod = holder(pair("--lease", "mine"), lease="mine")
    assert pod.ask("/mine", Origin="http://shop.example")[0] == 403
    assert pod.ask("/mine", Host="shop.example")[0] == 403
    assert pod.ask("/other")[0] == 404
    assert "such as every=300s" in pod.ask("/mine/ticks", "POST")[1]["message"]
    assert pod.ask("/mine/ticks?every=60s&timer=a/b", "POST")[0] == 400
