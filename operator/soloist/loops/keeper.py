"""Keeps the cache true: watches tell, lists settle what watches miss, and age is known.

A term starts with consistent lists of ScheduledJobs and JobRuns, taken after the Lease was; nothing is launched on a cache
of which neither a watch nor a list has been heard of for longer than the limit.
"""

import asyncio
from collections.abc import Callable

from soloist.domain.errors import PermanentError, SoloistError
from soloist.loops.cache import Cache, Key
from soloist.ports import Clock, Raw, Report, Store

NEVER = float("-inf")


class Keeper:
    """``wake`` is told of each job that changed, ``refused`` of why jobs may not be listed. Moments are CLOCK_BOOTTIME."""

    def __init__(
        self,
        *,
        cache: Cache,
        store: Store,
        report: Report,
        clock: Clock,
        wake: Callable[[Key], None],
        every: float,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cache, self._store, self._report, self._clock = cache, store, report, clock
        self._wake, self._every, self._refused = wake, every, refused
        self._gap = asyncio.Event()
        self.trouble: SoloistError | None = None
        """Why the last list of jobs failed; None where it did not."""
        self.jobs_listed = NEVER
        self.runs_listed = NEVER

    def job_seen(self, kind: str, raw: Raw) -> None:
        """A watch's word on a ScheduledJob."""
        meta = raw["metadata"]
        if kind == "DELETED":
            self._wake_all(self._cache.drop_job(meta["namespace"], meta["name"], uid=meta["uid"]))
        else:
            self._wake_all(self._cache.put_job(raw))

    def run_seen(self, kind: str, raw: Raw) -> None:
        """A watch's word on a JobRun."""
        meta = raw["metadata"]
        if kind == "DELETED":
            key = (meta["namespace"], str(raw["spec"].get("scheduledJobName", "")))
            self._wake_all(self._cache.drop_run(key, meta["name"], uid=meta["uid"]))
        else:
            self._wake_all(self._cache.put_run(raw))

    def gap(self) -> None:
        """A watch may have missed something: list soon."""
        self._gap.set()

    async def relist_jobs(self) -> None:
        sent = self._clock.boottime()
        self._wake_all(self._cache.relist_jobs(await self._store.list_jobs()))
        self.jobs_listed = sent

    async def relist_runs(self) -> str:
        """Returns the resourceVersion of the list, from where a watch may go on."""
        sent = self._clock.boottime()
        listing = await self._store.list_runs()
        self._wake_all(self._cache.relist_runs(listing))
        self.runs_listed = sent
        return listing.resource_version

    async def run(self) -> None:
        """For ever: list the ScheduledJobs each period, and after each gap."""
        wait = 0.0
        while True:
            try:
                async with asyncio.timeout(wait):
                    await self._gap.wait()
                await asyncio.sleep(0.1)
            except TimeoutError:
                pass  # the period is over
            self._gap.clear()
            try:
                await self.relist_jobs()
                wait, self.trouble = self._every, None
            except SoloistError as error:
                self._report.failed("relist", error)
                if isinstance(error, PermanentError) and str(error) != str(self.trouble):
                    self._refused(str(error))
                wait, self.trouble = min(self._every, 2.0), error

    def _wake_all(self, keys: set[Key]) -> None:
        for key in keys:
            self._wake(key)
