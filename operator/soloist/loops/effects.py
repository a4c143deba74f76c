"""Taking the steps: one write or one launch each, and what came of it into the cache and the memory.

A write that somebody forestalled is not an error: the object is read again, and the rules decide anew. A write whose reply
is lost raises ``TransientError``; the caller reads again, and if the write is there after all, the rules go on from it.
"""

from datetime import datetime
from typing import NoReturn

from soloist.domain import documents, memory, recording, status
from soloist.domain.errors import SoloistError, TransientError
from soloist.domain.parsing import parse_run
from soloist.domain.runs import Job, Phase, Run
from soloist.domain.spec import Invalid
from soloist.domain.steps import (
    Cancel,
    CreateRun,
    DeleteRun,
    Inspect,
    Launch,
    Prepare,
    Step,
    TakeOver,
    WriteAttempt,
    WriteJob,
    WriteRun,
)
from soloist.domain.ticks import Reason
from soloist.domain.view import View
from soloist.loops.acting import Acting, Stage
from soloist.loops.cache import Cache
from soloist.loops.lanes import Lanes
from soloist.loops.rereading import reread
from soloist.ports import AlreadyExists, Conflict, Gone, Launcher, Refused, Report, Store, Written


class NotNow(Exception):
    """Refused for a reason that may pass (a quota, an admission webhook): come back in ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class Effects:
    """``acting`` does what is not a write, and remembers; ``taken``, by uid of the job: ticks whose run cannot be made."""

    def __init__(
        self,
        *,
        cache: Cache,
        store: Store,
        launcher: Launcher,
        report: Report,
        acting: Acting,
        lanes: Lanes,
        stage: Stage,
    ) -> None:
        self._cache, self._store, self._launcher, self._report = cache, store, launcher, report
        self._acting, self._lanes, self._stage = acting, lanes, stage
        self.memory = acting.memory
        self.taken: dict[str, dict[datetime, Reason]] = {}

    async def take(self, view: View, step: Step, lease_uid: str) -> None:
        """Whatever the rules asked for. Launches and what leads to them go before the rest."""
        match step:
            case Launch():
                self._acting.launch(view, step)
            case CreateRun():
                with self._lanes.urgent():
                    await self._create(view, step, lease_uid)
            case WriteJob(add=()):
                async with self._lanes.patient():
                    await self._write_job(view, step)
            case WriteJob():
                with self._lanes.urgent():
                    await self._write_job(view, step)
            case WriteAttempt():
                with self._lanes.urgent():
                    await self._write_run(view, step.run, documents.attempt_ahead(view, step))
            case TakeOver():
                with self._lanes.urgent():
                    await self._take_over(view, step.run)
            case WriteRun():
                async with self._lanes.patient():
                    await self._settle(view, step)
            case Prepare():
                await self._prepare(view, step.run)
            case Cancel():
                await self._acting.cancel(view, step)
            case Inspect():
                self._acting.inspect(view, step.run)
            case DeleteRun():
                async with self._lanes.patient():
                    await self._delete(view, step.run)

    async def _create(self, view: View, step: CreateRun, lease_uid: str) -> None:
        self._report.wrote("create run")
        answer = await self._store.create_run(documents.claimed(view, step.tick, lease_uid))
        match answer:
            case Written(obj=obj):
                self._cache.put_run(obj)
                self._stage("claimed")
            case AlreadyExists(obj=None):
                return
            case AlreadyExists(obj=obj) if obj is not None:
                self._cache.put_run(obj)
                reason = recording.why_taken(view, parse_run(obj), step.tick)
                if reason is not None and not await self._reread_job(view):
                    self._take_name(view, step.tick, reason, obj["metadata"]["name"])
            case Gone():
                # The job, or its namespace, is going away: until it has gone there is no use in asking again at once.
                await self._reread_job(view)
                raise NotNow(1.0)
            case Refused(message=message):
                self._report.stands_in_the_way(view.job, "RunRefused", message)
                raise NotNow(5.0)

    async def refuse(self, job: Job, invalid: Invalid, now: datetime) -> bool:
        """Say once that the spec cannot be run. False: it is said already."""
        patch = status.refused(job, invalid, now)
        if patch is None:
            return False
        self._report.wrote("job status")
        answer = await self._store.write_job_status(
            job.namespace,
            job.name,
            uid=job.uid,
            resource_version=job.resource_version,
            status=patch,
            before=job.status,
        )
        if isinstance(answer, Written):
            self._cache.put_job(answer.obj)
            self._report.invalid(job, invalid)
        else:
            await reread(self._cache, self._store, (job.namespace, job.name))
        return True

    def _take_name(self, view: View, tick: datetime, reason: Reason, name: str) -> None:
        self.taken.setdefault(view.job.uid, {})[tick] = reason
        if reason is Reason.NAME_TAKEN:
            message = (
                f"A JobRun named {name} exists that is not this job's run of {tick.isoformat()}: delete or rename it."
            )
            self._report.stands_in_the_way(view.job, reason, message)

    async def _write_job(self, view: View, step: WriteJob) -> None:
        job = view.job
        self._report.wrote("job status")
        patch = status.compose(view, step)
        answer = await self._store.write_job_status(
            job.namespace,
            job.name,
            uid=job.uid,
            resource_version=job.resource_version,
            status=patch,
            before=job.status,
        )
        match answer:
            case Written(obj=obj):
                self._cache.put_job(obj)
                self._report.decided(view, step)
                if "paused" in patch and patch["paused"] is not None:
                    self._report.stands_in_the_way(job, "PausedAfterFailures", patch["paused"]["message"])
                self._forget(view, step)
                if step.add:
                    self._check_kept(view, step)
                    self._stage("recorded")
            case Conflict() | Gone():
                await self._reread_job(view)

    def _check_kept(self, view: View, step: WriteJob) -> None:
        now = self._cache.job((view.job.namespace, view.job.name))
        kept = now.entry(step.add[0].uid) if now is not None else None
        if kept is not None and kept.launch_at is None:
            self._crds_too_old(view, "ScheduledJob status.active[].launchTime")

    def _forget(self, view: View, step: WriteJob) -> None:
        """What has left ``active`` need not be remembered; a tick that is decided cannot be taken."""
        for uid in step.drop:
            self.memory.pop(uid, None)
        taken = self.taken.get(view.job.uid)
        if taken and step.watermark is not None:
            for tick in [tick for tick in taken if tick <= step.watermark]:
                del taken[tick]

    async def _reread_job(self, view: View) -> bool:
        """Whether it is another by now than the rules have looked at."""
        job = view.job
        raw = await self._store.read_job(job.namespace, job.name)
        if raw is None or raw["metadata"]["uid"] != job.uid:
            self._cache.drop_job(job.namespace, job.name, uid=job.uid)
        if raw is not None:
            self._cache.put_job(raw)
        return raw is None or str(raw["metadata"]["resourceVersion"]) != job.resource_version

    async def _write_run(self, view: View, run: Run, patch: documents.Raw) -> bool:
        self._report.wrote("run status")
        try:
            answer = await self._store.write_run_status(
                run.namespace, run.name, uid=run.uid, resource_version=run.resource_version, status=patch
            )
        except TransientError as error:
            if error.sent:
                self.memory[run.uid] = memory.doubted(view.remembered(run.uid))
            raise
        if isinstance(answer, Written):
            self._cache.put_run(answer.obj)
            if run.uid in self.memory:
                self.memory[run.uid] = memory.certain(self.memory[run.uid])
            return True
        key = (view.job.namespace, view.job.name)
        raw = await self._store.read_run(run.namespace, run.name)
        if raw is None or raw["metadata"]["uid"] != run.uid:
            self._cache.drop_run(key, run.name, uid=run.uid)
        if raw is not None:
            self._cache.put_run(raw)
        return False

    async def _take_over(self, view: View, run: Run) -> None:
        if await self._write_run(view, run, documents.taken_over(view)):
            now = self._cache.run((view.job.namespace, view.job.name), run.name)
            if now is not None and now.uid == run.uid and now.taken_by != view.epoch:
                self._crds_too_old(view, "JobRun status.takenBy")

    def _crds_too_old(self, view: View, field: str) -> NoReturn:
        """The server drops what its schema does not know, without a word; going on would write the same for ever."""
        remedy = "apply the CRDs of this version (manifests/crds); until then runs are late, and a hand-over leaves them Unknown"
        message = f"The API server does not keep {field}: {remedy}."
        self._report.stands_in_the_way(view.job, "CrdsTooOld", message)
        raise NotNow(30.0)

    async def _settle(self, view: View, step: WriteRun) -> None:
        known = view.remembered(step.run.uid)
        if await self._write_run(view, step.run, documents.run_status(view, step, known)):
            if step.run.uid in self.memory:
                self.memory[step.run.uid] = memory.written(self.memory[step.run.uid], step.phase)
            self._report.settled(view, step)
            self._stage("settled")
            if step.phase is Phase.SKIPPED and known.prepared:
                # It was made ready and is not wanted: what does nothing by itself shall not lie about either.
                entry = view.job.entry(step.run.uid)
                await self._launcher.stop(
                    documents.order_for(view, entry) if entry else documents.order(view, step.run, 1)
                )

    async def _delete(self, view: View, run: Run) -> None:
        await self._store.delete_run(run.namespace, run.name, uid=run.uid)
        self._cache.drop_run((view.job.namespace, view.job.name), run.name, uid=run.uid)
        self.memory.pop(run.uid, None)

    async def _prepare(self, view: View, run: Run) -> None:
        """Ahead of time only: what fails here is tried again by the launch itself."""
        self.memory[run.uid] = memory.prepared(view.remembered(run.uid))
        try:
            await self._launcher.prepare(documents.order(view, run, 1))
        except SoloistError as error:
            self._report.failed("prepare", error)
