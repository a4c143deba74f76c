"""One elector, stepped by hand on a Lease in memory: what it hands on, in which order, and how it gives it back."""

from __future__ import annotations

import json
import threading
from datetime import timedelta

from soloist.domain.errors import TransientError
from soloist.domain.holder_pod import HolderPod, OwnPod
from soloist.domain.lease import HOLDER_POD, TERM_ENDS, parse
from soloist.domain.standing import Candidate
from soloist.domain.term import Term
from soloist.loops.election_ports import Hooks
from soloist.loops.elector import Elector
from tests.loops.election_stage import Stage

OWN = HolderPod(namespace="x", name="pod-a", uid="u-a", container_id="containerd://a")


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
