"""One elector, stepped by hand on a Lease in memory: what it hands on, in which order, and how it ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.holder_pod import HolderPod, OwnPod
from soloist.domain.lease import HOLDER_POD, TERM_ENDS, Raw, parse
from soloist.domain.standing import Candidate, identity_of
from soloist.domain.term import Term
from soloist.loops.election_ports import Hooks
from soloist.loops.elector import Elector
from tests.fake_lease import FakeLease

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
OWN = HolderPod(namespace="x", name="pod-a", uid="u-a", container_id="containerd://a")


class Clock:
    """Both clocks, moved by the test."""

    def __init__(self) -> None:
        self.boot, self.offset = 1000.0, timedelta()

    def boottime(self) -> float:
        return self.boot

    def now(self) -> datetime:
        return self.true() + self.offset

    def true(self) -> datetime:
        return NOON + timedelta(seconds=self.boot - 1000.0)


class Stage:
    """A clock, a Lease, and electors whose every word is kept in ``said``."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.api = FakeLease(self.clock.true)
        self.said: list[tuple[str, Any]] = []
        self.needed: Callable[[], set[int] | None] = lambda: None

    def elector(self, name: str, *, own: OwnPod | HolderPod | None = None) -> Elector:
        me = Candidate(identity=identity_of(name, "u", f"n-{name}"), nonce=f"n-{name}", namespace="x", name="l")

        def say(word: str) -> Callable[..., None]:
            return lambda *what: self.said.append((f"{name} {word}", *what))  # type: ignore[arg-type]

        hooks = Hooks(
            renewed=say("renewed"), elected=say("elected"), lost=say("lost"), released=say("released"),
            noticed=say("noticed"), follow=say("follows"), needed_epochs=lambda: self.needed(),
        )  # fmt: skip
        return Elector(me, self.api, self.clock, hooks=hooks, stagger=lambda: 0.0, own=own)

    def run(self, *electors: Elector, seconds: float) -> None:
        """Let time pass, a tenth of a second at a time; nobody sleeps."""
        until = self.clock.boot + seconds
        while self.clock.boot < until:
            for elector in electors:
                for _ in range(4):
                    if not elector.join(0):
                        elector.step()
            self.clock.boot += 0.1

    def words(self) -> list[str]:
        return [word for word, *_ in self.said]

    @property
    def lease(self) -> Raw:
        assert self.api.lease is not None
        return self.api.lease


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(threading.Event, "wait", lambda self, timeout=None: self.is_set())
    return Stage()


def test_the_first_candidate_leads_and_each_renewal_is_said_before_the_term_is_handed_on(stage: Stage) -> None:
    seen: list[Term | None] = []
    elector = stage.elector("a")
    hooks = elector._hooks
    object.__setattr__(hooks, "renewed", lambda term: seen.append(elector.term()))
    stage.run(elector, seconds=1)
    assert seen == [None]
    assert stage.words() == ["a elected"]
    first = elector.term()
    assert first is not None
    stage.run(elector, seconds=2)
    assert seen == [None, first]
    assert elector.term() != first


def test_a_follower_waits_a_full_lease_after_the_last_change(stage: Stage) -> None:
    a, b = stage.elector("a"), stage.elector("b")
    stage.run(a, b, seconds=5)
    last = parse(stage.lease).renew_time
    assert last is not None
    stage.run(b, seconds=30)
    term = b.term()
    assert term is not None
    acquired = parse(stage.lease).acquire_time
    assert acquired is not None
    assert timedelta(seconds=10) <= acquired - last < timedelta(seconds=12.3)


def test_a_release_is_taken_over_at_once_and_dates_the_term(stage: Stage) -> None:
    a, b = stage.elector("a"), stage.elector("b")
    stage.run(a, b, seconds=5)
    term = a.term()
    assert term is not None
    end = term.now(stage.clock.boottime())
    drained = threading.Event()
    drained.set()
    a.stop(drained)
    stage.run(a, seconds=0.1)
    b.seen(stage.api.lease)
    stage.run(b, seconds=0.2)
    successor = b.term()
    assert successor is not None
    assert successor.past_ends[term.epoch] == end
    assert successor.epoch > term.epoch
    assert "a lost" not in stage.words()
    assert stage.words().count("a released") == 1


def test_a_stopped_leader_renews_until_its_runs_have_drained(stage: Stage) -> None:
    a = stage.elector("a")
    stage.run(a, seconds=1)
    drained = threading.Event()
    a.stop(drained)
    stage.run(a, seconds=25)
    assert a.term() is not None
    assert parse(stage.lease).holder
    drained.set()
    stage.run(a, seconds=0.3)
    assert a.term() is None
    assert parse(stage.lease).released


def test_a_stopped_standby_leaves_the_lease_alone(stage: Stage) -> None:
    a, b = stage.elector("a"), stage.elector("b")
    stage.run(a, b, seconds=3)
    before, asked = stage.lease, len(stage.api.asked)
    b.stop(threading.Event())
    stage.run(b, seconds=1)
    assert stage.words()[-1] == "b released"
    assert (stage.lease, len(stage.api.asked)) == (before, asked)


def test_a_stop_in_the_middle_of_a_claim_that_landed_gives_it_back(stage: Stage) -> None:
    a = stage.elector("a")
    stage.api.fault = lambda verb: TransientError("lost reply") if verb == "create" else None
    a.step()
    a.step()
    assert parse(stage.lease).holder
    drained = threading.Event()
    a.stop(drained)
    stage.run(a, seconds=1)
    assert parse(stage.lease).released
    assert "a elected" not in stage.words()


def test_a_claim_whose_reply_was_lost_counts_from_its_send(stage: Stage) -> None:
    a = stage.elector("a")
    stage.api.fault = lambda verb: TransientError("lost reply") if verb == "create" else None
    a.step()
    sent = stage.clock.boot
    a.step()
    stage.clock.boot += 1.5
    stage.run(a, seconds=0.1)
    term = a.term()
    assert term is not None
    assert term.started_boot == sent
    assert term.trusted_until == sent + 9


def unreachable(_verb: str) -> None:
    raise TransientError("refused", sent=False)


def test_a_leader_without_an_api_server_ends_once_when_its_trust_does(stage: Stage) -> None:
    a = stage.elector("a")
    stage.run(a, seconds=3)
    term = a.term()
    assert term is not None
    stage.api.fault = unreachable
    stage.run(a, seconds=term.trusted_until - stage.clock.boot - 0.2)
    assert a.term() is not None
    stage.run(a, seconds=30)
    assert a.term() is None
    assert [what for word, *what in stage.said if word == "a lost"] == [
        ["TrustEnded: Lease x/l could not be renewed for 9 s."]
    ]
    assert stage.words().count("a noticed") == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lease: lease["spec"].update(holderIdentity="kubectl"), "HolderChanged: Lease x/l is held by kubectl."),
        (lambda lease: lease["spec"].update(holderIdentity=""), "LeaseBlanked: Lease x/l names no holder any more."),
        (lambda lease: lease["metadata"].update(uid="other"), "LeaseReplaced: "),
        (lambda lease: lease["metadata"]["annotations"].update({"soloist.dev/nonce": "twin"}), "TwinDetected: "),
    ],
)
def test_evidence_ends_the_term_at_the_next_reading(stage: Stage, change: Callable[[Raw], None], reason: str) -> None:
    a = stage.elector("a")
    stage.run(a, seconds=3)
    changed = json.loads(json.dumps(stage.lease))
    change(changed)
    stage.api.write(changed)
    a.seen(stage.api.lease)
    stage.run(a, seconds=0.2)
    assert a.term() is None
    [lost] = [what[0] for word, *what in stage.said if word == "a lost"]
    assert lost.startswith(reason)
    after = stage.lease
    stage.run(a, seconds=30)
    assert stage.lease == after
    assert stage.words().count("a elected") == 1


def test_a_deleted_lease_ends_the_term_and_the_others_wait_all_the_same(stage: Stage) -> None:
    a, b = stage.elector("a"), stage.elector("b")
    stage.run(a, b, seconds=3)
    old = a.term()
    assert old is not None
    stage.api.lease = None
    stage.run(a, b, seconds=2.5)
    assert a.term() is None
    assert not parse(stage.lease).holder
    stage.run(b, seconds=7)
    assert b.term() is None
    stage.run(b, seconds=4)
    successor = b.term()
    assert successor is not None
    assert successor.epoch > old.epoch


def test_a_label_that_somebody_adds_costs_nobody_anything(stage: Stage) -> None:
    a, b = stage.elector("a"), stage.elector("b")
    stage.run(a, b, seconds=3)
    for number in range(100):
        labelled = json.loads(json.dumps(stage.lease))
        labelled["metadata"]["labels"] = {"n": str(number)}
        stage.api.write(labelled)
        stage.run(a, seconds=0.1)
    assert a.term() is not None
    for number in range(130):
        labelled = json.loads(json.dumps(stage.lease))
        labelled["metadata"]["labels"] = {"n": str(number)}
        stage.api.write(labelled)
        stage.run(b, seconds=0.1)
    assert b.term() is not None
    assert stage.lease["metadata"]["labels"]


def test_a_clock_that_is_off_takes_nothing_and_says_so(stage: Stage) -> None:
    a = stage.elector("a")
    stage.clock.offset = timedelta(seconds=-5)
    stage.run(a, seconds=20)
    assert a.term() is None
    assert [what[0] for word, *what in stage.said if word == "a noticed"] == ["ClockSkew"]
    stage.clock.offset = timedelta()
    stage.run(a, seconds=3)
    assert a.term() is not None


@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(hours=-1)])
def test_a_leader_whose_clock_steps_gives_up_and_its_term_clock_never_followed(stage: Stage, step: timedelta) -> None:
    a = stage.elector("a")
    stage.run(a, seconds=3)
    stage.clock.offset = step
    renewed = parse(stage.lease).renew_time
    stage.run(a, seconds=3)
    [lost] = [what[0] for word, *what in stage.said if word == "a lost"]
    assert lost.startswith("ClockSkew: ")
    last = parse(stage.lease).renew_time
    assert last is not None
    assert renewed is not None
    assert renewed <= last <= renewed + timedelta(seconds=4.5)


def test_the_kubelets_word_on_the_published_container_hands_over_at_once(stage: Stage) -> None:
    a, b = stage.elector("a", own=OWN), stage.elector("b")
    stage.run(a, b, seconds=5)
    assert json.loads(stage.lease["metadata"]["annotations"][HOLDER_POD])["containerID"] == "containerd://a"
    followed = [what[0] for word, *what in stage.said if word == "b follows"]
    assert followed == [OWN]
    dead = {"containerID": "containerd://a", "exitCode": 137}
    pod = {"metadata": {"namespace": "x", "name": "pod-a", "uid": "u-a"}}
    for state, counts in (({"waiting": {"reason": "ContainerStatusUnknown"}}, False), ({"terminated": dead}, True)):
        stage.api.pods["x", "pod-a"] = {**pod, "status": {"phase": "Failed", "containerStatuses": [{"state": state}]}}
        b.poke()
        stage.run(b, seconds=0.3)
        assert (b.term() is not None) == counts


def test_our_own_container_is_published_once_the_kubelet_says_that_it_runs(stage: Stage) -> None:
    started = stage.clock.now()
    a = stage.elector("a", own=OwnPod(namespace="x", name="pod-a", uid="u-a", container="c", started=started))
    running = {
        "name": "c",
        "containerID": "containerd://new",
        "state": {"running": {"startedAt": "2026-03-01T12:00:00Z"}},
    }
    stage.api.pods["x", "pod-a"] = {"metadata": {"uid": "u-a"}, "status": {"containerStatuses": [running]}}
    stage.run(a, seconds=4)
    assert HOLDER_POD not in stage.lease["metadata"]["annotations"]
    stage.run(a, seconds=6)
    assert json.loads(stage.lease["metadata"]["annotations"][HOLDER_POD])["containerID"] == "containerd://new"


def test_ends_of_terms_are_kept_while_a_run_may_need_them(stage: Stage) -> None:
    past: list[int] = []
    for name in "abcd":
        elector = stage.elector(name)
        stage.run(elector, seconds=3)
        term = elector.term()
        assert term is not None
        assert sorted(term.past_ends) == past
        past.append(term.epoch)
        drained = threading.Event()
        drained.set()
        if name != "d":
            elector.stop(drained)
            stage.run(elector, seconds=0.2)
    stage.needed = lambda: {past[1]}
    stage.run(elector, seconds=3)
    assert [epoch for epoch, _ in json.loads(stage.lease["metadata"]["annotations"][TERM_ENDS])] == [past[1]]
    assert term.past_ends.keys() == set(past[:3])


def test_a_pause_of_the_fleet_is_in_the_term_as_soon_as_it_is_seen(stage: Stage) -> None:
    a = stage.elector("a")
    stage.run(a, seconds=1)
    paused = json.loads(json.dumps(stage.lease))
    paused["metadata"]["annotations"]["soloist.dev/paused"] = "true: the database moves"
    stage.api.write(paused)
    a.seen(stage.api.lease)
    stage.run(a, seconds=0.2)
    term = a.term()
    assert term is not None
    assert term.fleet_paused == "true: the database moves"
    stage.run(a, seconds=3)
    assert stage.lease["metadata"]["annotations"]["soloist.dev/paused"] == "true: the database moves"


def test_a_twin_that_renews_is_reported_and_nothing_is_taken_from_it(stage: Stage) -> None:
    a = stage.elector("a")
    stage.run(a, seconds=1)
    twin = Elector(
        Candidate(identity="a_u_n-other", nonce="n-other", namespace="x", name="l"), stage.api, stage.clock,
        hooks=Hooks(noticed=lambda reason, message: stage.said.append(("twin", reason))), stagger=lambda: 0.0,
    )  # fmt: skip
    stage.run(a, twin, seconds=30)
    assert a.term() is not None
    assert [what for word, *what in stage.said if word == "twin"] == [["TwinDetected"]]


def test_a_hook_that_fails_ends_the_term(stage: Stage) -> None:
    a = stage.elector("a")

    def fails(_term: Term) -> None:
        raise RuntimeError("no page")

    object.__setattr__(a._hooks, "renewed", fails)
    a.run()
    assert a.term() is None
    assert [what for word, *what in stage.said if word == "a lost"] == [["ElectorFailed: RuntimeError: no page"]]


def test_a_refusal_is_reported_and_tried_again(stage: Stage) -> None:
    def refused(verb: str) -> None:
        raise PermanentError(f"{verb}: forbidden")

    a = stage.elector("a")
    stage.api.fault = refused
    stage.run(a, seconds=10)
    assert [what[0] for word, *what in stage.said if word == "a noticed"] == ["LeaseRefused"]
    stage.api.fault = lambda _verb: None
    stage.run(a, seconds=1)
    assert a.term() is not None


def test_a_watch_that_wakes_us_during_an_outage_makes_no_hot_loop(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = stage.elector("a")
    stage.run(a, seconds=1)
    stage.api.fault = unreachable
    waits: list[float | None] = []

    def wait(_event: threading.Event, timeout: float | None = None) -> bool:
        waits.append(timeout)
        stage.clock.boot += timeout or 0.0
        return False

    monkeypatch.setattr(threading.Event, "wait", wait)
    a.poke()
    steps, began = 0, stage.clock.boot
    while stage.clock.boot < began + 4:
        a.poke()
        a.step()
        steps += 1
    assert steps < 40
    assert all(timeout is not None and timeout > 0 for timeout in waits)
