"""The conditions Valid, Scheduled and Healthy of a ScheduledJob: what is true of it now, in sentences for people.

Each is decided anew of the view alone. How it lies beside what was told before is for ``told``.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from soloist.domain.gate import fleet_pause_of, told_closed
from soloist.domain.instants import stamp
from soloist.domain.runs import Job
from soloist.domain.ticks import Reason, decided_ahead
from soloist.domain.told import Patch, merge_conditions, part, told
from soloist.domain.view import View

ORDER = {"Valid": 0, "Scheduled": 1, "Healthy": 2}

DECIDED_AHEAD, RUN_REFUSED = "DecidedAhead", "RunRefused"
MESSAGE = 1024
"""Characters of a message that are kept of what others say."""


def conditions(view: View, status: Mapping[str, Any], *, books_only: bool = False) -> list[Patch]:
    """Valid, Scheduled and Healthy, in that order; with ``books_only`` the first two stay as they stand."""
    result, failures = status.get("lastResult"), int(status.get("consecutiveFailures") or 0)
    paused = part(status, "paused")
    scheduled = _scheduled(view)
    if view.shut is None and paused and paused != view.job.status.get("paused"):
        scheduled = ("False", "Paused", str(paused.get("message", "")))
    healthy = _healthy(result, failures, status.get("lastSuccessfulTime"))
    looked = () if books_only else (("Valid", "True", "Accepted", "The spec can be run."), ("Scheduled", *scheduled))
    merged = merge_conditions(view.job.status, (*looked, ("Healthy", *healthy)), view.job.generation, view.now)
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
    said, wanted = told(view.job.status, "Scheduled"), _scheduled(view)
    if said.get("reason") == Reason.FLEET_PAUSED and told_closed(view.job, view.lease) is None:
        return True  # another installation's pause, and its word
    return (said.get("status"), said.get("reason")) == wanted[:2]


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
