"""The ScheduledJob's status after one write, as a JSON merge patch on what stands there.

People and the next leader read the same words: ``watermark`` and ``active`` carry the protocol, the rest explains it, in
``books`` what has been and in ``conditions`` what is.
"""

from dataclasses import replace
from datetime import datetime

from soloist.domain.books import account
from soloist.domain.conditions import conditions
from soloist.domain.instants import stamp
from soloist.domain.runs import Entry, Job
from soloist.domain.spec import Invalid
from soloist.domain.steps import WriteJob
from soloist.domain.told import Patch, merge_conditions, part, told
from soloist.domain.view import View

NOT_RUN = "(a spec that cannot be run)"


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
    patch |= account(view, step, fresh)
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


def refused(job: Job, invalid: Invalid, now: datetime) -> Patch | None:
    """For a spec that cannot be run: say so once per generation, then nothing more. None: it is said already.

    What is observed is then no schedule at all, so that mending it is a change, and starts nothing that lies before.
    """
    status, generation = job.status, job.generation
    since = min(job.edited, now) if job.edited is not None else now
    said = told(status, "Valid")
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
    return {
        "observedGeneration": generation,
        "observedSchedule": {**part(status, "observedSchedule"), "schedule": NOT_RUN, "since": stamp(since)},
        "nextScheduleTime": None,
        "conditions": merge_conditions(status, wanted, generation, now),
    }
