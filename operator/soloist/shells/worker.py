"""The worker: claims the due rows of every WorkQueue that it may see, and delivers them. Wiring and nothing else.

No replica is more than another: who works a row is decided in its table. SIGTERM claims nothing new, lets deliveries end
within the grace, writes what came of them, and puts the rest back for the others to take at once. What speaks to an API
server is imported only where WorkQueues come from one, and kopf never is: a worker is to be small.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from prometheus_client import CollectorRegistry, ProcessCollector

from soloist.adapters.clock import SystemClock
from soloist.adapters.files.queue_files import QueueFiles
from soloist.adapters.sealed import ReadKey, Sealed
from soloist.domain.errors import PermanentError, SoloistError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import DatabaseRef
from soloist.loops.deletion_costs import DeletionCosts
from soloist.loops.queue_ports import QueueSource
from soloist.shells.child import ExitCode
from soloist.shells.garbage import collect_seldom
from soloist.shells.health import Check, health_server
from soloist.shells.own_pod import own_place, pod_name
from soloist.shells.queue_work import QueueWork
from soloist.shells.tasks import Tasks
from soloist.shells.telemetry import start_logging
from soloist.shells.variables import warn
from soloist.shells.worker_settings import WorkerSettings

_log = logging.getLogger("soloist.worker")


def run(settings: WorkerSettings) -> int:
    """Until SIGTERM; the exit code."""
    start_logging(settings.log_level, settings.log_format)
    warn(os.environ, _log)
    collect_seldom()
    return asyncio.run(Worker(settings).main())


class Worker:
    """All the parts of one process."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._born = self._clock.boottime()
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._heard: Callable[[], float] = self._clock.boottime
        self._more: dict[str, Check] = {}
        self._untold: Callable[[], SoloistError | None] = lambda: None
        self._stopping = asyncio.Event()
        self._costs: DeletionCosts | None = None

    async def main(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        async with AsyncExitStack() as stack:
            source = self._build(stack)
            port = await stack.enter_async_context(
                health_server(
                    address=self._settings.health_address,
                    port=self._settings.health_port,
                    alive={"loops": self._work.loops_turn, "queues": self._queues_are_followed},
                    ready={"queues": self._works, **self._more},
                    registry=self._registry,
                )
            )
            _log.info("started", extra={"health_port": port, "worker": pod_name()})
            following = loop.create_task(source.run(self._work.follow))
            following.add_done_callback(self._ended)
            aside = Tasks()
            if self._costs is not None:
                aside.spawn(self._costs.run())
            await self._stopping.wait()
            _log.info("going away")
            following.remove_done_callback(self._ended)
            following.cancel()
            await self._work.close(self._settings.grace)
            await aside.close()
        return ExitCode.DONE

    def _build(self, stack: AsyncExitStack) -> QueueSource:
        settings, clock = self._settings, self._clock
        source, read_key = self._from_files() if settings.files else self._from_cluster(stack)
        read_url = self._url_reader(read_key)
        self._work = QueueWork(settings, clock, stack, self._registry, read_key=read_key, read_url=read_url)
        return source

    def _from_files(self) -> tuple[QueueSource, ReadKey]:
        files = QueueFiles(
            self._settings.files, told=lambda sentence: _log.warning("files not taken", extra={"sentence": sentence})
        )
        self._more["files"] = files.are_taken
        return files, files.read_key

    def _from_cluster(self, stack: AsyncExitStack) -> tuple[QueueSource, ReadKey]:
        from soloist.adapters.kube.api import KubeApi
        from soloist.adapters.kube.config import Access
        from soloist.adapters.kube.pod_costs import cost_writer
        from soloist.adapters.kube.queue_watch import QueueWatch
        from soloist.adapters.kube.secrets import KubeSecrets

        settings, boottime = self._settings, self._clock.boottime
        api = KubeApi(Access.found(settings.kubeconfig or None, settings.context or None), connections=16)
        stack.push_async_callback(api.close)
        watch = QueueWatch(api, boottime=boottime, namespaces=settings.namespaces)
        self._heard, self._untold = lambda: watch.heard, lambda: watch.trouble
        if settings.pod_deletion_cost:
            namespace, pod = own_place(os.environ)
            write = cost_writer(api, namespace=namespace, pod=pod)
            self._costs = DeletionCosts(lambda: self._work.in_hand(), write, clock=self._clock)
        return watch, KubeSecrets(api, boottime=boottime).read

    def _url_reader(self, read_key: ReadKey) -> Callable[[QueueName, DatabaseRef], Awaitable[Sealed]]:
        async def read(name: QueueName, database: DatabaseRef) -> Sealed:
            try:
                return await read_key(name.namespace, database.secret)
            except PermanentError:
                if self._settings.database:
                    return Sealed(self._settings.database)
                raise

        return read

    def worked(self) -> int:
        """How many queues are worked now, or are being opened."""
        return self._work.worked()

    def _ended(self, task: "asyncio.Task[object]") -> None:
        """A worker that hears no more of its queues is of no use: the process ends as failed, so that somebody sees it."""
        _log.error("WorkQueues are followed no more; this process ends", exc_info=task.exception())
        logging.shutdown()
        os._exit(ExitCode.FAILED)

    def _works(self) -> tuple[bool, str]:
        """For /readyz: not ready where it can work none of the queues that it sees, or can see none."""
        well, sentence = self._work.can_work()
        untold = self._untold()
        if untold is None:
            return well, sentence
        return well and self.worked() > 0, f"{sentence}; WorkQueues are not followed: {untold}"

    def _queues_are_followed(self) -> tuple[bool, str]:
        untold = self._untold()
        if isinstance(untold, PermanentError):
            return True, f"a restart would not mend this, and what is known is worked: {untold}"
        age = self._clock.boottime() - max(self._heard(), self._born)
        limit = self._settings.staleness_limit
        return age < limit, f"WorkQueues were last heard of {age:.0f} s ago (limit {limit:.0f} s)"
