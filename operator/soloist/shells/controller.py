"""The controller: every replica watches and stands for election; the one that holds the Lease launches.

Wiring and nothing else. Two threads beside the loop: the elector's, which nothing here can hold up, and kopf's. Losing the
Lease ends this process at once; its parent starts another. SIGTERM starts nothing new, goes on renewing while actions end,
writes what came of them, and gives the Lease back.
"""

import asyncio
import logging
import os
import signal
import threading
from contextlib import AsyncExitStack
from datetime import timedelta

from prometheus_client import CollectorRegistry

from soloist.adapters.clock import SystemClock
from soloist.adapters.http.client import HttpLauncher
from soloist.adapters.http.session import HttpLimits
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.events import KubeRecorder
from soloist.adapters.kube.jobs import JobLauncher
from soloist.adapters.kube.secrets import KubeSecrets
from soloist.adapters.kube.store import KubeStore
from soloist.domain.actions import EnqueueAction, HttpAction, JobAction, SqlAction
from soloist.domain.addresses import AddressRules
from soloist.domain.term import Term
from soloist.loops.launchers import Launchers
from soloist.loops.scheduler import Pace, Scheduler
from soloist.shells.candidacy import Candidacy, Told
from soloist.shells.child import ExitCode, crash
from soloist.shells.garbage import collect_seldom
from soloist.shells.health import health_server
from soloist.shells.knowledge import Knowledge
from soloist.shells.own_pod import pod_name
from soloist.shells.queue_care import queue_care
from soloist.shells.reporting import Reporter
from soloist.shells.settings import ControllerSettings
from soloist.shells.sql_actions import sql_launcher
from soloist.shells.telemetry import Metrics, start_logging
from soloist.shells.variables import warn

_log = logging.getLogger("soloist.controller")

REMEMBERED = timedelta(minutes=10)
"""Ends of terms younger than this are kept in any case: a late write of such a term may still arrive."""


def run(settings: ControllerSettings) -> int:
    """Until SIGTERM; the exit code. A lost term ends the process from within."""
    start_logging(settings.log_level, settings.log_format)
    warn(os.environ, _log)
    collect_seldom()
    return asyncio.run(Controller(settings).main())


class Controller:
    """All the parts of one process."""

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._metrics = Metrics(CollectorRegistry())
        self._access = Access.found(settings.kubeconfig or None, settings.context or None)
        self._needed: frozenset[int] | None = None
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[object]] = set()

    async def main(self) -> int:
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stopping.set)
        async with AsyncExitStack() as stack:
            self._build(stack)
            await stack.enter_async_context(
                health_server(
                    address=self._settings.health_address,
                    port=self._settings.health_port,
                    alive={"elector": self._candidacy.lives, "kopf": self._knowledge.follows},
                    ready={"cache": self._knowledge.is_filled, "fresh": self._is_fresh},
                    registry=self._metrics.registry,
                )
            )
            self._spawn(self._recorder.run())
            self._spawn(self._knowledge.start())
            self._candidacy.start()
            await self._stopping.wait()
            return await self._go_away()

    def _build(self, stack: AsyncExitStack) -> None:
        settings, clock = self._settings, self._clock
        # The claims, records and launches of a burst share these; the rest of the writes are held back by lanes.
        api = KubeApi(self._access, connections=settings.max_api_writes)
        quiet = KubeApi(self._access, connections=16)
        stack.push_async_callback(api.close)
        stack.push_async_callback(quiet.close)
        self._recorder = KubeRecorder(
            quiet, instance=pod_name(), now=clock.now, dropped=lambda: self._metrics.error("event dropped")
        )
        report = Reporter(self._metrics, self._recorder if settings.events else None)
        store = KubeStore(api, namespaces=settings.namespaces)
        keys = KubeSecrets(quiet, boottime=clock.boottime)
        http = HttpLauncher(
            read_key=keys.read,
            rules=AddressRules(allowed=settings.http_allow, denied=settings.http_deny),
            limits=HttpLimits(connections=settings.max_http_runs),
            trusted=lambda: self._scheduler.may_act(),
        )
        sql = sql_launcher(settings, clock, quiet, keys, trusted=lambda: self._scheduler.may_act(), stage=self._stage)
        stack.push_async_callback(http.close)
        stack.push_async_callback(sql.close)
        self._knowledge = Knowledge(
            settings,
            self._access,
            clock,
            quiet=quiet,
            store=store,
            report=report,
            wake=lambda key: self._scheduler.wake(key),
        )
        told = Told(
            elected=self._lead,
            noticed=self._noticed,
            fleet_pause_changed=self._fleet_pause_changed,
            needed_epochs=lambda: self._needed,
        )
        self._candidacy = Candidacy(settings, self._access, clock, told)
        term = self._candidacy.term
        self._queues = queue_care(
            settings, clock, quiet, self._metrics, report=report, recorder=self._recorder, term=term
        )
        jobs = JobLauncher(api, self._knowledge.job_watch, trusted=lambda: self._scheduler.may_act())
        self._scheduler = Scheduler(
            cache=self._knowledge.cache,
            store=store,
            launcher=Launchers({HttpAction: http, JobAction: jobs, SqlAction: sql, EnqueueAction: sql}),
            report=report,
            clock=clock,
            term=term,
            fresh=self._knowledge.fresh,
            on_stop=self._candidacy.end,
            stage=self._stage,
            pace=Pace(claim_ahead=settings.claim_ahead, record_ahead=settings.record_ahead),
        )

    def _lead(self, term: Term) -> None:
        _log.info("leading", extra={"epoch": term.epoch, "lease": f"{term.lease_namespace}/{term.lease_name}"})
        self._metrics.leading(term.epoch)
        ends = [end for epoch, end in term.past_ends.items() if epoch < term.epoch]
        if ends:
            self._metrics.handover(max(0.0, (term.renew_time - max(ends)).total_seconds()))
        self._spawn(self._begin_term())

    async def _begin_term(self) -> None:
        followed = await self._knowledge.begin_term()
        self._scheduler.start()
        for each in (
            self._scheduler.run(),
            *followed,
            self._remember_epochs(),
            self._tell_if_stale(),
            self._queues.run(),
        ):
            self._spawn(each)

    async def _tell_if_stale(self) -> None:
        """Nothing is launched on a cache that is too old; that must not go unsaid."""
        told = False
        while True:
            fresh = self._knowledge.fresh()
            if not fresh and not told:
                limit = self._settings.staleness_limit
                sentence = (
                    f"Neither watch nor list has been heard of for {limit:g} s: nothing is launched until one is."
                )
                self._noticed("CacheStale", f"{sentence} Look at the API server, and at this controller's rights.")
                self._metrics.error("stale cache")
            if fresh and told:
                self._scheduler.wake_all()
            told = not fresh
            await asyncio.sleep(2.0)

    async def _remember_epochs(self) -> None:
        while True:
            term = self._candidacy.term()
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
        meta = {"namespace": self._settings.lease_namespace, "name": self._settings.lease_name}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
        if self._settings.events:
            self._recorder.event(lease, reason=reason, message=message, warning=True)

    def _stage(self, stage: str) -> None:
        """Where tests kill this process."""
        at, _, whom = self._settings.crash_at.partition(":")
        if at == stage:
            crash(with_parent=whom == "both")

    async def _go_away(self) -> int:
        _log.info("going away")
        drained = threading.Event()
        self._scheduler.close()
        self._candidacy.stop(drained)
        if self._candidacy.term() is not None:
            await self._scheduler.drain(self._settings.grace)
        drained.set()
        await self._candidacy.stopped()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._knowledge.stop()
        return ExitCode.DONE

    def _spawn(self, coroutine: object) -> None:
        task: asyncio.Task[object] = self._loop.create_task(coroutine)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        """Nothing that runs for ever may end by itself: a loop that is gone is not survived in silence."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A fault of ours, not a term that passed on: the process ends as failed, so that whoever runs it sees that.
            _log.error("a loop ended; this process ends", exc_info=error)
            logging.shutdown()
            os._exit(ExitCode.FAILED)

    def _is_fresh(self) -> tuple[bool, str]:
        return self._knowledge.is_fresh(leads=self._candidacy.term() is not None)
