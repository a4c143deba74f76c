"""Works one queue of ``soloist.work_items`` with a handler of the application's, in the application's own process.

The loops are those of ``soloist worker``: claims, renewals that prove the claim loop alive, deadlines counted from the send
of the last good one, outcomes in batches, and an end that leaves nothing behind. Only the delivery is another. Its words are
read by the same parser as a WorkQueue's, so the same limits hold.
"""

import asyncio
import os
import random
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.installation import installation
from soloist.adapters.postgres.listener import Listener
from soloist.adapters.postgres.managed import ManagedRows
from soloist.adapters.postgres.url import database_url
from soloist.domain.errors import ConfigError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_pace import WAITS
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import AfterCrash, External, QueueSpec
from soloist.domain.spec_fields import Invalid
from soloist.loops.queue_unit import QueueUnit
from soloist.loops.row_ports import Rows
from soloist.queue.handler import Handler, HandlerDeliverer
from soloist.queue.report import LogReport


def work(dsn: str, queue: str, handler: Handler, **how: Any) -> None:
    """Until SIGTERM or SIGINT: nothing more is claimed, handlers may end within ``grace_seconds``, the rest is put back.

    For a process that does nothing else, from its main thread. ``how`` is what ``work_async`` takes but ``stop``.
    """
    asyncio.run(_until_told(dsn, queue, handler, how))


async def work_async(
    dsn: str,
    queue: str,
    handler: Handler,
    *,
    stop: asyncio.Event,
    concurrency: int = 16,
    timeout_seconds: float = 300.0,
    lease_seconds: int = 60,
    retry_schedule: Sequence[str] = WAITS,
    max_attempts: int | None = None,
    hold: bool = False,
    listen: bool = False,
    grace_seconds: float = 25.0,
) -> None:
    """Beside whatever else the loop does, until ``stop`` is set. ``handler(ctx)`` is awaited, or runs in a thread.

    It returns: done. It raises: tried again by ``retry_schedule`` ("5s", "2h"), ``max_attempts`` times in all. ``hold``: a
    row whose attempt ended in a way that nobody knows is parked for a person, as with ``afterCrash: Hold``.
    """
    spec = _spec(concurrency, lease_seconds, retry_schedule, max_attempts, hold=hold, listen=listen)
    opener = _Opener(dsn, queue, handler, seconds=timeout_seconds)
    namespace, _, name = queue.rpartition("/")
    unit = QueueUnit(
        QueueName(namespace, name),
        spec,
        opener,
        clock=opener.clock,
        report=opener.report,
        drawn=random.random,
    )
    try:
        await stop.wait()
    finally:
        await unit.drain(grace_seconds)


async def _until_told(dsn: str, queue: str, handler: Handler, how: dict[str, Any]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await work_async(dsn, queue, handler, stop=stop, **how)


def _spec(
    concurrency: int, lease: int, schedule: Sequence[str], most: int | None, *, hold: bool, listen: bool
) -> QueueSpec:
    parsed = parse_queue(
        {
            "database": {"secretName": "none", "key": "none"},
            "deliver": {"http": {"url": "http://in.this.process/", "timeoutSeconds": 1}},
            "afterCrash": AfterCrash.HOLD if hold else AfterCrash.RETRY,
            "leaseSeconds": lease,
            "poll": {"listen": listen},
            "retry": {"schedule": list(schedule), **({} if most is None else {"maxAttempts": most})},
            "concurrency": {"perWorker": concurrency},
        }
    )
    if isinstance(parsed, Invalid):
        raise ConfigError(str(parsed.message))
    return replace(parsed, deliver=External())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """The ``OpenQueue`` port."""

    rows: Rows
    deliverer: HandlerDeliverer
    stack: AsyncExitStack

    async def close(self) -> None:
        await self.stack.aclose()


class _Opener:
    """The ``QueueOpener`` port, for the one queue."""

    def __init__(self, dsn: str, queue: str, handler: Handler, *, seconds: float) -> None:
        self._url, self._queue, self._handler, self._seconds = database_url(dsn), queue, handler, seconds
        self.clock, self.report = SystemClock(), LogReport(queue)

    async def open(self, name: QueueName, spec: QueueSpec, wake: Callable[[], None]) -> _Opened:
        boottime = self.clock.boottime
        async with AsyncExitStack() as stack:
            database = Database(self._url, program="soloist-queue")
            stack.push_async_callback(database.close)
            home = await installation(database)
            worker = os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"
            deliverer = HandlerDeliverer(
                spec,
                self._handler,
                queue=self._queue,
                source=f"{home}/{spec.table.name}",
                seconds=self._seconds,
                boottime=boottime,
                drawn=random.random,
            )
            if spec.poll.listen:
                Listener(database).hear(self._queue, wake, partial(self.report.failed, name, "listen"), stack)
            queue = ClaimRules.of(self._queue, spec, worker=worker)
            buried = partial(self.report.settled, name, unanswered=False)
            rows = ManagedRows(database, queue, boottime=boottime, buried=buried)
            return _Opened(rows=rows, deliverer=deliverer, stack=stack.pop_all())
