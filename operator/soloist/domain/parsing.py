"""ScheduledJobs and JobRuns out of the dictionaries that the API server gives.

A status that a person has spoiled reads as absent, never as an error: the rules then do what they do for a new object.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from soloist.domain.instants import parse_time
from soloist.domain.runs import Entry, Job, Observed, Phase, Raw, Run, Trigger
from soloist.domain.spec import parse_spec


def parse_job(raw: Raw, known: Job | None = None) -> Job:
    """Read a ScheduledJob. A status that a person has spoiled reads as absent, never as an error.

    ``known``: the same object at another resourceVersion; with each change of the spec the server moves its generation.
    """
    meta, status = raw["metadata"], _mapping(raw.get("status"))
    same_spec = known is not None and (known.uid, known.generation) == (meta["uid"], meta.get("generation"))
    annotations = _mapping(meta.get("annotations"))
    paused = annotations.get("soloist.dev/paused")
    created = parse_time(meta.get("creationTimestamp")) or datetime.fromtimestamp(0, UTC)
    return Job(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        generation=int(meta.get("generation", 1)),
        resource_version=str(meta["resourceVersion"]),
        created=created,
        edited=_edited(meta),
        deleting="deletionTimestamp" in meta,
        paused=str(paused) if paused not in (None, "", "false") else None,
        resumed_at=parse_time(annotations.get("soloist.dev/resumed-at")),
        spec=known.spec if known is not None and same_spec else parse_spec(_mapping(raw.get("spec"))),
        observed=_observed(_mapping(status.get("observedSchedule"))),
        watermark=parse_time(status.get("watermark")),
        active=tuple(entry for item in status.get("active") or () if (entry := _entry(item)) is not None),
        auto_paused=parse_time(_mapping(status.get("paused")).get("since")),
        status=status,
    )


def parse_run(raw: Raw) -> Run:
    """Read a JobRun; one without a status has just been created and is Pending.

    A phase that only a newer version knows reads as Unknown: nothing is launched for it or written to it, and what may still be
    going on holds others up until its time-out has passed.
    """
    meta, spec, status = raw["metadata"], _mapping(raw.get("spec")), _mapping(raw.get("status"))
    lease = _mapping(spec.get("lease"))
    trigger = spec.get("trigger", "Manual")
    phase = status.get("phase") or "Pending"
    return Run(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        resource_version=str(meta["resourceVersion"]),
        job_uid=spec.get("scheduledJobUID"),
        job_name=str(spec.get("scheduledJobName", "")),
        trigger=Trigger(trigger) if trigger in set(Trigger) else Trigger.MANUAL,
        tick=parse_time(spec.get("scheduledTime")),
        lease=f"{lease.get('namespace', '')}/{lease['name']}" if "name" in lease else None,
        epoch=lease.get("epoch"),
        created=parse_time(meta.get("creationTimestamp")) or datetime.fromtimestamp(0, UTC),
        phase=Phase(phase) if phase in set(Phase) else Phase.UNKNOWN,
        reason=str(status.get("reason", "")),
        attempt=int(status.get("attempt") or 0),
        attempt_epoch=int(status.get("epoch") or 0),
        timeout=_seconds(status.get("timeoutSeconds")),
        taken_by=int(status.get("takenBy") or 0),
        next_attempt=parse_time(status.get("nextAttemptTime")),
        completed=parse_time(status.get("completionTime")),
        deleting="deletionTimestamp" in meta,
    )


def _mapping(value: Any) -> Raw:
    return value if isinstance(value, Mapping) else {}


def _seconds(value: Any) -> timedelta | None:
    return timedelta(seconds=value) if isinstance(value, int) else None


def _entry(item: Any) -> Entry | None:
    raw = _mapping(item)
    if "uid" not in raw or "run" not in raw:
        return None
    return Entry(
        run=str(raw["run"]),
        uid=str(raw["uid"]),
        tick=parse_time(raw.get("scheduledTime")),
        epoch=int(raw.get("epoch") or 0),
        lease=str(raw.get("lease", "")),
        launch_at=parse_time(raw.get("launchTime")),
        action=str(raw.get("action") or "http"),
        ledger=str(raw.get("ledger") or ""),
        prepared=str(raw.get("prepared") or ""),
        timeout=_seconds(raw.get("timeoutSeconds")),
        result=str(raw.get("result", "")),
    )


def _observed(raw: Raw) -> Observed | None:
    since = parse_time(raw.get("since"))
    if since is None:
        return None
    return Observed(
        schedule=str(raw.get("schedule", "")),
        time_zone=str(raw.get("timeZone", "")),
        daylight_saving=str(raw.get("daylightSaving", "")),
        suspend=bool(raw.get("suspend", False)),
        since=since,
    )


def _edited(meta: Raw) -> datetime | None:
    """When the object itself was last written: managedFields has it for spec and metadata together, in whole seconds."""
    times = [
        moment
        for item in meta.get("managedFields") or ()
        if not item.get("subresource") and (moment := parse_time(item.get("time"))) is not None
    ]
    return max(times, default=None)
