"""One elector, stepped by hand on a Lease in memory: what ends its term, what does not, and what it says of either."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.lease import Raw, parse
from soloist.domain.term import Term
from soloist.loops.elector import Elector
from tests.loops.election_stage import Stage


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


def test_a_leader_that_slept_past_its_trust_renews_nothing_on_waking_though_nobody_has_taken_the_lease(
    stage: Stage,
) -> None:
    a, b = stage.elector("a"), stage.elector("b")
    stage.run(a, b, seconds=3)
    term = a.term()
    assert term is not None
    asked = len(stage.api.asked)
    stage.clock.boot += 100.0  # nobody takes a step meanwhile: the clock that threads wait by stood still
    assert a.term() == term, "it is asked whether it may be trusted"
    assert not term.trusted(stage.clock.boot)
    stage.run(a, seconds=0.1)
    assert a.term() is None
    assert len(stage.api.asked) == asked
    assert [what for word, *what in stage.said if word == "a lost"] == [
        ["TrustEnded: Lease x/l could not be renewed for 9 s."]
    ]
    stage.run(b, seconds=13)
    successor = b.term()
    assert successor is not None
    assert successor.epoch > term.epoch


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

    def otherwise(_verb: str) -> None:
        raise PermanentError("no such table")

    a = stage.elector("a")
    stage.api.fault = refused
    stage.run(a, seconds=10)
    assert [what for word, *what in stage.said if word == "a noticed"] == [["LeaseRefused", "read: forbidden"]]
    stage.api.fault = otherwise
    stage.run(a, seconds=10)
    assert [what[1] for word, *what in stage.said if word == "a noticed"] == ["read: forbidden", "no such table"]
    stage.api.fault = lambda _verb: None
    stage.run(a, seconds=1)
    assert a.term() is not None


def test_whoever_may_not_read_or_write_the_lease_says_so_until_it_may(stage: Stage) -> None:
    for forbidden in ("create", "read", "replace"):  # there is none before the first
        name = f"of {forbidden}"

        def refused(verb: str, forbidden: str = forbidden) -> None:
            if verb == forbidden:
                raise PermanentError(f"may not {verb}")

        one = stage.elector(name)
        assert one.refused() == "", "nothing is known yet"
        stage.api.fault = refused
        stage.run(one, seconds=30)
        assert (one.term(), one.refused()) == (None, f"may not {forbidden}")
        stage.api.fault = lambda _verb: None
        stage.run(one, seconds=30)
        assert one.refused() == ""
        assert one.term() is not None
        give_up(one, stage)


def test_whoever_was_refused_a_write_that_it_needs_no_more_is_a_standby(stage: Stage) -> None:
    def refused(verb: str) -> None:
        if verb == "create":
            raise PermanentError("may not create")

    a, b = stage.elector("a"), stage.elector("b")
    stage.api.fault = refused
    stage.run(a, seconds=5)
    assert a.refused() == "may not create"
    stage.api.fault = lambda _verb: None
    stage.run(b, seconds=1)
    assert b.term() is not None
    stage.run(a, b, seconds=15)
    assert (a.term(), a.refused()) == (None, "")


def test_a_standby_that_could_not_read_is_one_again_when_it_can(stage: Stage) -> None:
    def refused(verb: str) -> None:
        raise PermanentError(f"may not {verb}")

    a, b = stage.elector("a"), stage.elector("b")
    stage.run(a, seconds=1)
    stage.api.fault = refused
    stage.run(b, seconds=5)
    assert b.refused() == "may not read"
    stage.api.fault = lambda _verb: None
    stage.run(a, b, seconds=5)
    assert (a.term() is not None, b.term(), b.refused()) == (True, None, "")


def give_up(one: Elector, stage: Stage) -> None:
    drained = threading.Event()
    drained.set()
    one.stop(drained)
    stage.run(one, seconds=1)


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
