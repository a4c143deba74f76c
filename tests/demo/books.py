"""What became of each tick, from what the receiver got and from what stands on record. Nothing is asked of a controller.

A tick is launched if the receiver got it. Otherwise its run, a line of ``status.recent``, or, once that line has made room for
later ones, the counters must say why it was not; a tick without any is lost, and that is a breach like a tick that came twice
or before its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from soloist.domain.instants import parse_time, stamp
from soloist.domain.schedule import parse_schedule
from soloist.domain.ticks import Reason
from tests.api.reasons import unexplained
from tests.cluster.backend import Received

CLOCK_STEPS = timedelta(milliseconds=50)
"""Receiver and leader read one clock, but at different times: a correction of it in between is not an early launch."""

COUNTED = "Counted"
"""The reason of a tick whose line in ``status.recent`` has made room for later ones: that it had one is in the counters."""

Raw = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Page:
    """The books of one job; ``gaps`` counts ticks without a request, by reason."""

    job: str
    policy: str
    expected: int
    launched: int
    twice: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    gaps: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)

    def breaches(self) -> list[str]:
        kinds = {"launched twice": self.twice, "before its time": self.early, "no run and no reason": self.lost}
        return [f"{self.job}: {what}: {', '.join(ticks)}" for what, ticks in kinds.items() if ticks]


def expected_ticks(job: Raw, until: datetime) -> list[datetime]:
    """Every tick since the job was made, up to ``until``."""
    seen = job["status"]["observedSchedule"]
    since = parse_time(seen["since"])
    assert since is not None
    return parse_schedule(seen["schedule"], seen["timeZone"]).newest(after=since, until=until, limit=100_000)


def settled(job: Raw, runs: Sequence[Raw], until: datetime) -> bool:
    """All ticks up to ``until`` are decided, and no run of theirs is still open."""
    watermark = parse_time(job.get("status", {}).get("watermark"))
    if watermark is None or watermark < until:
        return False
    entries = job["status"].get("active") or ()
    undone = [entry for entry in entries if not entry.get("result") and _at(entry) <= until]
    return not undone and all(_over(run) for run in runs if _at(run["spec"]) <= until)


def page(job: Raw, runs: Sequence[Raw], received: Iterable[Received], until: datetime) -> Page:
    """``received`` are the requests of this job."""
    ticks = expected_ticks(job, until)
    names = {stamp(tick) for tick in ticks}
    requests = [seen for seen in received if seen.header("Soloist-Scheduled-Time") in names]
    counted = Counter(seen.header("Soloist-Scheduled-Time") or "" for seen in requests)
    silent = [tick for tick in ticks if not counted[stamp(tick)]]
    lost = unexplained(silent, job["status"], runs, received=())
    return Page(
        job=job["metadata"]["name"],
        policy=job["spec"]["missedRunPolicy"],
        expected=len(ticks),
        launched=len(counted),
        twice=[tick for tick, count in counted.items() if count > 1],
        early=[tick for seen in requests if _is_early(seen, tick := seen.header("Soloist-Scheduled-Time") or "")],
        gaps=Counter(_reason(tick, job, runs) for tick in silent if tick not in lost),
        lost=[stamp(tick) for tick in lost],
    )


def _is_early(seen: Received, tick: str) -> bool:
    at = parse_time(tick)
    return at is None or seen.at < at - CLOCK_STEPS


def _reason(tick: datetime, job: Raw, runs: Sequence[Raw]) -> str:
    """Why nothing was received for this tick, of which something says why."""
    for run in runs:
        if _at(run["spec"]) == tick:
            status = run["status"]
            return str(status.get("reason") or status["phase"])
    for line in reversed(job["status"].get("recent") or ()):
        first, last = parse_time(line["first"]), parse_time(line["last"])
        if line["result"] in set(Reason) and first is not None and last is not None and first <= tick <= last:
            return str(line["result"])
    return COUNTED


def _at(raw: Raw) -> datetime:
    at = parse_time(raw.get("scheduledTime"))
    assert at is not None, f"no scheduledTime in {raw}"
    return at


def _over(run: Raw) -> bool:
    return run.get("status", {}).get("phase", "Pending") not in ("Pending", "Running", "Retrying")
