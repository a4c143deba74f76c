"""What a controller knows of ScheduledJobs, JobRuns and Jobs, whence, and how old that is.

Everybody follows the ScheduledJobs, so that a standby is warm; JobRuns and Jobs are followed from the beginning of a term on.
Nothing is launched on what is older than the limit.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.job_watch import JobWatch
from soloist.adapters.kube.kopf_watch import KopfWatch
from soloist.adapters.kube.store import RUNS, KubeStore
from soloist.adapters.kube.watch import Watch
from soloist.domain.term import Term
from soloist.loops.cache import Cache, Key
from soloist.loops.keeper import NEVER, Keeper
from soloist.ports import Report
from soloist.shells.settings import ControllerSettings

_log = logging.getLogger("soloist.controller")


class Knowledge:
    """The cache and all that keeps it true. ``quiet``: the connections of what is in no hurry."""

    def __init__(
        self,
        settings: ControllerSettings,
        access: Access,
        clock: SystemClock,
        *,
        quiet: KubeApi,
        store: KubeStore,
        report: Report,
        wake: Callable[[Key], None],
    ) -> None:
        self._limit, self._clock, self._born = settings.staleness_limit, clock, clock.boottime()
        self.cache = Cache()
        self.job_watch = JobWatch(quiet, boottime=clock.boottime, namespaces=settings.namespaces)
        self._keeper = Keeper(
            cache=self.cache, store=store, report=report, clock=clock, wake=wake, every=settings.relist
        )
        self._runs_watch = Watch(
            quiet,
            store.paths(RUNS),
            on_event=self._keeper.run_seen,
            relist=self._keeper.relist_runs,
            boottime=clock.boottime,
        )
        self._kopf = KopfWatch(
            access,
            on_event=self._keeper.job_seen,
            on_gap=self._keeper.gap,
            boottime=clock.boottime,
            namespaces=settings.namespaces,
        )

    def start(self) -> Coroutine[Any, Any, None]:
        """Follow the ScheduledJobs; what is returned is to be run for ever."""
        self._kopf.start()
        return self._keeper.run()

    async def stop(self) -> None:
        await self._kopf.stop()

    async def begin_term(self, _term: Term) -> list[Coroutine[Any, Any, None]]:
        """Consistent lists of both kinds, taken after the Lease was; then what is to be run for ever.

        In this order: a run that is recorded in what was read first is then in what is read after.
        """
        await self._keeper.relist_jobs()
        await self._keeper.relist_runs()
        return [self._runs_watch.run(), self.job_watch.run()]

    def fresh(self) -> bool:
        jobs = max(self._keeper.jobs_listed, self._kopf.heard)
        runs = max(self._keeper.runs_listed, self._runs_watch.heard)
        return self._clock.boottime() - min(jobs, runs) < self._limit

    def follows(self) -> tuple[bool, str]:
        """For /healthz: whether the ScheduledJobs are being followed at all."""
        limit = 2 * self._limit
        age = self._clock.boottime() - max(self._keeper.jobs_listed, self._kopf.heard, self._born)
        return age < limit, f"ScheduledJobs were last heard of {age:.0f} s ago (limit {limit:.0f} s)"

    def is_fresh(self, *, leads: bool) -> tuple[bool, str]:
        """For /readyz: a leader whose term has begun must not be too old."""
        fresh = self.fresh()
        begun = leads and self._keeper.runs_listed > NEVER
        return not begun or fresh, "what this leader knows is fresh" if fresh else "a follower, or too old"

    def is_filled(self) -> tuple[bool, str]:
        """For /readyz: whether the first list is through."""
        filled = self._keeper.jobs_listed > NEVER
        return filled, f"{len(self.cache)} ScheduledJobs are known" if filled else "the first list is not through"
