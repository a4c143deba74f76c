"""concurrencyPolicy: what each makes of a run that is due while others stand in its way."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.gate import MOST_ACTIVE, Occupant, Standing, Verdict, blockers, judge, retry_blockers
from soloist.domain.parsing import parse_spec
from soloist.domain.runs import Run, Trigger
from soloist.domain.spec import Spec

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
GO, WAIT, SKIP, CANCEL = Verdict.GO, Verdict.WAIT, Verdict.SKIP, Verdict.CANCEL_FIRST


def spec(policy: str) -> Spec:
    raw: dict[str, Any] = {"schedule": "@hourly", "http": {"url": "http://backend/"}, "concurrencyPolicy": policy}
    found = parse_spec(raw)
    assert isinstance(found, Spec)
    return found


def run(uid: str, minute: int = 0) -> Run:
    at = NOON + timedelta(minutes=minute)
    return Run(
        namespace="shop",
        name=uid,
        uid=uid,
        resource_version="1",
        job_uid="job",
        job_name="sweep",
        trigger=Trigger.SCHEDULE,
        tick=at,
        lease="shop/soloist",
        epoch=1,
        created=at,
    )


def other(standing: Standing, *, mine: bool = True, uid: str = "other", minute: int = 0) -> Occupant:
    return Occupant(uid=uid, run=run(uid, minute), standing=standing, mine=mine)


GOING, WAITING, HELD = other(Standing.GOING), other(Standing.WAITING), other(Standing.HELD)
STRANGE = other(Standing.GOING, mine=False)


@pytest.mark.parametrize(
    ("policy", "blocking", "patient", "verdict"),
    [
        pytest.param("Forbid", (), False, GO, id="nobody is in the way"),
        pytest.param("Forbid", (GOING,), False, SKIP, id="Forbid skips a tick behind one that goes on"),
        pytest.param("Forbid", (HELD,), False, SKIP, id="or behind one of which nobody knows"),
        pytest.param("Forbid", (GOING,), True, WAIT, id="a missed tick under RunAll waits for its turn"),
        pytest.param("Queue", (GOING,), False, WAIT, id="Queue waits"),
        pytest.param("Replace", (GOING,), False, CANCEL, id="Replace stops what it can stop"),
        pytest.param("Replace", (WAITING,), False, CANCEL, id="or what waits for a further attempt"),
        pytest.param("Replace", (STRANGE,), False, WAIT, id="and waits for what a former leader launched"),
        pytest.param("Replace", (GOING, STRANGE), False, WAIT, id="if one of several cannot be stopped, none is"),
        pytest.param("Allow", (GOING, STRANGE), False, GO, id="Allow runs beside the others"),
        pytest.param("Allow", (GOING,) * (MOST_ACTIVE - 1), False, GO, id="up to its bound"),
        pytest.param("Allow", (GOING,) * MOST_ACTIVE, False, SKIP, id="and no further"),
    ],
)
def test_each_policy_has_its_word(policy: str, blocking: tuple[Occupant, ...], patient: bool, verdict: Verdict) -> None:
    """k8s #76570, #93783, #125493, #138569 and temporal #4911 for the bound, argo #12778 and kubernetes/website #54073 for Forbid."""
    assert judge(spec(policy), blocking, patient=patient) is verdict


@pytest.mark.parametrize("standing", list(Standing))
def test_a_first_launch_is_blocked_by_what_goes_on_waits_or_is_held(standing: Standing) -> None:
    counts = standing in (Standing.GOING, Standing.WAITING, Standing.HELD)
    assert bool(blockers([other(standing)], run("new", 1))) is counts
    assert bool(blockers([other(standing)], None)) is counts
    assert not blockers([other(standing, uid="new")], run("new", 1)), "and never by itself"


def test_what_a_person_started_is_in_the_way_and_is_held_up_like_a_tick() -> None:
    """nomad #5487, temporal/sdk-typescript #1594; k8s #110430, #100927, #115335 for Replace."""
    of_the_schedule, by_hand = run("tick"), replace(run("by-hand"), trigger=Trigger.MANUAL, tick=None)
    for going, new in ((of_the_schedule, by_hand), (by_hand, of_the_schedule)):
        blocking = blockers([Occupant(uid=going.uid, run=going, standing=Standing.GOING, mine=True)], new)
        verdicts = [judge(spec(policy), blocking) for policy in ("Forbid", "Queue", "Replace", "Allow")]
        assert verdicts == [SKIP, WAIT, CANCEL, GO]


def test_of_two_that_wait_for_a_further_attempt_only_the_earlier_blocks_the_other() -> None:
    early, late = other(Standing.WAITING, uid="early", minute=0), other(Standing.WAITING, uid="late", minute=1)
    assert retry_blockers([early, late], run("late", 1)) == (early,)
    assert retry_blockers([early, late], run("early", 0)) == ()


def test_a_further_attempt_is_blocked_by_what_goes_on_or_is_held_be_it_later() -> None:
    for standing in (Standing.GOING, Standing.HELD):
        assert retry_blockers([other(standing, minute=9)], run("early", 0))
    for standing in (Standing.UNLAUNCHED, Standing.OVER):
        assert not retry_blockers([other(standing, minute=-9)], run("late", 0))
