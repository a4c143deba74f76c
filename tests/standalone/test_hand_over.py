"""Two and three replicas, and what becomes of the ticks when one of them is killed, frozen or told to end."""

from __future__ import annotations

import os
import signal

import pytest

from tests.cluster.children import until
from tests.postgres.pooler import PgBouncer
from tests.standalone.crew import STEADY, Crew

pytestmark = pytest.mark.slow
also_of_three = pytest.mark.parametrize("names", [pytest.param("ab", id="two"), pytest.param("abc", id="three")])
also_of_three_at_leisure = pytest.mark.parametrize(
    "names", [pytest.param("ab", id="two"), pytest.param("abc", id="three", marks=pytest.mark.long)]
)
"""Of what takes its time the gate has two replicas."""


def begin(crew: Crew, *names: str) -> None:
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    for name in names:
        crew.start(name)
    crew.backend.wait(3, path="/sweep", timeout=120)
    for name in names:
        until(lambda name=name: crew.said(name, "standing by") or crew.said(name, "leading"), what=f"{name} takes part", timeout=120)  # fmt: skip


def go_on(crew: Crew, ticks: int = 3) -> None:
    crew.backend.wait(len(crew.backend.received("/sweep")) + ticks, path="/sweep", timeout=120)


def test_when_the_leaders_child_is_killed_its_parent_gives_the_lease_to_another(crew: Crew) -> None:
    crew.env = dict(STEADY)
    begin(crew, "a", "b", "c")
    leader = crew.leader()
    leader.kill_child()
    crew.leader(other_than=leader.name)
    until(lambda: not leader.process.alive(), what="its parent ends with it", timeout=120)
    assert "lease of the dead child" in leader.log()
    go_on(crew)
    crew.audit("sweep")


@also_of_three
def test_when_parent_and_child_are_killed_the_lease_runs_out_and_another_takes_over(crew: Crew, names: str) -> None:
    begin(crew, *names)
    leader = crew.leader()
    leader.kill_both()
    crew.leader(other_than=leader.name)
    go_on(crew)
    crew.audit("sweep")


@also_of_three_at_leisure
def test_a_leader_that_was_frozen_dies_on_waking_and_its_parent_starts_another(crew: Crew, names: str) -> None:
    crew.env = {}  # at the default lease, of ten seconds
    begin(crew, *names)
    leader = crew.leader()
    frozen = leader.child()
    os.kill(frozen, signal.SIGSTOP)
    crew.leader(other_than=leader.name)
    os.kill(frozen, signal.SIGCONT)
    until(lambda: "stopped by its dead-man timer" in leader.log(), what="it dies on waking", timeout=120)
    until(lambda: leader.child() not in (0, frozen), what="its parent starts another", timeout=120)
    go_on(crew)
    crew.audit("sweep")


@also_of_three
def test_at_sigterm_the_lease_goes_to_another_at_once_and_the_run_that_goes_on_is_ended(crew: Crew, names: str) -> None:
    crew.backend.rule("/slow", delay=3)
    crew.env = {"SOLOIST_LEASE_DURATION": "600", "SOLOIST_LEASE_RETRY_PERIOD": "5", "SOLOIST_LEASE_MARGIN": "60"}
    crew.write("slow.yaml", crew.job("slow", schedule="@every 1s", timeoutSeconds=60))
    begin(crew, *names)
    leader = crew.leader()
    crew.backend.wait(1, path="/slow", when=lambda seen: seen.ended_boot is None, timeout=120)
    leader.terminate()
    until(lambda: not leader.process.alive(), what="it ends", timeout=120)
    crew.leader(other_than=leader.name)  # or the lease would have to run out, which takes ten minutes
    assert leader.process._running is not None
    assert leader.process._running.returncode == 0
    go_on(crew)
    assert not {run.get("status", {}).get("reason") for run in crew.objects("JobRun", "slow")} & {
        "Interrupted",
        "OutcomeUnknown",
    }
    crew.audit("sweep")


@also_of_three
def test_behind_a_pooler_in_transaction_mode_all_goes_on_and_a_hand_over_takes_a_look_longer(
    crew: Crew, pgbouncer: PgBouncer, names: str
) -> None:
    crew.env["SOLOIST_DATABASE"] = f"{pgbouncer.dsn(crew.url.rpartition('/')[2])}?pgbouncer=true"
    begin(crew, *names)
    crew.hear("a", "the database delivers no notices: a pooler in transaction mode lies in between")
    leader = crew.leader()
    leader.terminate()
    crew.leader(other_than=leader.name)
    go_on(crew)
    crew.audit("sweep")
