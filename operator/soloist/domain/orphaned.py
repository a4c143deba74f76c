"""A run whose ScheduledJob is not there: nobody will ever launch it, and whoever made it must not wait for that.

It is left some time from when its job is first missed, since the two may be applied together and in any order. What belongs to a job is deleted with it by the
server; what is left is a name that was spelt wrong, or a job that was deleted without what it owned.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from soloist.domain.instants import stamp
from soloist.domain.runs import Phase, Run

NO_SUCH_JOB = "NoSuchJob"
PATIENCE = 15.0
"""Seconds."""


def orphans(runs: Iterable[Run], lease: str) -> list[Run]:
    """Those that this installation may end: its own, and those that people made. The oldest first."""
    left = [run for run in runs if not run.phase.final and not run.deleting and run.lease in (None, lease)]
    return sorted(left, key=lambda run: run.created)


def ending(run: Run, now: datetime) -> dict[str, Any]:
    """The patch of its status. One of which nothing says that it was launched is skipped, any other cancelled."""
    untouched = not run.scheduled and run.phase is Phase.PENDING
    found = f"There is no ScheduledJob {run.job_name} in namespace {run.namespace}"
    message = (
        f"{found}: delete this run, and make one that names a job of this namespace (kubectl get sj)."
        if untouched
        else f"{found} any more, so nobody follows this run; what it has started may be going on."
    )
    phase = Phase.SKIPPED if untouched else Phase.CANCELLED
    return {
        "phase": str(phase),
        "reason": NO_SUCH_JOB,
        "message": message,
        "nextAttemptTime": None,
        "completionTime": stamp(now),
    }
