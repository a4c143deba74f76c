"""An upgrade while an older controller is still running: both versions stand for one Lease, and leadership goes to and fro under load.

Twice: an earlier commit beside today's, and today's beside a later version, which writes what today's does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.api.crew import Crew, Raw, audit
from tests.api.tending import (
    CALM,
    EVERY_TICK,
    FINAL,
    KEEP,
    attempts_ascend,
    ended,
    now,
    phase_of,
    ready,
    tick_of,
)
from tests.api.test_job_action import action
from tests.api.test_job_crashes import JOB, Kubelet, each_tick_is_explained
from tests.api.versions import (
    LATER,
    LATER_CONDITION,
    LATER_ON_THE_LEASE,
    Version,
    earlier,
    entries,
    install_later_crds,
    later,
    todays,
)
from tests.cluster.backend import Backend, Received
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace, when_served
from tests.cluster.free_ports import free_ports

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CALLED = ("often", "slow", "again")
OLD, NEW = "old", "new"


@dataclass
class Upgrade:
    """A crew of two: the names of its members are those of the versions."""

    crew: Crew
    backend: Backend
    versions: dict[str, Version]
    writes_later: bool
    led: list[str] = field(default_factory=list)

    def start(self, name: str, **env: str) -> None:
        """It is ready when this returns: it leads, or stands by."""
        (port,) = free_ports(1)
        self.crew.start(name, SOLOIST_HEALTH_PORT=str(port), **self.versions[name].env, **env)
        self.crew.wait(partial(ready, port), what=f"{name} is ready", timeout=180)

    def leads(self, name: str) -> None:
        """Until it holds the Lease, and jobs of each kind were launched by it."""
        self.crew.wait(lambda: self.crew.holder() == name, what=f"{name} leads", timeout=180)
        self.led.append(name)
        since = now()
        for job in CALLED:
            self.backend.wait(
                1, path=f"/{job}", when=lambda seen: seen.at > since and self.sent_by(seen, name), timeout=180
            )
        counted = len([run for run in self.crew.runs(JOB) if phase_of(run) == "Succeeded"])
        self.crew.wait(
            lambda: len([run for run in self.crew.runs(JOB) if phase_of(run) == "Succeeded"]) > counted,
            what=f"a Job of {name} has succeeded",
            timeout=180,
        )

    def sent_by(self, seen: Received, name: str) -> bool:
        return seen.header("User-Agent") == f"soloist/{self.versions[name].number}"

    def job(self, name: str, period: int, **spec: object) -> None:
        http = {"url": self.backend.url(f"/{name}")}
        given = {"schedule": f"@every {period}s", "timeoutSeconds": 10, "http": http, **KEEP, **spec}
        when_served(lambda: self.crew.job(name, **given))


def today_after_an_earlier_one(folder: Path) -> dict[str, Version]:
    return {OLD: earlier(folder), NEW: todays()}


def a_later_one_after_today(folder: Path) -> dict[str, Version]:
    return {OLD: todays(), NEW: later(folder)}


PAIRS = [
    pytest.param(today_after_an_earlier_one, id="today after an earlier one", marks=pytest.mark.long),
    pytest.param(a_later_one_after_today, id="a later one after today"),
]


@pytest.fixture(params=PAIRS)
def upgrade(
    request: pytest.FixtureRequest, cluster_binaries: None, backend: Backend, tmp_path: Path
) -> Iterator[Upgrade]:
    pair: Callable[[Path], dict[str, Version]] = request.param
    versions = pair(tmp_path)
    with ControlPlane() as cluster:
        install_later_crds(cluster)
        cluster.api().create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        crew = Crew(cluster, Namespace(name="shop", cluster=cluster), tmp_path, env=dict(CALM))
        yield Upgrade(crew, backend, versions, writes_later=pair is a_later_one_after_today)
        crew.stop()
    for member in crew.members.values():
        print(f"---- log of {member.name}\n{member.log()[-6000:]}")


def test_leadership_goes_to_and_fro_between_two_versions_and_each_tick_is_had_once(upgrade: Upgrade) -> None:
    crew, backend = upgrade.crew, upgrade.backend
    upgrade.start(OLD)
    backend.rule("^/slow$", delay=4)
    backend.rule("^/again$", status=503, times=9)
    upgrade.job("often", 2, **EVERY_TICK)
    upgrade.job("slow", 3)
    upgrade.job("again", 4, retry={"maxAttempts": 3, "initialDelaySeconds": 1}, **EVERY_TICK)
    crew.job(JOB, schedule="@every 5s", job=action(), **EVERY_TICK, **KEEP)
    with Kubelet([crew]) as kubelet:
        upgrade.leads(OLD)
        upgrade.start(NEW)
        assert not any("later" in crew.status(job) for job in CALLED)

        crew.members[OLD].terminate()  # the upgrade goes on
        upgrade.leads(NEW)
        ended(crew, OLD)
        upgrade.start(OLD)  # the node of an old Pod comes back
        crew.members[NEW].kill_both()
        upgrade.leads(OLD)
        what_the_later_one_wrote_is_still_there(upgrade)

        ended(crew, NEW)
        upgrade.start(NEW)
        crew.members[OLD].kill_both()
        upgrade.leads(NEW)
        ended(crew, OLD)
        upgrade.start(OLD)  # and back, since the new one did not please
        crew.members[NEW].terminate()
        upgrade.leads(OLD)

        assert upgrade.led == [OLD, NEW, OLD, NEW, OLD]
        for job in CALLED:
            audit(crew, backend, job, path=f"/{job}")
            attempts_ascend(backend, f"/{job}")
        assert backend.most_at_once("/slow") == 1
        each_tick_is_explained(crew, kubelet)
    each_term_was_of_one_version(upgrade)
    no_tick_had_two_pods_or_one_too_soon(crew, kubelet)


def what_the_later_one_wrote_is_still_there(upgrade: Upgrade) -> None:
    """The older one has written each of these by now: it launches from them."""
    if not upgrade.writes_later:
        return
    lease = upgrade.crew.lease()
    assert lease is not None
    name, value = LATER_ON_THE_LEASE
    assert lease["metadata"]["annotations"][name] == value
    for job in (*CALLED, JOB):
        status = upgrade.crew.status(job)
        assert status["later"] == LATER
        assert LATER_CONDITION in status["conditions"]


def each_term_was_of_one_version(upgrade: Upgrade) -> None:
    """And they took turns."""
    terms: dict[int, set[str | None]] = {}
    for seen in upgrade.backend.received():
        terms.setdefault(int(seen.header("Soloist-Fence") or 0), set()).add(seen.header("User-Agent"))
    numbers = [{f"soloist/{upgrade.versions[name].number}"} for name in upgrade.led]
    assert [terms[epoch] for epoch in sorted(terms)] == numbers


def no_tick_had_two_pods_or_one_too_soon(crew: Crew, kubelet: Kubelet) -> None:
    for run in crew.runs(JOB):
        pods = kubelet.pods[run["metadata"]["name"]]
        assert len(pods) <= 1, run
        assert all(made >= tick_of(run) for made in pods.values()), run


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), [(NEW, OLD), (OLD, NEW)], ids=["the newer one", "the older one"])
def test_a_recorded_job_whose_leader_of_the_other_version_died_is_had_once_or_told_of(
    upgrade: Upgrade, first: str, second: str
) -> None:
    """The one dies as it has recorded a run and not launched it; what it wrote of the run is read by the other."""
    crew = upgrade.crew
    when_served(lambda: crew.job(JOB, schedule="@every 4s", job=action(), **EVERY_TICK, **KEEP))
    with Kubelet([crew]) as kubelet:
        crew.start(first, SOLOIST_CRASH_AT="recorded:both", **upgrade.versions[first].env)
        ended(crew, first)
        (left,) = entries(crew.status(JOB))
        assert ("later" in left) == (upgrade.writes_later and first == NEW)
        upgrade.start(second)
        crew.wait(lambda: of_uid(crew, left["uid"]) in FINAL, what="the run is over", timeout=180)
        crew.wait(
            lambda: len([run for run in crew.runs(JOB) if phase_of(run) == "Succeeded"]) >= 3,
            what="others go on",
            timeout=180,
        )
        each_tick_is_explained(crew, kubelet)
    no_tick_had_two_pods_or_one_too_soon(crew, kubelet)
    run = next(run for run in crew.runs(JOB) if run["metadata"]["uid"] == left["uid"])
    assert run["status"]["phase"] in ("Succeeded", "Unknown"), run


def of_uid(crew: Crew, uid: str) -> str:
    found: list[Raw] = [run for run in crew.runs(JOB) if run["metadata"]["uid"] == uid]
    return phase_of(found[0]) if found else "absent"
