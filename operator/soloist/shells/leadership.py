"""From an election to the end of its term: what every process that launches jobs does, wherever jobs and lease are kept.

A term begins with consistent lists, taken after the lease was; then jobs are looked at. SIGTERM starts nothing new, goes on
renewing while actions end, writes what came of them, and gives the lease back. Losing it ends the process: that is the
candidacy's.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Protocol

from soloist.adapters.clock import SystemClock
from soloist.domain.errors import SoloistError
from soloist.domain.term import Term
from soloist.loops.cache import Cache
from soloist.loops.scheduler import Scheduler
from soloist.shells.candidacy import Candidacy, Told
from soloist.shells.child import crash
from soloist.shells.freshness import Freshness
from soloist.shells.tasks import Tasks
from soloist.shells.telemetry import Metrics

_log = logging.getLogger("soloist.leadership")

REMEMBERED = timedelta(minutes=10)
"""Ends of terms younger than this are kept in any case: a late write of such a term may still arrive."""


class LeaderSettings(Protocol):
    """What both kinds of settings have."""

    @property
    def staleness_limit(self) -> float: ...
    @property
    def grace(self) -> float: ...
    @property
    def crash_at(self) -> str: ...


class Knows(Protocol):
    """What a process knows of jobs and runs, and how old that is."""

    @property
    def cache(self) -> Cache: ...

    async def begin_term(self, term: Term) -> list[Coroutine[Any, Any, Any]]:
        """Make it whole for a term; then what is to be run for ever. Raises SoloistError; it is asked again then."""

    @property
    def age(self) -> Freshness: ...


class Leadership:
    """``notice`` is told a reason and a sentence, for people; ``source``: whom to look at where nothing is heard of."""

    def __init__(
        self,
        settings: LeaderSettings,
        stands: Callable[[Told], Candidacy],
        clock: SystemClock,
        metrics: Metrics,
        tasks: Tasks,
        knowledge: Knows,
        *,
        notice: Callable[[str, str], None],
        source: str,
    ) -> None:
        self._settings, self._clock, self._metrics, self._tasks = settings, clock, metrics, tasks
        self._knowledge, self._notice, self._source = knowledge, notice, source
        self._loop = asyncio.get_running_loop()
        self._needed: frozenset[int] | None = None
        self._scheduler: Scheduler
        self._also: list[Callable[[], Coroutine[Any, Any, Any]]] = []
        told = Told(
            elected=self._lead,
            noticed=self._noticed,
            fleet_pause_changed=self._fleet_pause_changed,
            needed_epochs=lambda: self._needed,
        )
        self.candidacy = stands(told)

    def launch_by(self, scheduler: Scheduler, *also: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """``also`` is run for ever as well, from the beginning of a term on."""
        self._scheduler, self._also = scheduler, list(also)

    def may_act(self) -> bool:
        """Asked just before each effect."""
        return self._scheduler.may_act()

    def stage(self, stage: str) -> None:
        """Where tests kill this process."""
        if not self._settings.crash_at:
            return
        at, _, whom = self._settings.crash_at.partition(":")
        if at == stage:
            crash(with_parent=whom == "both")

    async def end(self) -> None:
        """In order, within the grace."""
        drained = threading.Event()
        self._scheduler.close()
        self.candidacy.stop(drained)
        if self.candidacy.term() is not None:
            await self._scheduler.drain(self._settings.grace)
        drained.set()
        await self.candidacy.stopped()

    def _lead(self, term: Term) -> None:
        _log.info("leading", extra={"epoch": term.epoch, "lease": f"{term.lease_namespace}/{term.lease_name}"})
        self._metrics.leading(term.epoch)
        ends = [end for epoch, end in term.past_ends.items() if epoch < term.epoch]
        if ends:
            self._metrics.handover(max(0.0, (term.renew_time - max(ends)).total_seconds()))
        self._tasks.spawn(self._begin_term(term))

    async def _begin_term(self, term: Term) -> None:
        followed = await self._made_whole(term)
        self._scheduler.start()
        also = (each() for each in self._also)
        for each in (self._scheduler.run(), *followed, self._remember_epochs(), self._tell_if_stale(), *also):
            self._tasks.spawn(each)

    async def _made_whole(self, term: Term) -> list[Coroutine[Any, Any, Any]]:
        wait = 0.1
        while True:
            try:
                return await self._knowledge.begin_term(term)
            except SoloistError as error:
                _log.warning("the term cannot start yet", extra={"error": str(error)})
                self._knowledge.age.cannot_begin = str(error)
                await asyncio.sleep(wait)
                wait = min(2.0, wait * 2)

    async def _tell_if_stale(self) -> None:
        """Nothing is launched on a cache that is too old; that must not go unsaid."""
        told = False
        while True:
            fresh = self._knowledge.age.fresh()
            if not fresh and not told:
                limit = self._settings.staleness_limit
                sentence = (
                    f"Neither watch nor list has been heard of for {limit:g} s: nothing is launched until one is."
                )
                self._noticed("CacheStale", f"{sentence} Look at {self._source}.")
                self._metrics.error("stale cache")
            if fresh and told:
                self._scheduler.wake_all()
            told = not fresh
            await asyncio.sleep(2.0)

    async def _remember_epochs(self) -> None:
        while True:
            term = self.candidacy.term()
            if term is not None:
                now = term.now(self._clock.boottime())
                recent = {epoch for epoch, end in term.past_ends.items() if now - end < REMEMBERED}
                self._needed = self._knowledge.cache.epochs() | recent
            self._metrics.jobs(len(self._knowledge.cache))
            await asyncio.sleep(30.0)

    def _fleet_pause_changed(self) -> None:
        # A moment later: the term is handed on after this was called.
        self._loop.call_later(0.2, self._scheduler.wake_all)

    def _noticed(self, reason: str, message: str) -> None:
        _log.warning("election", extra={"reason": reason, "sentence": message})
        self._notice(reason, message)
