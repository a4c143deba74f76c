"""What a ScheduledJob's status says of what has been: counters, last times, failures in a row, and lines for people.

Each run is counted by the one write that follows its end, and each tick that did not run has its reason in ``recent``; like
ones in a row are folded. Failures in a row lead to the pause that a job asks for.
"""

from datetime import datetime
from typing import Any

from soloist.domain.gate import still_auto_paused
from soloist.domain.instants import parse_time, stamp
from soloist.domain.runs import Entry, Phase, Run
from soloist.domain.steps import WriteJob
from soloist.domain.ticks import fold
from soloist.domain.told import Patch, part
from soloist.domain.view import View

RECENT = 20
"""Lines kept in ``status.recent``."""

FAILURES = (Phase.FAILED, Phase.UNKNOWN, Phase.INTERRUPTED)

Line = dict[str, Any]


def account(view: View, step: WriteJob, ended: list[tuple[Entry, Run | None]]) -> Patch:
    """Counters, last times and ``recent``, for what ended and for ticks without a run."""
    status = view.job.status
    counters = {
        "launched": 0,
        "succeeded": 0,
        "failed": 0,
        "unknown": 0,
        "skipped": 0,
        **part(status, "counters"),
    }
    failures = 0 if _resumed(view) else int(status.get("consecutiveFailures") or 0)
    recent: list[Line] = list(status.get("recent") or ())
    patch: Patch = {}
    for line in fold(step.decided):
        counters["skipped"] += line.count
        recent = push(recent, str(line.reason), line.first, line.last, line.count, line.message)
    for entry, run in ended:
        deleted = view.remembered(entry.uid).settled or Phase.CANCELLED
        phase, at = (run.phase if run is not None else deleted), _moment(view, entry, run)
        failures = _count(counters, phase, failures)
        result = run.reason if run is not None and phase is Phase.SKIPPED and run.reason else str(phase)
        recent = push(recent, result, at, at, 1, "")
        patch["lastResult"] = result
        finished = run.completed if run is not None and run.completed is not None else view.now
        if phase is Phase.SUCCEEDED:
            patch["lastSuccessfulTime"] = stamp(finished.replace(microsecond=0))
        elif phase in FAILURES:
            patch["lastFailureTime"] = stamp(finished.replace(microsecond=0))
    patch |= {"counters": counters, "consecutiveFailures": failures, "recent": recent}
    return patch | _pausing(view, failures)


def _count(counters: dict[str, int], phase: Phase, failures: int) -> int:
    """Count one ended run; returns the failures in a row after it."""
    if phase is Phase.SKIPPED:
        counters["skipped"] += 1
        return failures
    counters["launched"] += 1
    match phase:
        case Phase.SUCCEEDED:
            counters["succeeded"] += 1
            return 0
        case Phase.FAILED:
            counters["failed"] += 1
        case Phase.UNKNOWN | Phase.INTERRUPTED:
            counters["unknown"] += 1
        case _:
            return failures
    return failures + 1


def _pausing(view: View, failures: int) -> Patch:
    """pauseAfterFailures: after so many failed runs in a row nothing starts until a person resumes the job."""
    limit = view.spec.pause_after_failures
    if limit and failures >= limit and not still_auto_paused(view.job, view.now):
        message = f"{failures} runs failed one after the other (pauseAfterFailures: {limit}). See the runs, mend the cause, then: kubectl soloist resume {view.job.name}"
        return {"paused": {"since": stamp(view.now), "reason": "TooManyFailures", "message": message}}
    return {"paused": None} if _resumed(view) else {}


def _resumed(view: View) -> bool:
    return view.job.auto_paused is not None and not still_auto_paused(view.job, view.now)


def push(recent: list[Line], result: str, first: datetime, last: datetime, count: int, message: str) -> list[Line]:
    """One more line, or the last one widened where it says the same."""
    if recent and recent[-1].get("result") == result and (parse_time(recent[-1].get("last")) or last) <= last:
        before = recent[-1]
        line = {**before, "last": stamp(last), "count": int(before.get("count") or 1) + count}
        return [*recent[:-1], line]
    line = {"result": result, "first": stamp(first), "last": stamp(last), "count": count}
    return [*recent, line | ({"message": message} if message else {})][-RECENT:]


def _moment(view: View, entry: Entry, run: Run | None) -> datetime:
    if entry.tick is not None:
        return entry.tick
    return run.created if run is not None else entry.launch_at or view.now
