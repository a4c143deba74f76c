"""Makes a queue ready to be worked: its Secret, its database, its table, its way of delivery. The ``QueueOpener`` port.

Queues of one database share its connections, as its URL limits them; queues of two databases share nothing but the process.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from soloist.adapters.clock import SystemClock
from soloist.adapters.http.deliver import FindEndpoint, HttpDeliverer, World
from soloist.adapters.http.exchanges import Exchanges
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.installation import installation
from soloist.adapters.postgres.lookup import EndpointLookup
from soloist.adapters.postgres.managed import ManagedQueue, ManagedRows
from soloist.adapters.postgres.mapped_opening import open_mapped
from soloist.adapters.postgres.url import database_url
from soloist.adapters.sealed import Sealed
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import AfterCrash, DatabaseRef, HttpDelivery, Lookup, MappedTable, QueueSpec
from soloist.loops.row_ports import Rows

ReadUrl = Callable[[QueueName, DatabaseRef], Awaitable[Sealed]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The ``OpenQueue`` port."""

    rows: Rows
    deliverer: HttpDeliverer
    stack: AsyncExitStack

    async def close(self) -> None:
        await self.stack.aclose()


class Databases:
    """One ``Database`` for each URL, for as long as somebody uses it."""

    def __init__(self) -> None:
        self._used: dict[str, tuple[Database, int]] = {}

    def take(self, url: str, stack: AsyncExitStack) -> Database:
        database, users = self._used.get(url) or (Database(database_url(url), program="soloist-worker"), 0)
        self._used[url] = (database, users + 1)
        stack.push_async_callback(self._give_back, url)
        return database

    async def _give_back(self, url: str) -> None:
        database, users = self._used[url]
        if users > 1:
            self._used[url] = (database, users - 1)
            return
        del self._used[url]
        await database.close()


class Opener:
    """For all queues of a process. ``worker`` is how it calls itself in the tables, for people who look at them."""

    def __init__(
        self, *, read_url: ReadUrl, world: World, exchanges: Exchanges, clock: SystemClock, worker: str
    ) -> None:
        self._read_url, self._world, self._exchanges = read_url, world, exchanges
        self._clock, self._worker = clock, worker
        self._databases = Databases()

    async def open(self, name: QueueName, spec: QueueSpec, wake: Callable[[], None]) -> Opened:
        url = (await self._read_url(name, spec.database)).reveal().strip()
        async with AsyncExitStack() as stack:
            database = self._databases.take(url, stack)
            home = await installation(database)
            rows = await self._rows(name, spec, database)
            deliverer = HttpDeliverer(
                spec,
                namespace=name.namespace,
                source=f"{home}/{_table(spec)}",
                exchange=self._exchanges.of(spec),
                world=self._world,
                find=_find(spec, database),
            )
            return Opened(rows=rows, deliverer=deliverer, stack=stack.pop_all())

    async def _rows(self, name: QueueName, spec: QueueSpec, database: Database) -> Rows:
        worker, boottime = self._worker, self._clock.boottime
        if isinstance(spec.table, MappedTable):
            return await open_mapped(database, str(name), spec, worker=worker, boottime=boottime)
        queue = ManagedQueue(
            name=str(name),
            worker=worker,
            lease=spec.lease,
            hold=spec.after_crash is AfterCrash.HOLD,
            max_reclaims=spec.max_reclaims,
            poll=spec.poll.most,
        )
        return ManagedRows(database, queue, boottime=boottime)


def _find(spec: QueueSpec, database: Database) -> FindEndpoint | None:
    delivery = spec.deliver
    if not isinstance(delivery, HttpDelivery) or not isinstance(delivery.target, Lookup):
        return None
    return EndpointLookup(database, delivery.target, delivery.signature)


def _table(spec: QueueSpec) -> str:
    """Whose ids a row's id is one of: the queue's name is no part of it, since a table's ids are told apart by themselves."""
    return str(spec.table.name) if isinstance(spec.table, MappedTable) else "soloist.work_items"
