"""Single rules of an election, each as a table or a sentence."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.election import decide
from soloist.domain.errors import ConfigError
from soloist.domain.hearing import heard
from soloist.domain.holder_pod import HolderPod, OwnPod, own_container, proves_dead, published
from soloist.domain.lease import EPOCH, NONCE, RELEASED, TERM_ENDS, Raw, parse
from soloist.domain.lease_bodies import micro_time, new_lease
from soloist.domain.lease_writes import claim, clock_skew, next_renew_time, release, renewal
from soloist.domain.standing import Candidate, Claim, Lost, Read, Renew, Standing, Wait, identity_of
from soloist.domain.term import Term, Timing

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
ME = Candidate(identity="a_u_n1", nonce="n1", namespace="x", name="l")


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def a_lease(annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    metadata = {"namespace": "x", "name": "l", "uid": "u1", "resourceVersion": "5", "annotations": annotations or {}}
    held = {
        "holderIdentity": "b_u_n2",
        "leaseDurationSeconds": 10,
        "renewTime": micro_time(NOON),
        "leaseTransitions": 3,
    }
    return {"kind": "Lease", "metadata": metadata, "spec": held | spec}


def known(raw: Raw | None, *, boot: float = 100.0) -> Standing:
    return heard(ME, Standing(), raw, boot=boot, skew=None)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"lease": 2.5}, "lease duration is 2.5 s: a Lease holds whole seconds"),
        ({"lease": 0.0}, "lease duration is 0 s"),
        ({"margin": 0.5}, "lease margin is 0.5 s: with a lease of 10 s write at least 1 s"),
        ({"margin": 5.0}, "less than 5 s"),
        ({"period": 4.0}, "lease retry period is 4 s: a lease of 10 s less a margin of 1 s must hold it three times"),
        ({"period": 0.01}, "write between 0.1 and 3 s"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_with_the_remedy(
    settings: dict[str, float], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Timing(**settings)


@pytest.mark.parametrize(
    ("lease", "period", "margin"), [(10, 2, 1), (3, 0.5, 0.4), (15, 4, 1.5), (1, 0.25, 0.1), (60, 18, 6)]
)
def test_three_tries_fit_between_two_renewals_and_the_end_of_trust(lease: float, period: float, margin: float) -> None:
    timing = Timing(lease=lease, period=period, margin=margin)
    assert period + 3 * timing.try_timeout <= timing.trust + 1e-9


def test_a_claim_says_who_when_and_the_end_of_the_term_it_replaces() -> None:
    older = json.dumps([[4, micro_time(NOON - seconds(60))]])
    standing = known(a_lease({EPOCH: "7", NONCE: "n2", TERM_ENDS: older, "example.org/x": "kept"}))
    body, sent = claim(ME, standing, wall=NOON + seconds(11.5), boot=111.5, pod='{"p": 1}')
    annotations, spec = body["metadata"]["annotations"], body["spec"]
    assert annotations["example.org/x"] == "kept"
    assert (annotations[NONCE], annotations["soloist.dev/holder-pod"]) == ("n1", '{"p": 1}')
    assert int(annotations[EPOCH]) == int((NOON + seconds(11.5)).timestamp() * 1_000_000)
    assert json.loads(annotations[TERM_ENDS]) == [
        [4, micro_time(NOON - seconds(60))],
        [7, micro_time(NOON + seconds(9))],
    ]
    assert spec == {
        "holderIdentity": "a_u_n1",
        "leaseDurationSeconds": 10,
        "acquireTime": "2026-03-01T12:00:11.500000Z",
        "renewTime": "2026-03-01T12:00:11.500000Z",
        "leaseTransitions": 4,
    }
    assert body["metadata"]["resourceVersion"] == "5"
    assert not sent.known


def test_an_epoch_rises_even_where_the_clock_is_behind() -> None:
    ahead = 2**54
    body, _ = claim(ME, known(a_lease({EPOCH: str(ahead)})), wall=NOON, boot=111.0, pod=None)
    assert body["metadata"]["annotations"][EPOCH] == str(ahead + 1)


@pytest.mark.parametrize(
    ("annotations", "spec", "end"),
    [
        ({EPOCH: "7", NONCE: "n2"}, {}, NOON + seconds(9)),
        ({EPOCH: "7", NONCE: "n2"}, {"leaseDurationSeconds": 20}, NOON + seconds(18)),
        ({EPOCH: "7", NONCE: "n2"}, {"leaseDurationSeconds": 1}, NOON + seconds(9)),
        ({EPOCH: "7", NONCE: "n2"}, {"holderIdentity": "kubectl"}, None),
        ({EPOCH: "7", NONCE: "n2"}, {"holderIdentity": ""}, None),
        ({EPOCH: "7", NONCE: "n2"}, {"renewTime": None}, None),
        ({NONCE: "n2"}, {}, None),
        (
            {EPOCH: "7", NONCE: "n2", RELEASED: json.dumps({"epoch": 7, "end": micro_time(NOON + seconds(3))})},
            {"holderIdentity": "", "leaseDurationSeconds": 1},
            NOON + seconds(3),
        ),
        (
            {EPOCH: "7", NONCE: "n2", RELEASED: json.dumps({"epoch": 6, "end": micro_time(NOON + seconds(3))})},
            {"holderIdentity": "", "leaseDurationSeconds": 1},
            None,
        ),
    ],
)
def test_the_end_of_the_term_before_is_stamped_computed_or_not_known(
    annotations: dict[str, str], spec: dict[str, Any], end: datetime | None
) -> None:
    body, _ = claim(ME, known(a_lease(annotations, **spec)), wall=NOON, boot=111.0, pod=None)
    ends = dict(json.loads(body["metadata"]["annotations"][TERM_ENDS]))
    assert ends == ({7: micro_time(end)} if end is not None else {})


def test_at_most_two_hundred_ends_are_kept_the_newest() -> None:
    many = json.dumps([[epoch, micro_time(NOON)] for epoch in range(1, 400)])
    body, _ = claim(ME, known(a_lease({EPOCH: "400", NONCE: "n2", TERM_ENDS: many})), wall=NOON, boot=111.0, pod=None)
    ends = json.loads(body["metadata"]["annotations"][TERM_ENDS])
    assert [epoch for epoch, _ in ends] == list(range(201, 401))


@pytest.mark.parametrize(
    ("raw", "free"),
    [
        (a_lease({EPOCH: "7", NONCE: "n2"}), 110.0),
        (a_lease({EPOCH: "7", NONCE: "n2"}, leaseDurationSeconds=30), 130.0),
        (a_lease({EPOCH: "7", NONCE: "n2"}, leaseDurationSeconds=1), 110.0),
        (a_lease({EPOCH: "7", NONCE: "n2"}, holderIdentity=""), 110.0),
        (a_lease({EPOCH: "7", RELEASED: json.dumps({"epoch": 7, "end": micro_time(NOON)})}, holderIdentity=""), 100.0),
        (a_lease({EPOCH: "7", RELEASED: "{garbage"}, holderIdentity=""), 110.0),
        (a_lease(holderIdentity="kubectl", renewTime=None), 110.0),
        ({**a_lease(), "spec": {}}, 100.0),
        (None, 100.0),
    ],
)
def test_a_lease_is_free_after_its_wait_or_at_once_where_it_was_released_or_never_held(
    raw: Raw | None, free: float
) -> None:
    standing = known(raw)
    for boot in (100.0, 101.9):
        expected = Claim() if boot >= free else Wait(until=min(102.0, free))
        assert decide(ME, standing, boot) == expected
    later = heard(ME, standing, raw, boot=free, skew=None)
    assert decide(ME, later, free) == Claim()


def leading(*, boot: float = 100.0) -> Standing:
    body, sent = claim(ME, known(None, boot=boot), wall=NOON, boot=boot, pod=None)
    body["metadata"] |= {"uid": "u1", "resourceVersion": "6"}
    return heard(ME, sent, body, boot=boot + 0.5, skew=None)


def test_trust_counts_from_the_send() -> None:
    term = leading().term
    assert term is not None
    assert (term.started_boot, term.trusted_until) == (100.0, 109.0)
    assert term.trusted(108.999)
    assert not term.trusted(109.0)


def test_a_leader_renews_each_period_and_is_lost_at_the_end_of_its_trust() -> None:
    standing = leading()
    assert decide(ME, standing, 101.0) == Wait(until=102.0)
    assert decide(ME, standing, 102.0) == Renew()
    _, sent = renewal(ME, standing, wall=NOON + seconds(2), boot=102.0, pod=None, needed=None)
    assert decide(ME, sent, 104.0) == Read()
    assert isinstance(decide(ME, sent, 109.0), Lost)


def test_a_pause_of_the_fleet_is_taken_up_by_a_renewal_at_once() -> None:
    standing = leading()
    assert standing.record is not None
    raw = json.loads(json.dumps(standing.record.raw))
    raw["metadata"]["annotations"]["soloist.dev/paused"] = "true"
    assert decide(ME, heard(ME, standing, raw, boot=101.0, skew=None), 101.0) == Renew()


@pytest.mark.parametrize(
    ("wall", "renewed"),
    [(2.0, 2.0), (2.7, 2.7), (1.2, 2.0), (-3600.0, 2.0), (3600.0, 4.0)],
)
def test_renew_time_neither_goes_back_nor_follows_a_step(wall: float, renewed: float) -> None:
    term = leading().term
    assert term is not None
    assert next_renew_time(term, wall=NOON + seconds(wall), boot=102.0) == NOON + seconds(renewed)


@pytest.mark.parametrize(
    ("shown", "latency", "off"),
    [
        (0.0, 0.0, False),
        (0.999, 0.0, False),
        (2.0, 0.0, False),
        (2.1, 0.0, True),
        (-1.9, 0.0, False),
        (-2.1, 0.0, True),
        (-3.0, 1.5, False),
    ],
)
def test_a_clock_is_off_beyond_two_seconds_and_the_way_there_and_back(shown: float, latency: float, off: bool) -> None:
    assert (clock_skew(NOON + seconds(shown), NOON, latency=latency) is not None) == off
    assert clock_skew(NOON + seconds(shown), None, latency=latency) is None


def test_only_what_is_ours_is_released() -> None:
    ours = leading().record
    assert ours is not None
    assert release(ME, ours, epoch=1, end=NOON) is not None
    assert release(ME, parse(a_lease()), epoch=1, end=NOON) is None
    assert release(ME, None, epoch=1, end=NOON) is None


GARBAGE: list[Any] = [
    None,
    "",
    "x",
    "{",
    "[]",
    "[[1]]",
    '[["a","b"]]',
    "[" * 5000,
    "1e999",
    "-5",
    "9" * 400,
    str(2**63 - 3),
    '{"epoch": {}}',
    "null",
]


@pytest.mark.parametrize("text", GARBAGE)
def test_garbage_in_the_annotations_is_read_as_absent(text: Any) -> None:
    garbage = {} if text is None else dict.fromkeys((EPOCH, TERM_ENDS, RELEASED, "soloist.dev/holder-pod"), text)
    record = parse(a_lease(garbage))
    assert (record.epoch, record.released_end, dict(record.term_ends)) == (None, None, {})
    assert published(text) is None
    body, _ = claim(ME, known(a_lease(garbage)), wall=NOON, boot=111.0, pod=None)
    assert int(body["metadata"]["annotations"][EPOCH]) == int(NOON.timestamp() * 1_000_000)


@pytest.mark.parametrize(
    "spec", [{"renewTime": "yesterday"}, {"renewTime": "9999-12-31T23:59:59Z"}, {"acquireTime": "2026-03-01T12:00:00"}]
)
def test_times_that_make_no_sense_are_read_as_absent(spec: dict[str, str]) -> None:
    record = parse(a_lease(**spec))
    assert getattr(record, "renew_time" if "renewTime" in spec else "acquire_time") is None


def test_an_identity_ends_in_its_nonce() -> None:
    assert identity_of("pod", "uid", "n") == "pod_uid_n"
    with pytest.raises(ConfigError, match="must end in the nonce"):
        Candidate(identity="host", nonce="n", namespace="x", name="l")


def test_a_new_lease_has_no_resource_version() -> None:
    assert "resourceVersion" not in new_lease("x", "l")["metadata"]


HOLDER = HolderPod(namespace="x", name="p", uid="u", container_id="cri://1")
ENDED = {"terminated": {"containerID": "cri://1", "exitCode": 137}}


def a_pod(*statuses: dict[str, Any], kind: str = "containerStatuses", uid: str = "u", **status: Any) -> Raw:
    return {"metadata": {"namespace": "x", "name": "p", "uid": uid}, "status": {kind: list(statuses), **status}}


@pytest.mark.parametrize(
    ("pod", "dead"),
    [
        (a_pod({"state": ENDED}), True),
        (a_pod({"state": {"running": {}}, "lastState": ENDED}), True),
        (a_pod({"state": ENDED}, kind="initContainerStatuses"), True),
        (a_pod({"state": ENDED}, uid="another"), False),
        (a_pod({"state": {"terminated": {"containerID": "cri://2"}}}), False),
        (a_pod({"state": {"terminated": {"reason": "ContainerStatusUnknown"}}}), False),
        (a_pod({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}, phase="Failed", reason="NodeLost"), False),
        (a_pod(phase="Failed"), False),
        ({"metadata": {"namespace": "x", "name": "p", "uid": "u"}}, False),
    ],
)
def test_only_the_end_of_the_very_container_proves_a_holder_dead(pod: Raw, dead: bool) -> None:
    assert proves_dead(HOLDER, pod) == dead
    assert published(HOLDER.text()) == HOLDER


@pytest.mark.parametrize(
    ("started", "now", "last", "certain"),
    [
        (0.4, 6.0, {}, True),
        (0.4, 4.0, {}, False),
        (90.0, 600.0, {}, False),
        (0.4, 6.0, ENDED, False),
    ],
)
def test_our_own_container_is_published_only_when_it_is_certainly_ours(
    started: float, now: float, last: dict[str, Any], certain: bool
) -> None:
    own = OwnPod(namespace="x", name="p", uid="u", container="c", started=NOON + seconds(started))
    status = {
        "name": "c",
        "containerID": "cri://1",
        "state": {"running": {"startedAt": "2026-03-01T12:00:00Z"}},
        "lastState": last,
    }
    found = own_container(own, a_pod(status), now=NOON + seconds(now))
    assert found == (HOLDER if certain else None)


def test_the_term_clock_runs_from_the_last_good_renewal() -> None:
    term = leading().term
    assert isinstance(term, Term)
    assert term.now(103.25) == NOON + seconds(3.25)
