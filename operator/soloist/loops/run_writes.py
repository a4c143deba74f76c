"""Writes to JobRuns: made, written ahead, taken over, settled, deleted; what came of each into the cache and the memory.

A write that somebody forestalled is not an error: the run is read again, and the rules decide anew. A write whose reply is
lost is remembered as doubtful before the error goes on: if the write is there after all, the rules go on from it.
"""

from datetime import datetime

from soloist.domain import documents, memory, recording
from soloist.domain.errors import SoloistError, TransientError
from soloist.domain.parsing import parse_run
from soloist.domain.runs import Phase, Run
from soloist.domain.steps import CreateRun, WriteAttempt, WriteRun
from soloist.domain.ticks import Reason
from soloist.domain.view import View
from soloist.loops.acting import Acting, Stage
from soloist.loops.cache import Cache
from soloist.loops.not_now import NotNow, crds_too_old
from soloist.loops.rereading import reread_job, reread_run
from soloist.ports import AlreadyExists, Gone, Launcher, Refused, Report, Store, Written


class RunWrites:
    """``acting`` remembers, for this process, how far runs have come and which ticks have their names taken."""

    def __init__(
        self, cache: Cache, store: Store, launcher: Launcher, report: Report, acting: Acting, stage: Stage
    ) -> None:
        self._cache, self._store, self._launcher, self._report = cache, store, launcher, report
        self._acting, self._memory, self._stage = acting, acting.memory, stage

    async def create(self, view: View, step: CreateRun, lease_uid: str) -> None:
        self._report.wrote("create run")
        made = await self._store.create_run(documents.claimed(view, step.tick, lease_uid))
        if not isinstance(made, Refused):
            self._acting.refused.pop(view.job.uid, None)
        match made:
            case Written(obj=obj):
                self._cache.put_run(obj)
                self._stage("claimed")
            case AlreadyExists(obj=None):
                return
            case AlreadyExists(obj=obj) if obj is not None:
                self._cache.put_run(obj)
                reason = recording.why_taken(view, parse_run(obj), step.tick)
                if reason is not None and not await reread_job(self._cache, self._store, view.job):
                    self._take_name(view, step.tick, reason, obj["metadata"]["name"])
            case Gone():
                # The job, or its namespace, is going away: until it has gone there is no use in asking again at once.
                await reread_job(self._cache, self._store, view.job)
                raise NotNow(1.0)
            case Refused(message=message):
                self._acting.refused[view.job.uid] = message
                self._report.stands_in_the_way(view.job, "RunRefused", message)
                raise NotNow(5.0)

    def _take_name(self, view: View, tick: datetime, reason: Reason, name: str) -> None:
        self._acting.taken.setdefault(view.job.uid, {})[tick] = reason
        if reason is Reason.NAME_TAKEN:
            message = (
                f"A JobRun named {name} exists that is not this job's run of {tick.isoformat()}: delete or rename it."
            )
            self._report.stands_in_the_way(view.job, reason, message)

    async def _write(self, view: View, run: Run, patch: documents.Raw) -> bool:
        self._report.wrote("run status")
        try:
            answer = await self._store.write_run_status(
                run.namespace, run.name, uid=run.uid, resource_version=run.resource_version, status=patch
            )
        except TransientError as error:
            if error.sent:
                self._memory[run.uid] = memory.doubted(view.remembered(run.uid))
            raise
        if isinstance(answer, Written):
            self._cache.put_run(answer.obj)
            if run.uid in self._memory:
                self._memory[run.uid] = memory.certain(self._memory[run.uid])
            return True
        await reread_run(self._cache, self._store, (view.job.namespace, view.job.name), run)
        return False

    async def write_ahead(self, view: View, step: WriteAttempt) -> None:
        await self._write(view, step.run, documents.attempt_ahead(view, step))

    async def take_over(self, view: View, run: Run) -> None:
        if await self._write(view, run, documents.taken_over(view)):
            now = self._cache.run((view.job.namespace, view.job.name), run.name)
            if now is not None and now.uid == run.uid and now.taken_by != view.epoch:
                crds_too_old(self._report, view.job, "JobRun status.takenBy")

    async def settle(self, view: View, step: WriteRun) -> None:
        known = view.remembered(step.run.uid)
        if step.run.uid in self._memory:
            self._memory[step.run.uid] = memory.offered(known, view.boot)
        if await self._write(view, step.run, documents.run_status(view, step, known)):
            if step.run.uid in self._memory:
                self._memory[step.run.uid] = memory.written(self._memory[step.run.uid], step.phase)
            self._report.settled(view, step)
            self._stage("settled")
            entry = view.job.entry(step.run.uid)
            if step.phase is Phase.SKIPPED and (known.prepared or (entry is not None and entry.prepared)):
                # It was made ready and is not wanted: what does nothing by itself shall not lie about either.
                await self._launcher.stop(
                    documents.order_for(view, entry) if entry else documents.order(view, step.run, 1)
                )

    async def delete(self, view: View, run: Run) -> None:
        await self._store.delete_run(run.namespace, run.name, uid=run.uid)
        self._cache.drop_run((view.job.namespace, view.job.name), run.name, uid=run.uid)
        self._memory.pop(run.uid, None)

    async def prepare(self, view: View, run: Run) -> None:
        """Before the record only: what fails here is tried again by the launch itself."""
        self._memory[run.uid] = memory.prepared(view.remembered(run.uid))
        try:
            made = await self._launcher.prepare(documents.order(view, run, 1))
        except SoloistError as error:
            self._report.failed("prepare", error)
            return
        self._memory[run.uid] = memory.prepared(self._acting.known(run.uid), made)
