"""The conditions Valid, Scheduled and Healthy of a ScheduledJob: what is true of it now, in sentences for people.

The time of a transition moves only with what it is the time of, so that it can be relied on; conditions of other writers
are left as they are.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from soloist.domain.gate import fleet_pause_of, told_closed, told_scheduled
from soloist.domain.instants import stamp
from soloist.domain.runs import Job
from soloist.domain.ticks import Reason, decided_ahead
from soloist.domain.view import View

ORDER = {"Valid": 0, "Scheduled": 1, "Healthy": 2}

DECIDED_AHEAD, RUN_REFUSED = "DecidedAhead", "RunRefused"
MESSAGE = 1024
"""Characters of a message that are kept of what others say."""

Patch = dict[str, Any]


def conditions(view: View, status: Mapping[str, Any], *, books_only: bool = False) -> list[Patch]:
    """Valid, Scheduled and Healthy, in that order; with ``books_only`` the first two stay as they stand."""
    result, failures = status.get("lastResult"), int(status.get("consecutiveFailures") or 0)
    paused = part(status, "paused")
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
    reason, ahead = view.shut, decided_ahead(view.job, view.now)
    if reason is None and ahead is not None:
        return "False", DECIDED_AHEAD, decided_ahead_words(view.job, ahead)
    if reason is None and view.refused:
        return (
            "False",
            RUN_REFUSED,
            f"The API server makes no run of this job, and is asked again. {view.refused}"[:MESSAGE],
        )
    if reason is None:
        return "True", "Scheduled", "Ticks are launched at their times."
    sentences = {
        "Suspended": "spec.suspend is true: no tick is launched until it is false.",
        "Paused": f"The job is paused; to go on: kubectl soloist resume {view.job.name}",
        "FleetPaused": fleet_pause_of(view.lease),
    }
    return "False", str(reason), sentences[str(reason)]


def decided_ahead_words(job: Job, ahead: datetime) -> str:
    """What it means, and how to go on from now."""
    return (
        f"status.watermark is {stamp(ahead)}, and every time up to there counts as decided: nothing is launched before. If a clock"
        f" was wrong, write the present time there: kubectl patch sj {job.name} -n {job.namespace} --subresource=status --type=merge"
        """ -p '{"status":{"watermark":"'$(date -u +%FT%TZ)'"}}'"""
    )


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


def part(status: Mapping[str, Any], key: str) -> dict[str, Any]:
    """What stands under ``key``, if it is a mapping."""
    value = status.get(key)
    return dict(value) if isinstance(value, Mapping) else {}
