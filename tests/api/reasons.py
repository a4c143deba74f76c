"""What explains a tick of which the application saw nothing: its run, a line of ``recent``, or, for what is older, the counters.

A run explains it where it has ended and says why. A line explains as many ticks as it counts, and none outside its times;
that runs succeeded explains nothing. Of ticks older than ``recent`` as many are let pass as the counters have more ends
without success than its lines: not one more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from soloist.domain.books import RECENT
from soloist.domain.http_request import HttpReason
from soloist.domain.instants import parse_time
from soloist.domain.schedule import parse_schedule

Raw = dict[str, Any]
SAYS_WHY = {"Failed", "Unknown", "Interrupted", "Skipped", "Cancelled"}
"""Phases that end a run of which nothing may have been received. ``Superseded`` is none: its tick was decided otherwise."""
ANSWERED = {str(HttpReason.UNEXPECTED_STATUS), str(HttpReason.TOO_MANY_REDIRECTS)}
"""Reasons of a failure that an answer was received to: so was the request."""


def due_ticks(status: Raw, by: datetime) -> list[datetime]:
    """Ticks since the schedule is what it was last seen to be; of a suspended job those that are decided."""
    seen = status["observedSchedule"]
    until = moment(status["watermark"]) if seen["suspend"] else by
    schedule = parse_schedule(seen["schedule"], seen["timeZone"])
    return schedule.newest(after=moment(seen["since"]), until=until, limit=100_000)


def former_ticks(before: Raw, until: datetime) -> list[datetime]:
    """Ticks of the schedule as it was in a status from before an edit, suspended or not, up to the second of the edit."""
    return due_ticks({"observedSchedule": {**before["observedSchedule"], "suspend": False}}, until)


def unexplained(
    ticks: Iterable[datetime], status: Raw, runs: Iterable[Raw], received: Collection[datetime]
) -> list[datetime]:
    """Those of ``ticks`` that were not received and that nothing says the reason of, oldest first."""
    by_tick = {moment(run["spec"]["scheduledTime"]): run for run in runs if run["spec"].get("scheduledTime")}
    silent = [tick for tick in ticks if tick not in received]
    open_ones = [tick for tick in silent if tick not in by_tick or not _says_why(by_tick[tick])]
    claimed = [tick for tick in open_ones if _phase(by_tick.get(tick, {})) == "Succeeded"]
    recent = status.get("recent") or []
    left = _beyond(recent, [tick for tick in open_ones if tick not in claimed])
    if len(recent) == RECENT:
        old = [tick for tick in left if tick < moment(recent[0]["first"])]
        left = [*old[_dropped(status) :], *(tick for tick in left if tick not in old)]
    return sorted([*claimed, *left])


def uncounted(status: Raw) -> int:
    """Decided ticks that the counters lack, of a job that was not edited and that nobody triggered. Below zero: had twice.

    Above zero only where more ticks than ``ticks.COUNTED`` were decided at once.
    """
    going = [entry for entry in status.get("active") or () if not entry.get("result")]
    counters = status.get("counters") or {"launched": 0, "skipped": 0}
    decided = due_ticks(status, moment(status["watermark"]))
    return len(decided) - len(going) - int(counters["launched"]) - int(counters["skipped"])


def moment(text: Any) -> datetime:
    found = parse_time(text)
    assert found is not None, text
    return found.astimezone(UTC)


def _phase(run: Raw) -> str:
    return str(run.get("status", {}).get("phase", "Pending"))


def _says_why(run: Raw) -> bool:
    reason = run.get("status", {}).get("reason")
    return _phase(run) in SAYS_WHY and bool(reason) and reason not in ANSWERED


def _beyond(recent: Sequence[Raw], ticks: list[datetime]) -> list[datetime]:
    """Ticks that no line has room for. Each takes the line that ends first of those that span it, which fits most."""
    lines = sorted(
        ([moment(line["last"]), moment(line["first"]), int(line["count"])] for line in recent if _tells(line)),
        key=lambda line: line[0],
    )
    left = []
    for tick in ticks:
        line = next((each for each in lines if each[1] <= tick <= each[0] and each[2] > 0), None)
        if line is None:
            left.append(tick)
        else:
            line[2] -= 1
    return left


def _tells(line: Raw) -> bool:
    return bool(line["result"] != "Succeeded")


def _dropped(status: Raw) -> int:
    """Ends without success that were counted and whose lines have made room for later ones."""
    counters = status["counters"]
    ends = int(counters["launched"]) - int(counters["succeeded"]) + int(counters["skipped"])
    return max(0, ends - sum(int(line["count"]) for line in status["recent"] if _tells(line)))
