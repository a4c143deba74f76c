"""Elections under everything that may befall them, and the proof that the checks would notice: each mutant is caught."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from soloist.domain import election, hearing, lease_writes, standing
from soloist.domain.lease import LeaseRecord
from soloist.domain.lease_bodies import micro_time
from soloist.domain.standing import Candidate, Standing
from soloist.domain.term import Term
from tests.domain.election_world import EPOCH, Network, Node, World

MOST_SECONDS = 60.0
"""Of one processor: a machine that is busy with something else fails nothing."""

LEAST_STEPS = 100_000
NODES = st.integers(0, 2)
PAUSES = st.sampled_from([0.0, 0.05, 0.3, 1.0, 2.5, 6.0, 9.5, 11.0, 15.0])


class Tally:
    steps = claims = heals = exempt = 0


class Elections(RuleBasedStateMachine):
    world: World

    @initialize(
        seed=st.integers(0, 2**32), rates=st.sampled_from([(1.0, 1.0, 1.0), (0.999, 1.0, 1.001), (0.95, 1.0, 1.05)])
    )
    def begin(self, seed: int, rates: tuple[float, ...]) -> None:
        self.world = World(seed, rates)
        self.counted = 0

    def let(self, seconds: float) -> None:
        self.world.run_until(self.world.now + seconds)
        Tally.steps += self.world.steps - self.counted
        self.counted = self.world.steps

    def of(self, index: int) -> Node:
        return self.world.nodes[index]

    @rule(seconds=st.sampled_from([1.0, 5.0, 20.0, 60.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.let(seconds)

    @rule(
        index=NODES, there=st.sampled_from([0.002, 0.5, 1.5]), back=st.sampled_from([0.002, 0.4, 1.4, 1.9]), then=PAUSES,
        lost=st.sampled_from(["", "", "there", "back"]), refused=st.sampled_from([False, False, False, True]),
    )  # fmt: skip
    def the_network_turns(self, index: int, there: float, back: float, lost: str, refused: bool, then: float) -> None:
        self.of(index).network = Network(there=there, back=back, lost=lost, refused=refused)
        self.let(then)

    @rule(
        back=st.sampled_from([0.002, 1.0, 1.9]), slow=st.sampled_from([0.5, 2.0, 4.0]), cut=st.sampled_from([9.5, 13.0])
    )
    def the_leader_hears_late_and_then_nothing(self, back: float, slow: float, cut: float) -> None:
        leader = self.world.leader()
        if leader is None:
            return
        leader.network = Network(back=back)
        self.let(slow)
        leader.network = Network(back=back, lost="back")
        self.let(0.1)
        leader.network = Network(lost="there")
        self.let(cut)
        leader.network = Network()

    @rule(seconds=st.sampled_from([0.5, 3.0, 8.0, 14.0, 40.0]), then=PAUSES)
    def the_leader_is_frozen(self, seconds: float, then: float) -> None:
        leader = self.world.leader()
        if leader is not None:
            self.world.freeze(leader, seconds)
        self.let(then)

    @rule(index=NODES, seconds=st.sampled_from([0.5, 5.0, 12.0]), then=PAUSES)
    def one_is_frozen(self, index: int, seconds: float, then: float) -> None:
        self.world.freeze(self.of(index), seconds)
        self.let(then)

    @rule(index=NODES, parent=st.booleans(), seen=st.booleans(), then=PAUSES)
    def one_is_killed(self, index: int, parent: bool, seen: bool, then: float) -> None:
        self.world.kill(self.of(index), parent=parent, seen=seen)
        self.let(then)

    @rule(drain=st.sampled_from([0.0, 1.0, 20.0]), then=PAUSES)
    def the_leader_is_stopped(self, drain: float, then: float) -> None:
        leader = self.world.leader()
        if leader is not None:
            self.world.stop(leader, drain)
        self.let(then)

    @rule(index=NODES, late=st.sampled_from([1.9, 2.1, 5.0, 12.0, 30.0]), then=PAUSES)
    def its_next_write_comes_late(self, index: int, late: float, then: float) -> None:
        self.of(index).hold_write = late
        self.let(then)

    @rule(index=NODES, offset=st.sampled_from([-3600.0, -2.5, -0.9, 0.0, 0.9, 1.6, 2.5, 3600.0]), then=PAUSES)
    def a_wall_clock_steps(self, index: int, offset: float, then: float) -> None:
        self.of(index).wall_offset = offset
        self.let(then)

    @precondition(lambda self: self.world.lease is not None)
    @rule(then=PAUSES)
    def the_lease_is_deleted(self, then: float) -> None:
        self.world.lease = None
        self.let(then)

    @rule(
        what=st.sampled_from(
            [
                {"holderIdentity": ""},
                {"leaseDurationSeconds": 1},
                {"holderIdentity": "stranger", "renewTime": micro_time(EPOCH)},
                {"acquireTime": None, "renewTime": None},
            ]
        ),
        then=PAUSES,
    )
    def a_person_edits_the_spec(self, what: dict[str, Any], then: float) -> None:
        self.world.edit(lambda body: body["spec"].update(what))
        self.let(then)

    @rule(then=PAUSES)
    def a_person_labels_it(self, then: float) -> None:
        self.world.edit(lambda body: body["metadata"].setdefault("labels", {}).update(seen=str(self.world.now)))
        self.let(then)

    @rule()
    def all_is_well_again(self) -> None:
        self.world.heal()
        deadline = self.world.now + 45.0
        while self.world.leader() is None:
            assert self.world.now < deadline, "nobody leads though nothing stands in the way"
            self.let(0.5)
        Tally.heals += 1

    def teardown(self) -> None:
        if hasattr(self, "world"):
            Tally.claims += self.world.claims
            Tally.exempt += self.world.overlaps_exempt


def budget(examples: int, *, seeded: bool = True) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=40, deadline=None, derandomize=seeded, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate], report_multiple_bugs=False, print_blob=False,
    )  # fmt: skip


def test_at_most_one_believes_itself_the_leader_whatever_happens() -> None:
    Tally.steps = Tally.claims = Tally.heals = Tally.exempt = 0
    began = time.process_time()
    run_state_machine_as_test(Elections, settings=budget(int(os.environ.get("SOLOIST_ELECTIONS", "170"))))  # type: ignore[no-untyped-call]
    took = time.process_time() - began
    print(f"{Tally.steps} steps, {Tally.claims} claims, {Tally.heals} recoveries, {Tally.exempt} exempt, {took:.1f} s")
    assert Tally.steps >= LEAST_STEPS
    assert took < MOST_SECONDS


def same_host(record: LeaseRecord, me: Candidate) -> bool:
    return record.holder.split("_")[0] == me.identity.split("_")[0]


def anchored_at_the_reply(real: Callable[..., Standing]) -> Callable[..., Standing]:
    def landed(me: Candidate, known: Standing, record: LeaseRecord, boot: float) -> Standing:
        return real(me, replace(known, sent=tuple(replace(write, boot=boot) for write in known.sent)), record, boot)

    return landed


def no_evidence(me: Candidate, term: Term, record: LeaseRecord | None) -> None:
    return None


def at_once(me: Candidate, known: Standing) -> float:
    return known.changed_boot


FREE_AT = election.free_at
Patch = tuple[object, str, object]
MUTANTS: dict[str, tuple[str, list[Patch]]] = {
    "a release does not look at the holder": ("blanked", [(lease_writes, "is_mine", lambda record, me: True)]),
    "trust counts from the reply": (
        "believed leaders",
        [(hearing, "_landed", anchored_at_the_reply(hearing._landed))],
    ),
    "the identity is the host's name": (
        "believed leaders|read that it lost|blanked",
        [(module, "is_mine", same_host) for module in (hearing, lease_writes, standing)],
    ),
    "evidence is swallowed": ("read that it lost", [(hearing, "evidence", no_evidence)]),
    "a Lease without a holder is free at once": (
        "believed leaders",
        [
            (
                election,
                "free_at",
                lambda me, known: FREE_AT(me, known) if known.record and known.record.holder else at_once(me, known),
            )
        ],
    ),
    "a term's end is its last renewTime": (
        "acted at",
        [(LeaseRecord, "end", lambda self, lease: self.released_end or self.renew_time)],
    ),
    "renewTime follows the wall clock": (
        "went back|acted at|ahead of true time",
        [(lease_writes, "next_renew_time", lambda term, wall, boot: wall)],
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_elector_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noticed_as, patches = MUTANTS[name]
    for owner, attribute, broken in patches:
        monkeypatch.setattr(owner, attribute, broken)
    with pytest.raises(AssertionError, match=noticed_as):
        run_state_machine_as_test(Elections, settings=budget(200))  # type: ignore[no-untyped-call]
