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
from soloist.domain.errors import PermanentError
from soloist.domain.term import Term
from soloist.loops.cache import Cache, Key
from soloist.loops.keeper import Keeper
from soloist.ports import Report
from soloist.shells.freshness import Followed, Freshness
from soloist.shells.settings import ControllerSettings

_log = logging.getLogger("soloist.controller")


def unreadable(sentence: str) -> str:
    """With what to do."""
    remedy = "Apply manifests/crds where the kind is missing, and grant what manifests/rbac says where a right is."
    return f"{sentence.removesuffix('.')}. {remedy}"


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
        notice: Callable[[str, str], None],
    ) -> None:
        self._notice = notice
        self.cache = Cache()
        self.job_watch = JobWatch(
            quiet, boottime=clock.boottime, namespaces=settings.namespaces, refused=self._runs_refused
        )
        self._keeper = Keeper(
            cache=self.cache,
            store=store,
            report=report,
            clock=clock,
            wake=wake,
            every=settings.relist,
            refused=lambda sentence: self._notice("JobsUnreadable", unreadable(sentence)),
        )
        # One that is made anew is heard of: where no run changes, a bookmark a minute would be too seldom for a short limit.
        window = min(240.0, settings.staleness_limit / 2)
        self._runs_watch = Watch(
            quiet,
            store.paths(RUNS),
            on_event=self._keeper.run_seen,
            relist=self._keeper.relist_runs,
            boottime=clock.boottime,
            window=window,
            quiet=min(60.0, window) + 10.0,
            refused=self._runs_refused,
        )
        self._kopf = KopfWatch(
            access,
            on_event=self._keeper.job_seen,
            on_gap=self._keeper.gap,
            boottime=clock.boottime,
            namespaces=settings.namespaces,
        )
        self.age = Freshness(
            self._keeper,
            self.cache,
            clock,
            limit=settings.staleness_limit,
            jobs=Followed(heard=lambda: self._kopf.heard, watched=lambda: self._kopf.watched),
            runs=Followed(heard=lambda: self._runs_watch.heard, watched=lambda: self._runs_watch.watched),
        )

    def start(self) -> Coroutine[Any, Any, None]:
        """Follow the ScheduledJobs; what is returned is to be run for ever."""
        self._kopf.start()
        return self._keeper.run()

    def _runs_refused(self, sentence: str) -> None:
        self._notice("RunsUnreadable", unreadable(sentence))

    async def stop(self) -> None:
        await self._kopf.stop()

    async def begin_term(self, _term: Term) -> list[Coroutine[Any, Any, None]]:
        """Consistent lists of both kinds, taken after the Lease was; then what is to be run for ever.

        In this order: a run that is recorded in what was read first is then in what is read after.
        """
        await self._keeper.relist_jobs()
        try:
            await self._keeper.relist_runs()
        except PermanentError as error:
            if str(error) != self.age.cannot_begin:
                self._runs_refused(str(error))
            raise
        self.age.begin_term()
        return [self._runs_watch.run(), self.job_watch.run()]
