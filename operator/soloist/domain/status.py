"""The ScheduledJob's status after one write, as a JSON merge patch on what stands there.

People and the next leader read the same words: ``watermark`` and ``active`` carry the protocol, the rest explains it.
Every tick that did not run has its reason in ``recent``; like ones in a row are folded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from soloist.domain.gate import fleet_pause_of, still_auto_paused, told_closed, told_scheduled
from soloist.domain.instants import parse_time, stamp
from soloist.domain.runs import Entry, Job, Phase, Run
from soloist.domain.spec import Invalid
from soloist.domain.steps import WriteJob
from soloist.domain.ticks import Reason, fold
from soloist.domain.view import View

RECENT = 20
"""Lines kept in ``status.recent``."""

NOT_RUN = "(a spec that cannot be run)"

ORDER = {"Valid": 0, "Scheduled": 1, "Healthy": 2}

FAILURES = (Phase.FAILED, Phase.UNKNOWN, Phase.INTERRUPTED)

Line = dict[str, Any]
Patch = dict[str, Any]


def compose(view: View, step: WriteJob) -> Patch:
    """The whole patch for one ``WriteJob``. It says nothing that it does not change, lists apart, which go whole."""
    job, status = view.job, view.job.status
    ended = [(entry, view.run(entry.uid)) for entry in job.active if entry.uid in {*step.drop, *step.count}]
    fresh = [(entry, run) for entry, run in ended if not entry.result]
    active = _active(view, step)
    decided = max(moment for moment in (view.now, step.watermark, job.watermark) if moment is not None)
    following = view.spec.schedule.next_after(decided)
    patch: Patch = {"active": [entry.to_raw() for entry in active], "activeCount": len(active)}
    if not step.books_only:
        patch |= {
            "observedGeneration": job.generation,
            "observedSchedule": _observed(view),
            "nextScheduleTime": stamp(following) if following is not None and view.shut is None else None,
        }
    if step.watermark is not None and (job.watermark is None or step.watermark > job.watermark):
        patch["watermark"] = stamp(step.watermark)
    launched = max((entry.tick for entry in step.add if entry.tick is not None), default=None)
    if launched is not None:
        patch["lastScheduleTime"] = stamp(launched)
    patch |= _account(view, step, fresh)
    patch["conditions"] = conditions(view, {**status, **patch}, books_only=step.books_only)
    return {key: value for key, value in patch.items() if key in ("conditions", "active") or status.get(key) != value}


def _active(view: View, step: WriteJob) -> list[Entry]:
    """Without those that leave, with those that come; one that is recorded anew keeps its place."""
    added = {entry.uid: entry for entry in step.add}
    result = []
    for entry in view.job.active:
        if entry.uid in step.drop:
            continue
        kept = added.pop(entry.uid, entry)
        run = view.run(entry.uid)
        result.append(replace(kept, result=str(run.phase)) if entry.uid in step.count and run is not None else kept)
    return [*result, *added.values()]


def _observed(view: View) -> Patch:
    seen = view.observed
    return {
        "schedule": seen.schedule,
        "timeZone": seen.time_zone,
        "daylightSaving": seen.daylight_saving,
        "suspend": seen.suspend,
        "since": stamp(seen.since),
    }


def _account(view: View, step: WriteJob, ended: list[tuple[Entry, Run | None]]) -> Patch:
    """Counters, last times and ``recent``, for what ended and for ticks without a run."""
    status = view.job.status
    counters = {
        "launched": 0,
        "succeeded": 0,
        "failed": 0,
        "unknown": 0,
        "skipped": 0,
        **_mapping(status, "counters"),
    }
    failures = 0 if _resumed(view) else int(status.get("consecutiveFailures") or 0)
    recent: list[Line] = list(status.get("recent") or ())
    patch: Patch = {}
    for line in fold(step.decided):
        counters["skipped"] += line.count
        recent = push(recent, str(line.reason), line.first, line.last, line.count, line.message)
    for entry, run in ended:
        deleted = view.remembered(entry.uid).settled or Phase.CANCELLED
        phase, at = (run.phase if run is not None else deleted), _moment(entry, run)
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
    if limit and failures >= limit and not still_auto_paused(view.job):
        message = f"{failures} runs failed one after the other (pauseAfterFailures: {limit}). See the runs, mend the cause, then: kubectl soloist resume {view.job.name}"
        return {"paused": {"since": stamp(view.now), "reason": "TooManyFailures", "message": message}}
    return {"paused": None} if _resumed(view) else {}


def _resumed(view: View) -> bool:
    return view.job.auto_paused is not None and not still_auto_paused(view.job)


def push(recent: list[Line], result: str, first: datetime, last: datetime, count: int, message: str) -> list[Line]:
    """One more line, or the last one widened where it says the same."""
    if recent and recent[-1].get("result") == result and (parse_time(recent[-1].get("last")) or last) <= last:
        before = recent[-1]
        line = {**before, "last": stamp(last), "count": int(before.get("count") or 1) + count}
        return [*recent[:-1], line]
    line = {"result": result, "first": stamp(first), "last": stamp(last), "count": count}
    return [*recent, line | ({"message": message} if message else {})][-RECENT:]


def _moment(entry: Entry, run: Run | None) -> datetime:
    if entry.tick is not None:
        return entry.tick
    return run.created if run is not None else datetime.fromtimestamp(entry.epoch / 1e6).astimezone()


def conditions(view: View, status: Mapping[str, Any], *, books_only: bool = False) -> list[Patch]:
    """Valid, Scheduled and Healthy, in that order; with ``books_only`` the first two stay as they stand."""
    result, failures = status.get("lastResult"), int(status.get("consecutiveFailures") or 0)
    paused = _mapping(status, "paused")
    scheduled = _scheduled(view)
    if view.shut is None and paused and paused != view.job.status.get("paused"):
        scheduled = ("False", "Paused", str(paused.get("message", "")))
    healthy = _healthy(result, failures, status.get("lastSuccessfulTime"))
    before = view.job.status.get("conditions") or ()
    looked = () if books_only else (("Valid", "True", "Accepted", "The spec can be run."), ("Scheduled", *scheduled))
    merged = merge_conditions(before, (*looked, ("Healthy", *healthy)), view.job.generation, view.now)
    return sorted(merged, key=lambda condition: ORDER.get(str(condition.get("type")), len(ORDER)))


def _healthy(result: Any, failures: int, succeeded: Any) -> tuple[str, str, str]:
    if failures == 0 and succeeded is None:
        return "Unknown", "NoRunYet", "No launched run has ended yet."
    if failures == 0:
        return (
            "True",
            "LastRunSucceeded",
            f"No launched run has failed since {succeeded}, or since the job was resumed.",
        )
    plural = "run" if failures == 1 else "runs"
    return (
        "False",
        "LastRunFailed",
        f"{failures} {plural} in a row did not succeed; the last launched one ended {result}.",
    )


def says_what_is(view: View) -> bool:
    """Whether the condition ``Scheduled`` is true: a pause is an annotation, which no generation counts."""
    told = told_scheduled(view.job)
    wanted = _scheduled(view)
    if told.get("reason") == Reason.FLEET_PAUSED and told_closed(view.job, view.lease) is None:
        return True  # another installation's pause, and its word
    return (told.get("status"), told.get("reason")) == wanted[:2]


def _scheduled(view: View) -> tuple[str, str, str]:
    reason = view.shut
    if reason is None:
        return "True", "Scheduled", "Ticks are launched at their times."
    sentences = {
        "Suspended": "spec.suspend is true: no tick is launched until it is false.",
        "Paused": f"The job is paused; to go on: kubectl soloist resume {view.job.name}",
        "FleetPaused": fleet_pause_of(view.lease),
    }
    return "False", str(reason), sentences[str(reason)]


def merge_conditions(
    before: Iterable[Mapping[str, Any]], wanted: Iterable[tuple[str, str, str, str]], generation: int, now: datetime
) -> list[Patch]:
    """lastTransitionTime moves only where the status does, for Scheduled with the reason too, since a pause begins with it.

    Conditions of other writers stay.
    """
    known = {str(condition.get("type")): condition for condition in before}
    result = []
    for kind, value, reason, message in wanted:
        old = known.pop(kind, {})
        same = old.get("status") == value and (kind != "Scheduled" or old.get("reason") == reason)
        since = old.get("lastTransitionTime") if same else None
        result.append(
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": since or stamp(now.replace(microsecond=0)),
            }
        )
    return [*result, *(dict(condition) for condition in known.values())]


def refused(job: Job, invalid: Invalid, now: datetime) -> Patch | None:
    """For a spec that cannot be run: say so once per generation, then nothing more. None: it is said already.

    What is observed is then no schedule at all, so that mending it is a change, and starts nothing that lies before.
    """
    status, generation = job.status, job.generation
    since = min(job.edited, now) if job.edited is not None else now
    said: Mapping[str, Any] = next((c for c in status.get("conditions") or () if c.get("type") == "Valid"), {})
    if (
        said.get("status") == "False"
        and said.get("message") == invalid.message
        and status.get("observedGeneration") == generation
    ):
        return None
    wanted = (
        ("Valid", "False", invalid.reason, invalid.message),
        ("Scheduled", "False", "Invalid", "Nothing is launched until the spec is mended."),
    )
    merged = merge_conditions(status.get("conditions") or (), wanted, generation, now)
    return {
        "observedGeneration": generation,
        "observedSchedule": {**_mapping(status, "observedSchedule"), "schedule": NOT_RUN, "since": stamp(since)},
        "nextScheduleTime": None,
        "conditions": merged,
    }


def _mapping(status: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = status.get(key)
    return dict(value) if isinstance(value, Mapping) else {}
