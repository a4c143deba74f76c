"""``soloist standalone``: scheduler and worker in one process, over PostgreSQL alone. Wiring and nothing else.

The loops are the controller's and the worker's; what an API server is to them is here rows of a database, and files. So any
number of processes are as safe as Pods: a lease in a row says who launches, the recorded run who may, and the rows
themselves who works them. Losing the lease ends this process at once, and its parent starts another.
"""

import asyncio
import logging
import os
import secrets
import signal
from contextlib import AsyncExitStack

from prometheus_client import CollectorRegistry

from soloist.adapters.clock import SystemClock
from soloist.adapters.host.commands import CommandLauncher
from soloist.adapters.http.client import HttpLauncher
from soloist.adapters.http.session import HttpLimits
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.failures import STANDALONE
from soloist.adapters.postgres.ledgers import Ledgers
from soloist.adapters.postgres.row_store import RowStore
from soloist.adapters.postgres.transactions import SqlLauncher
from soloist.adapters.postgres.url import database_url
from soloist.domain.actions import EnqueueAction, ExecAction, HttpAction, SqlAction
from soloist.domain.addresses import AddressRules
from soloist.domain.places import fits, without_a_cluster
from soloist.loops.launchers import Launchers
from soloist.loops.scheduler import Pace, Scheduler
from soloist.shells.candidacy import Candidacy
from soloist.shells.child import ExitCode
from soloist.shells.garbage import collect_seldom
from soloist.shells.health import Check, health_server
from soloist.shells.leadership import Leadership
from soloist.shells.local_files import LocalFiles, OwnDatabase
from soloist.shells.local_queue_care import local_queue_care
from soloist.shells.own_pod import pod_name
from soloist.shells.queue_work import QueueWork
from soloist.shells.reporting import Reporter
from soloist.shells.row_knowledge import RowKnowledge
from soloist.shells.stand import row_ground
from soloist.shells.standalone_place import StandalonePlace
from soloist.shells.standalone_settings import StandaloneSettings
from soloist.shells.tasks import Tasks
from soloist.shells.telemetry import Metrics, start_logging
from soloist.shells.variables import warn

_log = logging.getLogger("soloist.standalone")

TOGETHER = 200
"""Those that wait at the same moment are one statement; to an API server each would be a request."""

ALONE = "no election is held (--single-process): a second process would end this one"


def run(settings: StandaloneSettings) -> int:
    """Until SIGTERM; the exit code. A lost term ends the process from within."""
    start_logging(settings.log_level, settings.log_format, flags=settings.flags)
    warn(os.environ, _log)
    collect_seldom()
    return asyncio.run(Standalone(settings).main())


class Standalone:
    """All the parts of one process."""

    def __init__(self, settings: StandaloneSettings) -> None:
        self._settings, self._clock = settings, SystemClock()
        self._metrics = Metrics(CollectorRegistry())
        self._refuses = without_a_cluster(commands=settings.allow_exec)
        self._files = LocalFiles(settings, self._refuses)
        self._place = StandalonePlace(settings)
        self._stopping = asyncio.Event()

    async def main(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        if self._settings.single_process:
            _log.warning("single process", extra={"sentence": ALONE})
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._place.close)
            alive: dict[str, Check] = {}
            ready: dict[str, Check] = {"database": self._place.standing}
            port = await stack.enter_async_context(
                health_server(
                    address=self._settings.health_address,
                    port=self._settings.health_port,
                    alive=alive,
                    ready=ready,
                    registry=self._metrics.registry,
                )
            )
            _log.info("started", extra={"health_port": port, "replica": pod_name()})
            if not await self._place.open(self._stopping):
                return ExitCode.DONE
            self._tasks = Tasks()
            self._build(stack)
            knows, works = self._knowledge, self._work
            alive |= {"elector": self._leadership.candidacy.lives, "rows": knows.age.follows, "loops": works.loops_turn}
            ready |= {**knows.age.ready(), "queues": works.are_known, "files": self._files_are_taken}
            followed = self._files.run(self._knowledge.files_changed, self._work.follow)
            for each in (*self._knowledge.start(), followed, self._place.keep()):
                self._tasks.spawn(each)
            self._leadership.candidacy.start()
            await self._stopping.wait()
            _log.info("going away")
            await asyncio.gather(self._leadership.end(), self._work.close(self._settings.grace))
            await self._tasks.close()
        return ExitCode.DONE

    def _build(self, stack: AsyncExitStack) -> None:
        settings, clock, url = self._settings, self._clock, self._place.url
        shard = f"{settings.lease_namespace}/{settings.lease_name}"
        database = Database(database_url(url), program="soloist-standalone", grant=STANDALONE)
        stack.push_async_callback(database.close)
        store = RowStore(database, shard=shard, writer=f"{pod_name()}-{secrets.token_hex(4)}")
        report = Reporter(self._metrics, None, boottime=clock.boottime)
        ground = row_ground(url, namespace=settings.lease_namespace, name=settings.lease_name, timing=settings.timing)
        self._knowledge = RowKnowledge(
            settings,
            clock,
            database,
            store,
            report=report,
            planned=self._files.planned,
            wake=lambda key: scheduler.wake(key),
        )
        self._leadership = leadership = Leadership(
            settings,
            lambda told: Candidacy(ground, clock, told, alone=settings.single_process),
            clock,
            self._metrics,
            self._tasks,
            self._knowledge,
            notice=lambda _reason, _message: None,
            source="the database",
        )
        own = OwnDatabase(self._files.read_key, url)
        scheduler = Scheduler(
            cache=self._knowledge.cache,
            store=store,
            launcher=self._launchers(stack, own, shard),
            report=report,
            clock=clock,
            term=leadership.candidacy.term,
            fresh=self._knowledge.age.fresh,
            on_stop=leadership.candidacy.end,
            stage=leadership.stage,
            pace=Pace(claim_ahead=settings.claim_ahead, record_ahead=settings.record_ahead, bookkeeping=TOGETHER),
            spec_of=lambda job: fits(job.spec, self._refuses),
        )
        term, queues = leadership.candidacy.term, self._files.queues
        care = local_queue_care(clock, self._metrics, database, store, raws=queues, own=own, report=report, term=term)
        leadership.launch_by(scheduler, care.run)
        self._work = QueueWork(
            settings,
            clock,
            stack,
            self._metrics.registry,
            read_key=self._files.read_key,
            read_url=own.of_queue,
        )

    def _launchers(self, stack: AsyncExitStack, own: OwnDatabase, shard: str) -> Launchers:
        settings, leadership = self._settings, self._leadership
        http = HttpLauncher(
            read_key=self._files.read_key,
            rules=AddressRules(allowed=settings.http_allow, denied=settings.http_deny),
            limits=HttpLimits(connections=settings.max_http_runs),
            trusted=leadership.may_act,
        )

        async def installation() -> str:
            return shard

        ledgers = Ledgers(
            read_key=own.read,
            find_queue=self._files.find_queue,
            shard=installation,
            holder=pod_name(),
            boottime=self._clock.boottime,
        )
        sql = SqlLauncher(ledgers, trusted=leadership.may_act, stage=leadership.stage)
        stack.push_async_callback(http.close)
        stack.push_async_callback(sql.close)
        commands = CommandLauncher(os.environ, trusted=leadership.may_act)
        return Launchers({HttpAction: http, SqlAction: sql, EnqueueAction: sql, ExecAction: commands})

    def _files_are_taken(self) -> tuple[bool, str]:
        """Files that are refused, or are others than the leader's, are said there, and stop nothing."""
        said = [*self._files.refused, *filter(None, [self._knowledge.differs])]
        return True, "; ".join(said) or "all files are taken"
