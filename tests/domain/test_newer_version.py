"""While an upgrade goes on two versions stand for one Lease: what a newer one wrote and this one does not know does no harm.

It goes back as it came, or reads as if it were absent, or, where something might be going on, keeps this version from starting it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain import protocol
from soloist.domain.holder_pod import published
from soloist.domain.instants import parse_time, stamp
from soloist.domain.lease import parse
from soloist.domain.lease_bodies import held_body, released_body, taken_body
from soloist.domain.merge_patch import merged
from soloist.domain.parsing import parse_job
from soloist.domain.runs import Phase
from soloist.domain.slot_memory import remembered, with_memories
from soloist.domain.status import compose
from soloist.domain.steps import Wait, WriteJob
from tests.domain.test_written_by_hand import EPOCH, NOON, RUN, a_view, recorded

HELD = {"acquireTime": "2026-03-02T11:00:00.000000Z", "renewTime": "2026-03-02T12:00:00.000000Z"}
POD = {"namespace": "shop", "name": "a", "uid": "p", "containerID": "containerd://1", "node": "later"}
ANNOTATIONS = {
    "soloist.dev/epoch": str(EPOCH),
    "soloist.dev/nonce": "n1",
    "soloist.dev/version": "2.0.0",
    "soloist.dev/term-ends": json.dumps([[EPOCH - 5, "2026-03-02T11:00:00.000000Z"], [EPOCH - 1, "later", "later"], {"a": 1}]),
    "soloist.dev/holder-pod": json.dumps(POD),
}  # fmt: skip
LEASE: dict[str, Any] = {
    "metadata": {"namespace": "shop", "name": "soloist", "uid": "l", "annotations": ANNOTATIONS},
    "spec": {"holderIdentity": "a_p_n1", "leaseDurationSeconds": 10, "strategy": "OldestEmulationVersion", **HELD},
}


def test_what_it_put_on_the_lease_besides_is_read_over() -> None:
    read = parse(LEASE)
    assert (read.holder, read.epoch, read.own_words) == ("a_p_n1", EPOCH, True)
    assert read.term_ends == {EPOCH - 5: datetime(2026, 3, 2, 11, tzinfo=UTC)}, "an end in other words is not known"
    pod = published(ANNOTATIONS["soloist.dev/holder-pod"])
    assert pod is not None
    assert pod.container_id == "containerd://1"


def test_a_release_in_more_words_is_one() -> None:
    said = {"epoch": EPOCH, "end": "2026-03-02T12:00:01.000000Z", "by": "the parent"}
    annotations = {**ANNOTATIONS, "soloist.dev/released": json.dumps(said)}
    spec = {**LEASE["spec"], "holderIdentity": ""}
    assert parse({"metadata": {**LEASE["metadata"], "annotations": annotations}, "spec": spec}).released


def test_what_it_put_on_the_lease_goes_back_as_it_came() -> None:
    held = held_body(
        LEASE, holder="b_q_n2", nonce="n2", epoch=EPOCH + 9, renew_time=NOON, lease=10, ends=parse(LEASE).term_ends, pod=None
    )  # fmt: skip
    for body in (
        held,
        taken_body(held, acquire_time=NOON, transitions=2),
        released_body(held, epoch=EPOCH + 9, end=NOON),
    ):
        assert body["metadata"]["annotations"]["soloist.dev/version"] == "2.0.0"
        assert body["spec"]["strategy"] == "OldestEmulationVersion"


def test_a_slot_that_it_granted_is_granted_no_more() -> None:
    memory = {"last": stamp(NOON), "epoch": EPOCH, "token": "t", "missed": [{"why": "later"}], "asked": 3}
    raw = {"metadata": {"annotations": {"soloist.dev/slots": json.dumps({"300s": memory, "later": 1})}}}
    assert remembered(raw)["300s"].last == NOON
    kept = remembered(with_memories(raw, remembered(raw)))
    assert (kept["300s"].last, kept["300s"].missed) == (NOON, ())


def newer_status(*, watermark: datetime, **more: Any) -> dict[str, Any]:
    conditions = [
        {"type": "Later", "status": "True", "reason": "Later", "message": "", "lastTransitionTime": stamp(NOON)}
    ]
    recent = [
        {"result": "LaterReason", "first": stamp(NOON), "last": stamp(NOON), "count": 1, "message": "", "later": 1}
    ]
    said = {"later": {"at": 1}, "counters": {"launched": 3, "later": 2}, "recent": recent, "conditions": conditions}
    return {**said, "watermark": stamp(watermark), **more}


def test_what_it_put_into_a_status_stays_there() -> None:
    status = newer_status(watermark=NOON - timedelta(hours=1))
    view = a_view(status=status)
    after = merged(status, compose(view, WriteJob(watermark=NOON)))
    assert (after["later"], after["counters"]["later"]) == ({"at": 1}, 2)
    assert "LaterReason" in {line["result"] for line in after["recent"]}
    assert "Later" in {condition["type"] for condition in after["conditions"]}
    assert parse_time(after["watermark"]) == NOON


def test_what_it_put_into_an_entry_costs_the_entry_nothing() -> None:
    (entry,) = recorded(EPOCH - 1)["active"]
    metadata = {"namespace": "shop", "name": "sweep", "uid": "u", "resourceVersion": "1"}
    job = parse_job({"metadata": metadata, "status": {"active": [{**entry, "later": {"at": 1}, "action": "later"}]}})
    assert [(each.uid, each.epoch, each.action) for each in job.active] == [("r", EPOCH - 1, "later")]


RUNS = {
    "for a time, recorded by the newer one": (RUN["spec"], recorded(EPOCH - 1)),
    "for a time, and accounted for": (RUN["spec"], {"watermark": stamp(NOON)}),
    "by hand, recorded by the newer one": ({"scheduledJobName": "sweep", "trigger": "Manual"}, recorded(EPOCH - 1)),
    "by hand, and accounted for": ({"scheduledJobName": "sweep", "trigger": "Manual"}, {"watermark": stamp(NOON)}),
}


@pytest.mark.parametrize(("spec", "status"), RUNS.values(), ids=RUNS)
def test_a_run_in_a_phase_that_only_it_knows_is_left_alone(spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Not launched, now or by a right that is given now, and not called anything else. What it may hold up it holds up."""
    said = {"phase": "LaterPhase", "attempt": 1, "epoch": EPOCH - 1}
    view = a_view(status=status, run={"metadata": RUN["metadata"], "spec": spec, "status": said})
    assert view.runs[0].phase is Phase.UNKNOWN
    step = protocol.decide(view)
    assert isinstance(step, WriteJob | Wait), step
    if isinstance(step, WriteJob):
        assert (step.add, step.drop) == ((), ())
