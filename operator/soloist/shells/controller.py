"""The controller: every replica watches and stands for election; the one that holds the Lease launches.

Wiring and nothing else. Two threads beside the loop: the elector's, which nothing here can hold up, and kopf's. Losing the
Lease ends this process at once; its parent starts another. SIGTERM starts nothing new, goes on renewing while actions end,
writes what came of them, and gives the Lease back.
"""

import asyncio
import gc
import logging
import os
import random
import secrets
import signal
import socket
import threading
from contextlib import AsyncExitStack
from datetime import timedelta

from prometheus_client import CollectorRegistry

from soloist.adapters.clock import SystemClock
from soloist.adapters.http.client import HttpLauncher
from soloist.adapters.http.session import HttpLimits
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.bounded import BoundedClient
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.events import KubeRecorder
from soloist.adapters.kube.job_watch import JobWatch
from soloist.adapters.kube.jobs import JobLauncher
from soloist.adapters.kube.kopf_watch import KopfWatch
from soloist.adapters.kube.lease import LeaseClient
from soloist.adapters.kube.lease_watch import LeaseWatches
from soloist.adapters.kube.secrets import KubeSecrets
from soloist.adapters.kube.store import RUNS, KubeStore
from soloist.adapters.kube.watch import Watch
from soloist.domain.actions import HttpAction, JobAction
from soloist.domain.addresses import AddressRules
from soloist.domain.errors import SoloistError
from soloist.domain.standing import Candidate, identity_of
from soloist.domain.term import Term
from soloist.loops.cache import Cache
from soloist.loops.election_ports import Hooks
from soloist.loops.elector import Elector
from soloist.loops.keeper import Keeper
from soloist.loops.launchers import Launchers
from soloist.loops.scheduler import Pace, Scheduler
from soloist.shells.child import PARENT_VARIABLE, Beat, ExitCode, arm_dead_man, crash, disarm_dead_man
from soloist.shells.health import health_server
from soloist.shells.own_pod import own_pod
from soloist.shells.reporting import Reporter
from soloist.shells.settings import ControllerSettings
from soloist.shells.telemetry import Metrics, start_logging

_log = logging.getLogger("soloist.controller")

GARBAGE = (5_000, 10, 10)

REMEMBERED = timedelta(minutes=10)
"""Ends of terms younger than this are kept in any case: a late write of such a term may still arrive."""


def run(settings: ControllerSettings) -> int:
    """Until SIGTERM; the exit code. A lost term ends the process from within."""
    start_logging(settings.log_level, settings.log_format)
    # A thousand launches allocate some hundred thousand objects, and free them by themselves: at its defaults the collector
    # takes a quarter of their time to find nothing. What the imports left is not looked at again.
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    return asyncio.run(Controller(settings).main())


class Controller:
    """All the parts of one process."""

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._born = self._clock.boottime()
        self._metrics = Metrics(CollectorRegistry())
        self._access = Access.found(settings.kubeconfig or None, settings.context or None)
        self._beat = Beat.inherited()
        self._nonce = secrets.token_hex(8)
        self._needed: frozenset[int] | None = None
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[object]] = set()

    async def main(self) -> int:
        settings, clock = self._settings, self._clock
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stopping.set)
        async with AsyncExitStack() as stack:
            # The claims, records and launches of a burst share these; the rest of the writes are held back by lanes.
            api = KubeApi(self._access, connections=settings.max_api_writes)
            quiet = KubeApi(self._access, connections=16)
            stack.push_async_callback(api.close)
            stack.push_async_callback(quiet.close)
            self._cache = Cache()
            self._recorder = KubeRecorder(
                quiet, instance=_pod_name(), now=clock.now, dropped=lambda: self._metrics.error("event dropped")
            )
            report = Reporter(self._metrics, self._recorder if settings.events else None)
            store = KubeStore(api, namespaces=settings.namespaces)
            http = HttpLauncher(
                read_key=KubeSecrets(quiet, boottime=clock.boottime).read,
                rules=AddressRules(allowed=settings.http_allow, denied=settings.http_deny),
                limits=HttpLimits(connections=settings.max_http_runs),
                trusted=lambda: self._scheduler.may_act(),
            )
            stack.push_async_callback(http.close)
            self._job_watch = JobWatch(quiet, boottime=clock.boottime, namespaces=settings.namespaces)
            self._elector = self._make_elector()
            jobs = JobLauncher(api, self._job_watch, trusted=lambda: self._scheduler.may_act())
            self._scheduler = Scheduler(
                cache=self._cache,
                store=store,
                launcher=Launchers({HttpAction: http, JobAction: jobs}),
                report=report,
                clock=clock,
                term=self._elector.term,
                fresh=self._fresh,
                on_stop=self._lost,
                stage=self._stage,
                pace=Pace(claim_ahead=settings.claim_ahead, record_ahead=settings.record_ahead),
            )
            self._keeper = Keeper(
                cache=self._cache,
                store=store,
                report=report,
                clock=clock,
                wake=self._scheduler.wake,
                every=settings.relist,
            )
            self._runs_watch = Watch(
                quiet,
                store.paths(RUNS),
                on_event=self._keeper.run_seen,
                relist=self._keeper.relist_runs,
                boottime=clock.boottime,
            )
            self._kopf = KopfWatch(
                self._access,
                on_event=self._keeper.job_seen,
                on_gap=self._keeper.gap,
                boottime=clock.boottime,
                namespaces=settings.namespaces,
            )
            await stack.enter_async_context(
                health_server(
                    address=settings.health_address,
                    port=settings.health_port,
                    alive={"elector": self._elector_lives, "kopf": self._kopf_lives},
                    ready={"cache": self._cache_is_filled, "fresh": self._is_fresh},
                    registry=self._metrics.registry,
                )
            )
            self._spawn(self._recorder.run())
            self._spawn(self._keeper.run())
            self._kopf.start()
            self._lease_watches.start()
            self._elector.start()
            await self._stopping.wait()
            return await self._go_away()

    def _make_elector(self) -> Elector:
        settings = self._settings
        me = Candidate(
            identity=identity_of(_pod_name(), os.environ.get("POD_UID", ""), self._nonce),
            nonce=self._nonce,
            namespace=settings.lease_namespace,
            name=settings.lease_name,
            timing=settings.timing,
        )
        self._lease_watches = LeaseWatches(
            self._access,
            namespace=settings.lease_namespace,
            name=settings.lease_name,
            lease_seen=lambda raw: self._elector.seen(raw),
            pod_seen=lambda: self._elector.poke(),
        )
        hooks = Hooks(
            renewed=self._renewed,
            elected=lambda term: self._in_loop(self._lead, term),
            lost=self._lost,
            released=self._released,
            noticed=lambda reason, message: self._in_loop(self._noticed, reason, message),
            follow=self._lease_watches.follow,
            needed_epochs=lambda: self._needed,
        )
        client = LeaseClient(BoundedClient(self._access), namespace=me.namespace, name=me.name)
        own = own_pod(os.environ, self._clock, first=int(os.environ.get(PARENT_VARIABLE, os.getpid())))
        return Elector(me, client, self._clock, hooks=hooks, stagger=random.random, own=own)

    # ---- called in the elector's thread ----

    def _renewed(self, term: Term) -> None:
        arm_dead_man(term.trusted_until - self._clock.boottime())
        self._beat.write(term, nonce=self._nonce, connection=self._access.facts())
        before = self._elector.term()
        if before is not None and before.fleet_paused != term.fleet_paused:
            self._in_loop(self._fleet_pause_changed)

    def _released(self) -> None:
        disarm_dead_man()
        self._beat.clear()

    def _lost(self, sentence: str) -> None:
        _log.error("term lost; this process ends", extra={"sentence": sentence})
        logging.shutdown()
        os._exit(ExitCode.TERM_LOST)

    def _in_loop(self, call: object, *args: object) -> None:
        self._loop.call_soon_threadsafe(call, *args)  # type: ignore[arg-type]

    # ---- called in the loop ----

    def _lead(self, term: Term) -> None:
        _log.info("leading", extra={"epoch": term.epoch, "lease": f"{term.lease_namespace}/{term.lease_name}"})
        self._metrics.leading(term.epoch)
        ends = [end for epoch, end in term.past_ends.items() if epoch < term.epoch]
        if ends:
            self._metrics.handover(max(0.0, (term.renew_time - max(ends)).total_seconds()))
        self._spawn(self._begin_term())

    async def _begin_term(self) -> None:
        """Consistent lists of both kinds, taken after the Lease was, before anything is decided."""
        wait = 0.1
        while True:
            try:
                # In this order: a run that is recorded in what was read first is then in what is read after.
                await self._keeper.relist_jobs()
                await self._keeper.relist_runs()
                break
            except SoloistError as error:
                _log.warning("the term cannot start yet", extra={"error": str(error)})
                await asyncio.sleep(wait)
                wait = min(2.0, wait * 2)
        self._scheduler.start()
        self._spawn(self._scheduler.run())
        self._spawn(self._runs_watch.run())
        self._spawn(self._job_watch.run())
        self._spawn(self._remember_epochs())
        self._spawn(self._tell_if_stale())

    async def _tell_if_stale(self) -> None:
        """Nothing is launched on a cache that is too old; that must not go unsaid."""
        told = False
        while True:
            fresh = self._fresh()
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
            term = self._elector.term()
            if term is not None:
                now = term.now(self._clock.boottime())
                recent = {epoch for epoch, end in term.past_ends.items() if now - end < REMEMBERED}
                self._needed = self._cache.epochs() | recent
            self._metrics.jobs(len(self._cache))
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

    def _fresh(self) -> bool:
        jobs = max(self._keeper.jobs_listed, self._kopf.heard)
        runs = max(self._keeper.runs_listed, self._runs_watch.heard)
        return self._clock.boottime() - min(jobs, runs) < self._settings.staleness_limit

    async def _go_away(self) -> int:
        _log.info("going away")
        drained = threading.Event()
        self._scheduler.close()
        self._elector.stop(drained)
        if self._elector.term() is not None:
            await self._scheduler.drain(self._settings.grace)
        drained.set()
        await asyncio.to_thread(self._elector.join, self._settings.lease_duration)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._kopf.stop()
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

    def _elector_lives(self) -> tuple[bool, str]:
        return not self._elector.join(0), "the elector takes part"

    def _kopf_lives(self) -> tuple[bool, str]:
        limit = 2 * self._settings.staleness_limit
        age = self._clock.boottime() - max(self._keeper.jobs_listed, self._kopf.heard, self._born)
        return age < limit, f"ScheduledJobs were last heard of {age:.0f} s ago (limit {limit:.0f} s)"

    def _is_fresh(self) -> tuple[bool, str]:
        leads = self._elector.term() is not None and self._keeper.runs_listed > float("-inf")
        return (
            not leads or self._fresh(),
            "what this leader knows is fresh" if self._fresh() else "a follower, or too old",
        )

    def _cache_is_filled(self) -> tuple[bool, str]:
        filled = self._keeper.jobs_listed > float("-inf")
        return filled, f"{len(self._cache)} ScheduledJobs are known" if filled else "the first list is not through"


def _pod_name() -> str:
    """The Pod's name; outside a cluster, the machine's and the parent's number, so that two here are two."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getppid()}"
