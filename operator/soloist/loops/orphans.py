"""Ends runs that name a ScheduledJob which is not there, some time after it was first missed: the server deletes most of them itself.

The cache may not have heard of the job yet, so the API server is asked before anything is written.
"""

from datetime import datetime

from soloist.domain.orphaned import PATIENCE, ending, orphans
from soloist.domain.runs import Run
from soloist.domain.term import Term
from soloist.loops.acting import Acting
from soloist.loops.cache import Cache, Key
from soloist.loops.rereading import reread_run
from soloist.ports import Clock, Report, Store, Written


class Orphans:
    """``acting`` says what is still going on here: that is left to end."""

    def __init__(self, cache: Cache, store: Store, report: Report, clock: Clock, acting: Acting) -> None:
        self._cache, self._store, self._report, self._clock, self._acting = cache, store, report, clock, acting
        self._missed: dict[Key, float] = {}

    def left(self, key: Key, term: Term) -> float | None:
        """Seconds until they have waited for long enough; None where there is none."""
        if not self._runs(key, term):
            self.found(key)
            return None
        now = self._clock.boottime()
        return self._missed.setdefault(key, now) + PATIENCE - now

    def found(self, key: Key) -> None:
        """Its job is there, or nobody asks for it."""
        self._missed.pop(key, None)

    async def end_one(self, key: Key, term: Term) -> None:
        """The one that has waited the longest, unless its job is there after all."""
        raw = await self._store.read_job(*key)
        if raw is not None:
            self._cache.put_job(raw)
            return
        run = next(iter(self._runs(key, term)), None)
        if run is None:
            return
        self._report.wrote("run status")
        answer = await self._store.write_run_status(
            run.namespace,
            run.name,
            uid=run.uid,
            resource_version=run.resource_version,
            status=ending(run, self._now(term)),
        )
        if isinstance(answer, Written):
            self._cache.put_run(answer.obj)
            self._report.orphaned(run)
        else:
            await reread_run(self._cache, self._store, key, run)

    def _runs(self, key: Key, term: Term) -> list[Run]:
        left = orphans(self._cache.runs(key), f"{term.lease_namespace}/{term.lease_name}")
        return [run for run in left if run.uid not in self._acting.going]

    def _now(self, term: Term) -> datetime:
        return term.now(self._clock.boottime())
