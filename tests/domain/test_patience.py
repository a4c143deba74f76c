"""Under RunAll a missed tick waits for its turn where Forbid would skip an ordinary one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.launching import is_patient
from soloist.domain.parsing import parse_job
from soloist.domain.spec import Spec
from soloist.domain.ticks import LATE
from soloist.domain.view import View

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def a_view(*, since_the_lease: float, missed: str = "RunAll") -> View:
    """It is noon; this leader took the Lease so many seconds ago."""
    meta: dict[str, Any] = {"namespace": "shop", "name": "sweep", "uid": "u", "resourceVersion": "1", "generation": 1}
    meta["creationTimestamp"] = (NOON - timedelta(hours=1)).isoformat()
    spec = {"schedule": "@every 1s", "http": {"url": "http://backend/"}, "missedRunPolicy": missed}
    job = parse_job({"metadata": meta, "spec": spec})
    assert isinstance(job.spec, Spec)
    return View(
        job=job,
        spec=job.spec,
        runs=(),
        memory={},
        epoch=1,
        lease="shop/soloist",
        term_started=1000.0 - since_the_lease,
        past_ends={},
        fleet_paused=False,
        now=NOON,
        boot=1000.0,
        claim_ahead=timedelta(seconds=5),
        record_ahead=timedelta(seconds=2),
        taken={},
    )


@pytest.mark.parametrize(
    ("age", "since_the_lease", "patient"),
    [
        pytest.param(3.0, 2.0, True, id="a tick from before this term, however short the hand-over"),
        pytest.param(1.0, 2.0, False, id="a tick of this term, a little late"),
        pytest.param(LATE.total_seconds() + 1, 60.0, True, id="a tick of this term, very late"),
    ],
)
def test_what_was_missed_waits_and_what_is_ordinary_does_not(age: float, since_the_lease: float, patient: bool) -> None:
    tick = NOON - timedelta(seconds=age)
    assert is_patient(a_view(since_the_lease=since_the_lease), tick) is patient


def test_only_run_all_makes_ticks_wait() -> None:
    assert not is_patient(a_view(since_the_lease=2.0, missed="RunLatest"), NOON - timedelta(seconds=3))
