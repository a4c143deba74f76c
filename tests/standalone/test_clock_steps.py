"""The wall clock of a standalone leader steps, forwards and back: never twice, never more than 2 s early, nothing lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from soloist.domain.instants import parse_time
from tests.api.test_clock_steps import clock_of, step
from tests.cluster.children import until
from tests.standalone.crew import STEADY, Crew

pytestmark = pytest.mark.slow
STEPS = (0.9, -1.5, 0.95, -1.5, 0.0)
NO_EARLIER = timedelta(seconds=2)


def test_a_leader_whose_clock_steps_launches_no_tick_twice_and_one_whose_clock_is_wrong_gives_the_lease_up(
    crew: Crew,
) -> None:
    crew.env = dict(STEADY)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    for name in ("a", "b"):
        crew.ready(name, **clock_of(crew, name))  # type: ignore[arg-type]
    crew.backend.wait(3, path="/sweep", timeout=120)
    for offset in STEPS:
        step(crew, crew.leader().name, offset)  # type: ignore[arg-type]
        crew.backend.wait(len(crew.backend.received("/sweep")) + 2, path="/sweep", timeout=120)
    wrong = crew.leader().name
    step(crew, wrong, 7.0)  # type: ignore[arg-type]
    crew.leader(other_than=wrong)
    until(lambda: "ClockSkew" in crew.members[wrong].log(), what="it says why", timeout=120)
    crew.backend.wait(len(crew.backend.received("/sweep")) + 3, path="/sweep", timeout=120)
    page = crew.page("sweep", datetime.now(UTC) - timedelta(seconds=1))
    assert (page.twice, page.lost) == ([], [])
    for seen in crew.backend.received("/sweep"):
        tick = parse_time(seen.header("Soloist-Scheduled-Time"))
        assert tick is not None
        assert seen.at > tick - NO_EARLIER
