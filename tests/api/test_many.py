"""A thousand jobs: all missed when a leader comes, and all due in one second. Each is launched once, none early, soon.

In `make test-long` two controllers start at that time, and the one that comes second stands by.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.api.crew import Crew, Raw
from tests.api.desk import LONG, errors, moment, phase
from tests.api.tending import now
from tests.cluster.backend import Backend, Received
from tests.cluster.children import until

pytestmark = pytest.mark.cluster

MANY = 1000
PERIOD, MAKING = 90, 40
"""Seconds: at the least, for a thousand on a machine that others keep busy; and until a thousand jobs are made there."""


def period_with_a_slot_soon(after: datetime) -> int:
    """In whole seconds. Slots are counted from the Unix epoch, so some period has one whenever it is wanted."""
    made = int(after.timestamp()) + MAKING
    return next(period for period in range(PERIOD, 10 * PERIOD) if -made % period <= 15)


def slot(after: datetime, period: int) -> datetime:
    """The first tick after that moment."""
    return datetime.fromtimestamp((int(after.timestamp()) // period + 1) * period, UTC)


def name_of(number: int) -> str:
    return f"many-{number:04d}"


class Crowd:
    """How many processes want a processor at a time while a burst goes on, as often as somebody looked."""

    def __init__(self) -> None:
        self._seen: list[float] = []

    def look(self) -> None:
        self._seen.append(float(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]))

    def within(self, seconds: float) -> timedelta:
        """So long on a machine that does nothing else; as much longer as it was shared. (The benchmark is stricter.)"""
        wanted = max(os.getloadavg()[0], sum(self._seen) / max(1, len(self._seen)))
        return timedelta(seconds=seconds * max(1.0, wanted / (os.cpu_count() or 1)))


def create(crew: Crew, backend: Backend, period: int) -> None:
    def one(number: int) -> None:
        url = backend.url(f"/{name_of(number)}")
        crew.job(name_of(number), schedule=f"@every {period}s", timeoutSeconds=60, http={"url": url})

    with ThreadPoolExecutor(max_workers=12) as pool:
        list(pool.map(one, range(MANY)))


def calls(backend: Backend, tick: datetime) -> list[Received]:
    return [seen for seen in backend.received() if moment(seen.header("Soloist-Scheduled-Time")) == tick]


def all_called_once(backend: Backend, tick: datetime, count: int, crowd: Crowd) -> list[Received]:
    """Wait for so many calls of that tick after those that were before; no job twice, none early."""
    before = len([seen for seen in backend.received() if moment(seen.header("Soloist-Scheduled-Time")) < tick])

    def enough() -> bool:
        crowd.look()
        return len(backend.received()) >= before + count

    until(enough, what=f"{count} calls of {tick}", timeout=3 * PERIOD)
    seen = calls(backend, tick)
    twice = [path for path, many in Counter(each.path for each in seen).items() if many > 1]
    assert not twice, twice
    assert all(each.at >= tick for each in seen), f"early: {min(each.at for each in seen)}"
    assert {each.header("Soloist-Attempt") for each in seen} == {"1"}
    return seen


def over(crew: Crew, tick: datetime) -> list[Raw]:
    """Wait until all runs of that tick have their outcome."""

    def probe() -> list[Raw] | None:
        time.sleep(0.5)  # a list of a thousand is no light question
        try:
            runs = [run for run in crew.runs() if moment(run["spec"]["scheduledTime"]) == tick]
        except ConnectionError:  # nor is it answered in time by a server that others keep busy
            return None
        return runs if len(runs) == MANY and all(phase(run) in ("Succeeded", "Skipped") for run in runs) else None

    found: list[Raw] = until(probe, what=f"all runs of {tick} are over", timeout=240)
    return found


@pytest.mark.parametrize(
    "members", [pytest.param("a", id="alone"), pytest.param("ab", id="with a standby", marks=pytest.mark.long)]
)
def test_a_thousand_missed_ones_are_launched_at_recovery_and_a_thousand_due_ones_at_their_time(
    crew: Crew, backend: Backend, members: str
) -> None:
    """k8s #90801, #94328, #128881, #118706, #118789."""
    period = period_with_a_slot_soon(now())
    create(crew, backend, period)
    missed = slot(now(), period)
    until(lambda: now() > missed, what="all are due and nobody leads", timeout=2 * period)
    for name in members:
        crew.start(name, **LONG)
    first = crew.leader()
    lease = crew.lease() or {}
    began = datetime.fromtimestamp(int(lease["metadata"]["annotations"]["soloist.dev/epoch"]) / 1e6, UTC)
    crowd = Crowd()
    last = max(each.at for each in all_called_once(backend, missed, MANY, crowd))
    assert last - began <= crowd.within(15), (
        f"the last one {last - began} after the term began, at load {os.getloadavg()}"
    )

    assert {phase(run) for run in over(crew, missed)} == {"Succeeded"}

    due = slot(now() + timedelta(seconds=15), period)
    until(lambda: now() > due - timedelta(seconds=4), what="the next tick is near", timeout=2 * period)
    odd = name_of(7)
    run = until(lambda: recorded(crew, odd, due), what="one is recorded ahead of its time", timeout=period)
    crew.edit(odd, {"suspend": True})
    crowd = Crowd()
    seen = all_called_once(backend, due, MANY - 1, crowd)
    last = max(each.at for each in seen)
    assert last - due <= crowd.within(10), f"the last one {last - due} after its time, at load {os.getloadavg()}"
    until(lambda: crew.phase(run) in ("Succeeded", "Skipped"), what="the suspended one is settled", timeout=90)
    was_called = f"/{odd}" in [each.path for each in calls(backend, due)]
    assert crew.phase(run) == ("Succeeded" if was_called else "Skipped")
    if not was_called:
        assert crew.cluster.api().get(crew.namespace.ours("jobruns", run))["status"]["reason"] == "Suspended"

    skipped = [run for run in over(crew, due) if phase(run) == "Skipped"]
    assert len(skipped) <= 1
    assert crew.leader() is first
    for member in crew.members.values():
        assert not errors(member.log()), errors(member.log())
        assert (': "leading"' in member.log()) == (member is first), "one leads, one stands by"


def recorded(crew: Crew, job: str, tick: datetime) -> str:
    entries = crew.status(job).get("active", [])
    return next((str(each["run"]) for each in entries if moment(each["scheduledTime"]) == tick), "")
