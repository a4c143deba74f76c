"""Makes a queue ready to be worked: its Secret, its database, its table, its way of delivery. The ``QueueOpener`` port.

Queues of one database share its connections, as its URL limits them; queues of two databases share nothing but the process.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from soloist.adapters.clock import SystemClock
from soloist.adapters.http.deliver import FindEndpoint, HttpDeliverer, World
from soloist.adapters.http.exchanges import Exchanges
from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.installation import installation
from soloist.adapters.postgres.listener import Listener
from soloist.adapters.postgres.lookup import EndpointLookup
from soloist.adapters.postgres.managed import ManagedRows
from soloist.adapters.postgres.mapped_opening import open_mapped
from soloist.adapters.postgres.url import database_url
from soloist.adapters.sealed import Sealed
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import DatabaseRef, HttpDelivery, Lookup, MappedTable, QueueSpec
from soloist.loops.queue_ports import QueueReport
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


class Place:
    """One database, with what its queues share."""

    def __init__(self, url: str) -> None:
        self.database = Database(database_url(url), program="soloist-worker")
        self.listener = Listener(self.database)
        self.users = 0


class Places:
    """One ``Place`` for each URL, for as long as somebody uses it."""

    def __init__(self) -> None:
        self._used: dict[str, Place] = {}

    def take(self, url: str, stack: AsyncExitStack) -> Place:
        place = self._used.get(url) or Place(url)
        self._used[url] = place
        place.users += 1
        stack.push_async_callback(self._give_back, url)
        return place

    async def _give_back(self, url: str) -> None:
        place = self._used[url]
        place.users -= 1
        if not place.users:
            del self._used[url]
            await place.database.close()


class Opener:
    """For all queues of a process. ``worker`` is how it calls itself in the tables, for people who look at them."""

    def __init__(
        self,
        *,
        read_url: ReadUrl,
        world: World,
        exchanges: Exchanges,
        clock: SystemClock,
        worker: str,
        report: QueueReport,
    ) -> None:
        self._read_url, self._world, self._exchanges = read_url, world, exchanges
        self._clock, self._worker, self._report = clock, worker, report
        self._places = Places()

    async def open(self, name: QueueName, spec: QueueSpec, wake: Callable[[], None]) -> Opened:
        url = (await self._read_url(name, spec.database)).reveal().strip()
        async with AsyncExitStack() as stack:
            place = self._places.take(url, stack)
            database = place.database
            home = await installation(database)
            rows = await self._rows(name, spec, database)
            deliverer = HttpDeliverer(
                spec,
                namespace=name.namespace,
                # The queue's name is no part of it, since the ids of a table are told apart by themselves.
                source=f"{home}/{spec.table.name}",
                exchange=self._exchanges.of(spec),
                world=self._world,
                find=_find(spec, database),
            )
            if spec.poll.listen:
                told = partial(self._report.failed, name, "listen")
                place.listener.hear(str(name), wake, told, stack)
            return Opened(rows=rows, deliverer=deliverer, stack=stack.pop_all())

    async def _rows(self, name: QueueName, spec: QueueSpec, database: Database) -> Rows:
        worker, boottime = self._worker, self._clock.boottime
        buried = partial(self._report.settled, name, unanswered=False)
        if isinstance(spec.table, MappedTable):
            return await open_mapped(database, str(name), spec, worker=worker, boottime=boottime, buried=buried)
        return ManagedRows(database, ClaimRules.of(str(name), spec, worker=worker), boottime=boottime, buried=buried)


def _find(spec: QueueSpec, database: Database) -> FindEndpoint | None:
    delivery = spec.deliver
    if not isinstance(delivery, HttpDelivery) or not isinstance(delivery.target, Lookup):
        return None
    return EndpointLookup(database, delivery.target, delivery.signature)
