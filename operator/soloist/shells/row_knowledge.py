"""What a standalone process knows of jobs and runs: rows, followed; and whose files the jobs are.

The one that leads makes the jobs those of its files, under its epoch, at its term's beginning and whenever the files change.
The others compare, and say so where theirs are others; they change nothing. So two with different files do not undo each
other's: the jobs are those of whoever leads, and change once with each hand-over.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from soloist.adapters.clock import SystemClock
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.row_changes import RowChanges
from soloist.adapters.postgres.row_objects import JOB, RUN
from soloist.adapters.postgres.row_specs import InEffect, RowSpecs, hash_of
from soloist.adapters.postgres.row_store import RowStore
from soloist.domain.errors import SoloistError
from soloist.domain.manifest_plan import Plan
from soloist.domain.term import Term
from soloist.loops.cache import Cache, Key
from soloist.loops.keeper import Keeper
from soloist.ports import Raw, Report
from soloist.shells.freshness import Followed, Freshness
from soloist.shells.standalone_settings import StandaloneSettings

_log = logging.getLogger("soloist.standalone")

COMPARES_EVERY = 15.0
AGAIN = 1.0


class RowKnowledge:
    """``planned`` gives what is to be in effect by the files, of what is."""

    def __init__(
        self,
        settings: StandaloneSettings,
        clock: SystemClock,
        database: Database,
        store: RowStore,
        *,
        report: Report,
        planned: Callable[[list[Raw]], Plan],
        wake: Callable[[Key], None],
    ) -> None:
        self._store, self._planned = store, planned
        self.cache = Cache()
        self._specs = RowSpecs(database, shard=store.shard, writer=store.writer)
        self._keeper = Keeper(
            cache=self.cache, store=store, report=report, clock=clock, wake=wake, every=settings.relist
        )
        self._changes = RowChanges(
            database,
            store,
            changed=self._changed,
            gap=self._gap,
            boottime=clock.boottime,
        )
        looked = Followed(heard=lambda: self._changes.heard, watched=lambda: self._changes.heard)
        self.age = Freshness(self._keeper, self.cache, clock, limit=settings.staleness_limit, jobs=looked, runs=looked)
        self._epoch: int | None = None
        self._looked_at: InEffect | None = None
        self._files_changed, self._runs_gap = asyncio.Event(), asyncio.Event()
        self.differs = ""
        """How the files of this process differ from what is in effect; empty where they do not."""

    def start(self) -> list[Coroutine[Any, Any, None]]:
        """What is to be run for ever."""
        return [self._keeper.run(), self._changes.run(), self._follow_files()]

    def files_changed(self) -> None:
        self._files_changed.set()

    async def begin_term(self, term: Term) -> list[Coroutine[Any, Any, Any]]:
        """The jobs of these files, then consistent lists of jobs and of runs."""
        self._epoch = term.epoch
        self._changes.follow(RUN)
        await self._apply(term.epoch, anyway=True)
        await self._keeper.relist_jobs()
        await self._keeper.relist_runs()
        self.age.begin_term()
        return [self._follow_run_gaps()]

    async def _apply(self, epoch: int, *, anyway: bool = False) -> None:
        plan = self._planned((await self._store.list_jobs()).items)
        in_effect = await self._specs.in_effect()
        if not anyway and in_effect is not None and in_effect.hash == hash_of(plan.objects):
            return
        applied = await self._specs.apply(plan.objects, kinds=[JOB], epoch=epoch)
        self.differs = ""
        if applied.made or applied.changed or applied.removed:
            await self._keeper.relist_jobs()
            counts = {"made": applied.made, "changed": applied.changed, "removed": applied.removed}
            _log.info("files are in effect", extra=counts)

    async def _follow_files(self) -> NoReturn:
        while True:
            try:
                async with asyncio.timeout(COMPARES_EVERY):
                    await self._files_changed.wait()
            except TimeoutError:
                pass  # it is time to compare again
            changed = self._files_changed.is_set()
            self._files_changed.clear()
            try:
                in_effect = await self._specs.in_effect()
                if not changed and in_effect == self._looked_at:
                    continue  # many jobs are not read, parsed and hashed for nothing
                if self._epoch is not None:
                    await self._apply(self._epoch)
                elif in_effect is not None:
                    await self._compare(in_effect)
                self._looked_at = in_effect
            except SoloistError as error:
                _log.warning("files are not in effect yet", extra={"error": str(error)})
                self._files_changed.set()
                await asyncio.sleep(AGAIN)

    async def _compare(self, in_effect: InEffect) -> None:
        plan = self._planned((await self._store.list_jobs()).items)
        same = hash_of(plan.objects) == in_effect.hash
        differs = "" if same else f"the jobs in effect are from the files of {in_effect.of}, and the files here are others: give both the same"  # fmt: skip
        if differs and differs != self.differs:
            _log.warning("files differ", extra={"in_effect": in_effect.of, "sentence": differs})
        if self.differs and not differs:
            _log.info("files agree")
        self.differs = differs

    def _changed(self, raw: Raw) -> None:
        (self._keeper.job_seen if raw["kind"] == JOB else self._keeper.run_seen)("MODIFIED", raw)

    def _gap(self) -> None:
        self._keeper.gap()
        self._runs_gap.set()

    async def _follow_run_gaps(self) -> NoReturn:
        while True:
            await self._runs_gap.wait()
            self._runs_gap.clear()
            try:
                await self._keeper.relist_runs()
            except SoloistError as error:
                _log.warning("runs are not listed", extra={"error": str(error)})
                self._runs_gap.set()
                await asyncio.sleep(AGAIN)
