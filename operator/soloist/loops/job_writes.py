"""Writes to a ScheduledJob's status: each conditional on what the rules have looked at, its reply straight into the cache.

A write that somebody forestalled is not an error: the job is read again, and the rules decide anew. What has left ``active``
by a write that happened is forgotten only then, so that nothing is forgotten that may still be asked for.
"""

from collections.abc import Awaitable
from datetime import datetime
from typing import Any

from soloist.domain import status
from soloist.domain.runs import Job
from soloist.domain.spec import Invalid
from soloist.domain.steps import WriteJob
from soloist.domain.view import View
from soloist.loops.acting import Acting, Stage
from soloist.loops.cache import Cache
from soloist.loops.not_now import crds_too_old
from soloist.loops.rereading import reread, reread_job
from soloist.ports import Conflict, Gone, Report, Store, Written


class JobWrites:
    """``acting`` remembers, for this process, runs and taken names until they are accounted for here."""

    def __init__(self, cache: Cache, store: Store, report: Report, acting: Acting, stage: Stage) -> None:
        self._cache, self._store, self._report, self._acting, self._stage = cache, store, report, acting, stage

    def _send(self, job: Job, patch: dict[str, Any]) -> Awaitable[Written | Conflict | Gone]:
        self._report.wrote("job status")
        return self._store.write_job_status(
            job.namespace,
            job.name,
            uid=job.uid,
            resource_version=job.resource_version,
            status=patch,
            before=job.status,
        )

    async def refuse(self, job: Job, invalid: Invalid, now: datetime) -> bool:
        """Say once that the spec cannot be run. False: it is said already."""
        patch = status.refused(job, invalid, now)
        if patch is None:
            return False
        answer = await self._send(job, patch)
        if isinstance(answer, Written):
            self._cache.put_job(answer.obj)
            self._report.invalid(job, invalid)
        else:
            await reread(self._cache, self._store, (job.namespace, job.name))
        return True

    async def write(self, view: View, step: WriteJob) -> None:
        job = view.job
        patch = status.compose(view, step)
        match await self._send(job, patch):
            case Written(obj=obj):
                self._cache.put_job(obj)
                self._report.decided(view, step)
                if "paused" in patch and patch["paused"] is not None:
                    self._report.stands_in_the_way(job, "PausedAfterFailures", patch["paused"]["message"])
                self._forget(job, step)
                if step.add:
                    self._check_kept(job, step)
                    self._stage("recorded")
            case Conflict() | Gone():
                await reread_job(self._cache, self._store, job)

    def _check_kept(self, job: Job, step: WriteJob) -> None:
        now = self._cache.job((job.namespace, job.name))
        kept = now.entry(step.add[0].uid) if now is not None else None
        if kept is not None and kept.launch_at is None:
            crds_too_old(self._report, job, "ScheduledJob status.active[].launchTime")
        if kept is not None and kept.prepared != step.add[0].prepared:
            crds_too_old(self._report, job, "ScheduledJob status.active[].prepared")
        if kept is not None and kept.ledger != step.add[0].ledger:
            crds_too_old(self._report, job, "ScheduledJob status.active[].ledger")

    def _forget(self, job: Job, step: WriteJob) -> None:
        """What has left ``active`` need not be remembered; a tick that is decided cannot be taken."""
        for uid in step.drop:
            self._acting.memory.pop(uid, None)
        taken = self._acting.taken.get(job.uid)
        if taken and step.watermark is not None:
            for tick in [tick for tick in taken if tick <= step.watermark]:
                del taken[tick]
