"""Which ledger an action's run is in: the database behind a Secret, or behind the WorkQueue that a row is for.

One ``Ledger`` for each URL, so that jobs on one database share its connections and its epoch. The Secret is read for each
run: where it holds another URL by now, the database that nobody names any more is closed.
"""

import hashlib
from collections.abc import Awaitable, Callable

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.ledger import Ledger
from soloist.adapters.postgres.url import database_url
from soloist.adapters.sealed import ReadKey
from soloist.domain.actions import EnqueueAction, KeyRef, Order, SqlAction
from soloist.domain.errors import PermanentError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import ManagedTable, QueueSpec

FindQueue = Callable[[str, str], Awaitable[QueueSpec]]
"""Reads a WorkQueue by namespace and name; raises ``SoloistError`` with a sentence."""


class Ledgers:
    """``shard`` names this installation, the same for every process of it, and may ask for that; see ``Ledger``."""

    def __init__(
        self,
        *,
        read_key: ReadKey,
        find_queue: FindQueue,
        shard: Callable[[], Awaitable[str]],
        holder: str,
        boottime: Callable[[], float],
    ) -> None:
        self._read_key, self._find_queue, self._shard = read_key, find_queue, shard
        self._holder, self._boottime = holder, boottime
        self._known: dict[bytes, Ledger] = {}
        self._behind: dict[tuple[str, KeyRef], bytes] = {}

    async def of(self, order: Order) -> tuple[Ledger, str]:
        """The ledger, and the queue's name there (empty for a statement). Raises ``SoloistError`` with a sentence."""
        ref, queue = await self._place(order)
        sealed = await self._read_key(order.namespace, ref)
        text = sealed.reveal()
        which = hashlib.sha256(text.encode()).digest()
        ledger = self._known.get(which)
        if ledger is None:
            try:
                url = database_url(text)
            except PermanentError as error:
                raise PermanentError(f"{ref.kind} {order.namespace}/{ref.name}, key {ref.key}: {error}") from None
            shard = await self._shard()
            made = Ledger(Database(url), shard=shard, holder=self._holder, boottime=self._boottime)
            ledger = self._known.setdefault(which, made)
        await self._is_behind((order.namespace, ref), which)
        return ledger, queue

    async def close(self) -> None:
        while self._known:
            _, ledger = self._known.popitem()
            await ledger.database.close()

    async def _place(self, order: Order) -> tuple[KeyRef, str]:
        match order.action:
            case SqlAction(database=ref):
                return ref, ""
            case EnqueueAction(database=KeyRef() as ref, queue=queue):
                return ref, queue
            case EnqueueAction(work_queue=name):
                return await self._of_work_queue(QueueName(order.namespace, name))
        raise PermanentError(f"{order.run_name}: the sql launcher was given another kind of action.")

    async def _of_work_queue(self, name: QueueName) -> tuple[KeyRef, str]:
        """Of the user's own table nobody but the application knows what a row must hold."""
        spec = await self._find_queue(name.namespace, name.name)
        if not isinstance(spec.table, ManagedTable):
            raise PermanentError(
                f"WorkQueue {name} works the table {spec.table.name}, to which only the application adds rows: "
                "write a sql action with an INSERT instead, or name a WorkQueue without spec.table."
            )
        return spec.database.secret, str(name)

    async def _is_behind(self, place: tuple[str, KeyRef], which: bytes) -> None:
        before = self._behind.get(place)
        self._behind[place] = which
        if before is not None and before != which and before not in self._behind.values():
            former = self._known.pop(before, None)
            if former is not None:
                await former.database.close()
