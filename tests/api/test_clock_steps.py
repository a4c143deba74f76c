"""The wall clock of a leader's machine steps, forwards and back: never twice, never more than 2 s early, nothing lost.

The step is made in the controller's own clock, by a ``sitecustomize`` that adds what a file says to every reading; the API
server, the backend and the test have the right time.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from soloist.domain.instants import parse_time
from tests.api.crew import Crew, audit
from tests.api.going_on import told
from tests.api.tending import (
    EVERY_TICK,
    KEEP,
    Crews,
    attempts_ascend,
    is_false,
    leads,
    logged,
    nothing_twice_or_early,
    now,
    start_each,
    through,
)
from tests.cluster.backend import Backend
from tests.cluster.children import until

pytestmark = pytest.mark.cluster

SITE = """
import os
from datetime import timedelta
from pathlib import Path

from soloist.adapters.clock import SystemClock

right, offset = SystemClock.now, Path(os.environ["TEST_CLOCK_OFFSET"])
SystemClock.now = lambda self: right(self) + timedelta(seconds=float(offset.read_text()))
"""
STEPS = (0.9, -1.5, 0.95, -1.5, 0.0)
"""Seconds off. From +1 on some readings count as skewed, since the API server's Date is cut to whole seconds."""


def clock_of(crew: Crew, name: str, offset: float = 0.0) -> dict[str, str]:
    """Variables that give one controller a clock of its own."""
    site = crew.folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE)
    step(crew, name, offset)
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "TEST_CLOCK_OFFSET": str(offset_file(crew, name))}


def offset_file(crew: Crew, name: str) -> Path:
    return crew.folder / f"{name}.offset"


def step(crew: Crew, name: str, offset: float) -> None:
    made = crew.folder / f"{name}.offset.new"
    made.write_text(str(offset))
    made.replace(offset_file(crew, name))


def passed(since: datetime, seconds: float) -> None:
    until(lambda: now() - since > timedelta(seconds=seconds), what=f"{seconds} s have passed", timeout=seconds + 60)


def often(crew: Crew, backend: Backend, path: str) -> None:
    crew.job("often", schedule="@every 1s", timeoutSeconds=5, http={"url": backend.url(path)}, **EVERY_TICK, **KEEP)


def earliest(backend: Backend, path: str) -> float:
    """Seconds from a tick to its call, at the least."""
    ticks = [(parse_time(seen.header("Soloist-Scheduled-Time")), seen.at) for seen in backend.received(path)]
    return min((at - tick).total_seconds() for tick, at in ticks if tick is not None)


def test_steps_of_a_second_or_two_repeat_nothing_and_lose_nothing(crews: Crews, backend: Backend) -> None:
    """The leader's clock steps to and fro; then it is killed while it is ahead, and a standby that is behind takes over (dkron #541)."""
    both = {f"/small{replicas}": crews(f"small{replicas}") for replicas in (1, 2)}
    for path, crew in both.items():
        start_each([crew], "a", **clock_of(crew, "a"))
        if path.endswith("2"):
            start_each([crew], "b", **clock_of(crew, "b", -1.5))
        often(crew, backend, path)
    for offset in (*STEPS, 0.9):
        counts = {path: len(backend.received(path)) for path in both}
        for crew in both.values():
            step(crew, "a", offset)
        stepped = now()
        for path in both:
            backend.wait(counts[path] + 2, path=path, timeout=90)
        passed(stepped, 2)
    for crew in both.values():
        crew.members["a"].kill_both()
    killed = now()
    start_each([both["/small1"]], "a", **clock_of(both["/small1"], "a", -1.5))
    for path, crew in both.items():
        through(crew, "often", killed)
        nothing_twice_or_early(backend, path, early=2.0)
        attempts_ascend(backend, path)
        audit(crew, backend, "often", path=path, early=2.0)
        assert earliest(backend, path) < -0.3, "the steps did reach the launches"


def test_a_leader_whose_clock_is_an_hour_off_gives_up_until_it_is_right(crews: Crews, backend: Backend) -> None:
    found = {f"/{word}{replicas}": crews(f"{word}{replicas}") for word in ("ahead", "behind") for replicas in (1, 2)}
    alone = {path: crew for path, crew in found.items() if path.endswith("1")}
    in_company = {path: crew for path, crew in found.items() if path.endswith("2")}
    for path, crew in found.items():
        start_each([crew], "a", **clock_of(crew, "a"))
        often(crew, backend, path)
    for crew in in_company.values():
        start_each([crew], "b", **clock_of(crew, "b"))
    for path in found:
        backend.wait(2, path=path)
    for path, crew in found.items():
        step(crew, "a", 3600.0 if path.startswith("/ahead") else -3600.0)
    for crew in found.values():
        logged(crew, "a", "ClockSkew")
        event = crew.wait(partial(told, crew.namespace, "ClockSkew"), what="an Event says so")
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Lease", "soloist")
        assert "off the API server's" in event["note"]
    for crew in in_company.values():
        crew.wait(partial(leads, crew.leader(other_than="a")), what="another says that it leads")
    for crew in alone.values():
        crew.wait(partial(is_false, crew.holder), what="nobody leads")
    for crew in found.values():
        crew.wait(lambda crew=crew: leads(crew.members["a"]) is False, what="it says that it does not lead")
    silent = now() + timedelta(seconds=1)
    passed(silent, 5)
    for path, crew in alone.items():
        assert not [seen for seen in backend.received(path) if seen.at > silent], "it launches nothing"
        assert not crew.holder()
    for path in in_company:
        backend.wait(1, path=path, timeout=90, when=lambda seen: seen.at > silent)  # another does
    for crew in found.values():
        step(crew, "a", 0.0)
    for crew in in_company.values():
        crew.members["b"].kill_both()
    righted = now()
    for path, crew in found.items():
        assert crew.leader(other_than="b").name == "a"
        through(crew, "often", righted)
        nothing_twice_or_early(backend, path)
        attempts_ascend(backend, path)
        audit(crew, backend, "often", path=path)
