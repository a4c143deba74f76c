"""The controller: every replica watches and stands for election; the one that holds the Lease launches.

Wiring and nothing else. Two threads beside the loop: the elector's, which nothing here can hold up, and kopf's. Losing the
Lease ends this process at once; its parent starts another. SIGTERM starts nothing new, goes on renewing while actions end,
writes what came of them, and gives the Lease back.
"""

import asyncio
import logging
import os
import signal
from contextlib import AsyncExitStack

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
from soloist.loops.launchers import Launchers
from soloist.loops.scheduler import Pace, Scheduler
from soloist.shells.candidacy import Candidacy
from soloist.shells.child import PARENT_VARIABLE, ExitCode
from soloist.shells.garbage import collect_seldom
from soloist.shells.health import health_server
from soloist.shells.knowledge import Knowledge, unreadable
from soloist.shells.leadership import Leadership
from soloist.shells.own_pod import own_pod, pod_name
from soloist.shells.queue_care import queue_care
from soloist.shells.reporting import Reporter
from soloist.shells.settings import ControllerSettings
from soloist.shells.sql_actions import sql_launcher
from soloist.shells.stand import kube_ground
from soloist.shells.tasks import Tasks
from soloist.shells.telemetry import Metrics, start_logging
from soloist.shells.variables import warn

_log = logging.getLogger("soloist.controller")


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
        self._stopping = asyncio.Event()

    async def main(self) -> int:
        loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        async with AsyncExitStack() as stack:
            self._build(stack)
            ready = {
                **self._knowledge.age.ready(),
                "lease": self._leadership.candidacy.may_lead,
                "crds": self._report.crds_will_do,
                "queues": self._queues_followed,
            }
            if self._settings.external_metrics:
                from soloist.shells.external_metrics import ExternalMetrics

                external = ExternalMetrics(self._settings, self._clock, self._quiet, notice=self._notice)
                stack.push_async_callback(external.close)
                ready["external metrics"] = external.is_served
                self._tasks.spawn(external.run())
            await stack.enter_async_context(
                health_server(
                    address=self._settings.health_address,
                    port=self._settings.health_port,
                    alive={"elector": self._leadership.candidacy.lives, "kopf": self._knowledge.age.follows},
                    ready=ready,
                    registry=self._metrics.registry,
                )
            )
            self._tasks.spawn(self._recorder.run())
            self._tasks.spawn(self._knowledge.start())
            self._leadership.candidacy.start()
            await self._stopping.wait()
            return await self._go_away()

    def _build(self, stack: AsyncExitStack) -> None:
        settings, clock = self._settings, self._clock
        # The claims, records and launches of a burst share these; the rest of the writes are held back by lanes.
        api = KubeApi(self._access, connections=settings.max_api_writes)
        quiet = self._quiet = KubeApi(self._access, connections=16)
        stack.push_async_callback(api.close)
        stack.push_async_callback(quiet.close)
        self._recorder = KubeRecorder(
            quiet, instance=pod_name(), now=clock.now, dropped=lambda: self._metrics.error("event dropped")
        )
        recorder = self._recorder if settings.events else None
        report = self._report = Reporter(self._metrics, recorder, boottime=clock.boottime)
        store = KubeStore(api, namespaces=settings.namespaces)
        keys = KubeSecrets(quiet, boottime=clock.boottime)
        self._knowledge = Knowledge(
            settings,
            self._access,
            clock,
            quiet=quiet,
            store=store,
            report=report,
            wake=lambda key: scheduler.wake(key),
            notice=self._notice,
        )
        place = {"namespace": settings.lease_namespace, "name": settings.lease_name}
        ground = kube_ground(self._access, **place, timing=settings.timing)
        own = own_pod(os.environ, clock, first=int(os.environ.get(PARENT_VARIABLE, os.getpid())))
        self._leadership = Leadership(
            settings,
            lambda told: Candidacy(ground, clock, told, own=own),
            clock,
            self._metrics,
            self._tasks,
            self._knowledge,
            notice=self._notice,
            source="the API server, and at this controller's rights",
        )
        term = self._leadership.candidacy.term
        queues, self._queues_followed = queue_care(
            settings,
            clock,
            quiet,
            self._metrics,
            report=report,
            recorder=self._recorder,
            term=term,
            refused=lambda sentence: self._notice("QueuesUnreadable", unreadable(sentence)),
        )
        may_act, stage = self._leadership.may_act, self._leadership.stage
        http = HttpLauncher(
            read_key=keys.read,
            rules=AddressRules(allowed=settings.http_allow, denied=settings.http_deny),
            limits=HttpLimits(connections=settings.max_http_runs),
            trusted=may_act,
        )
        sql = sql_launcher(settings, clock, quiet, keys, trusted=may_act, stage=stage)
        stack.push_async_callback(http.close)
        stack.push_async_callback(sql.close)
        jobs = JobLauncher(api, self._knowledge.job_watch, trusted=may_act)
        scheduler = Scheduler(
            cache=self._knowledge.cache,
            store=store,
            launcher=Launchers({HttpAction: http, JobAction: jobs, SqlAction: sql, EnqueueAction: sql}),
            report=report,
            clock=clock,
            term=term,
            fresh=self._knowledge.age.fresh,
            on_stop=self._leadership.candidacy.end,
            stage=stage,
            pace=Pace(claim_ahead=settings.claim_ahead, record_ahead=settings.record_ahead),
        )
        self._leadership.launch_by(scheduler, queues.run)

    def _notice(self, reason: str, message: str) -> None:
        meta = {"namespace": self._settings.lease_namespace, "name": self._settings.lease_name}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
        if self._settings.events:
            self._recorder.event(lease, reason=reason, message=message, warning=True)

    async def _go_away(self) -> int:
        _log.info("going away")
        await self._leadership.end()
        await self._tasks.close()
        await self._knowledge.stop()
        return ExitCode.DONE
