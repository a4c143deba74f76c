"""The ``sql`` and ``enqueue`` actions: a ``Launcher`` whose effect is one transaction, together with the record of the run.

A statement takes three messages: begin, bound everything, record the run; the statement; check the epoch and commit. (Rows
of a queue take one, which many runs share: see ``enqueueing``.) Nothing was done until
the last has been carried out, so every failure before it is a known one. The last is one message: whoever freezes cannot
do so between the check and the commit, where a new leader would have to wait for it. A commit whose reply is lost is
looked up: the same record is tried again, which waits for whoever is at it and then tells whether it was there before.

An earlier term's transaction cannot commit (``Ledger.shut_out``), so a later leader is told for sure what became of a run.
"""

import asyncio
import logging
from collections.abc import Callable
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus

from soloist.adapters.postgres.connections import Connection
from soloist.adapters.postgres.database import GRACE
from soloist.adapters.postgres.enqueueing import Enqueueing, Row
from soloist.adapters.postgres.ledger import STALE_EPOCH, Ledger, Pending, Recorded, TermIsOver
from soloist.adapters.postgres.ledgers import Ledgers
from soloist.adapters.postgres.run_failures import failed, not_begun, not_committed, not_found, refused
from soloist.adapters.postgres.run_messages import begin, effect, end, roll_back
from soloist.domain.actions import EnqueueAction, Order, Outcome, Response, Succeeded
from soloist.domain.errors import SoloistError, TransientError

LOOKS_FOR = 10.0
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0
_log = logging.getLogger(__name__)


class SqlLauncher:
    """The ``Launcher`` port for ``SqlAction`` and ``EnqueueAction``. ``stage`` is told where a transaction is."""

    def __init__(
        self, ledgers: Ledgers, *, trusted: Callable[[], bool], stage: Callable[[str], None] = lambda _: None
    ) -> None:
        self._ledgers, self._trusted, self._stage = ledgers, trusted, stage
        self._pruning: set[asyncio.Task[None]] = set()
        self._adding: WeakKeyDictionary[Ledger, Enqueueing] = WeakKeyDictionary()

    async def prepare(self, order: Order) -> str:
        """Nothing can be made ready that does nothing by itself."""
        return ""

    async def launch(self, order: Order) -> Outcome:
        if not self._trusted():
            raise TransientError("The term was over before the transaction could begin.", sent=False)
        try:
            ledger, queue = await self._ledgers.of(order)
        except SoloistError as problem:
            return not_found(problem)
        outcome = await self._transacted(order, ledger, queue)
        if isinstance(outcome, Succeeded) and ledger.wants_pruning():
            self._prune(ledger)
        return outcome

    async def found(self, order: Order) -> Outcome | None:
        ledger, _ = await self._ledgers.of(order)
        await ledger.shut_out(order.fence)
        recorded = await ledger.recorded(order)
        return None if recorded is None else _done_before(recorded)

    async def stop(self, order: Order) -> None:
        """Whoever waits for the transaction is cancelled, which ends it; one of an earlier term cannot commit."""

    async def close(self) -> None:
        for task in self._pruning:
            task.cancel()
        await asyncio.gather(*self._pruning, return_exceptions=True)
        await self._ledgers.close()

    async def _transacted(self, order: Order, ledger: Ledger, queue: str) -> Outcome:
        """Twice, should the database have lost our epoch: it was restored to an earlier state."""
        for _ in range(2):
            try:
                await ledger.shut_out(order.fence)
                if isinstance(order.action, EnqueueAction):
                    came = await self._enqueueing(ledger).add(Row(order, order.action, queue))
                else:
                    async with ledger.database.lent(seconds=order.timeout.total_seconds() + GRACE) as connection:
                        came = await self._one(connection, order, ledger)
            except TermIsOver:
                raise
            except SoloistError as problem:
                return not_begun(problem)
            if came is Pending.LOST or came is Pending.BEFORE:
                return await self._looked_up(order, ledger)
            if not isinstance(came, Pending):
                return came
            ledger.forget()
        raise TermIsOver(ledger.database.name)

    async def _one(self, connection: Connection, order: Order, ledger: Ledger) -> Outcome | Pending:
        where, seconds = ledger.database.name, order.timeout.total_seconds()
        try:
            fresh = await begin(connection, order, ledger, seconds)
        except psycopg.Error as error:
            await roll_back(connection)
            return refused(error, where)
        if not fresh:
            await roll_back(connection)
            return Pending.BEFORE
        self._stage("ledger")
        try:
            said = await effect(connection, order)
        except psycopg.Error as error:
            await roll_back(connection)
            return failed(error, where, seconds)
        self._stage("effect")
        try:
            done = await end(connection, order, ledger, said)
        except psycopg.Error as error:
            return await _not_ended(connection, error, where, seconds)
        self._stage("committed")
        return Succeeded(response=Response(excerpt=said)) if done else Pending.LOST

    def _enqueueing(self, ledger: Ledger) -> Enqueueing:
        if (found := self._adding.get(ledger)) is None:
            found = self._adding[ledger] = Enqueueing(ledger)
        return found

    async def _looked_up(self, order: Order, ledger: Ledger) -> Outcome:
        """For as long as it takes: until the database answers, nobody knows."""
        wait = FIRST_WAIT
        while True:
            try:
                async with ledger.database.lent(seconds=LOOKS_FOR + GRACE) as connection:
                    fresh = await begin(connection, order, ledger, LOOKS_FOR)
                    await roll_back(connection)
                recorded = None if fresh else await ledger.recorded(order)
                return not_committed(ledger.database.name) if recorded is None else _done_before(recorded)
            except SoloistError as error:
                _log.warning("a commit is still to be looked up", extra={"run": order.run_name, "error": str(error)})
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT, wait * 2)

    def _prune(self, ledger: Ledger) -> None:
        task = asyncio.get_running_loop().create_task(ledger.prune())
        self._pruning.add(task)
        task.add_done_callback(self._pruning.discard)


async def _not_ended(connection: Connection, error: psycopg.Error, where: str, seconds: float) -> Outcome | Pending:
    """Known where the server has said that the transaction is over; where the connection broke, it has said nothing."""
    if connection.pgconn.transaction_status not in (TransactionStatus.INERROR, TransactionStatus.IDLE):
        return Pending.LOST
    await roll_back(connection)
    return Pending.STALE if error.sqlstate == STALE_EPOCH else failed(error, where, seconds)


def _done_before(recorded: Recorded) -> Succeeded:
    if recorded.epoch is None:
        return Succeeded(message="The ledger has rows of later times only: a time so old counts as done.")
    said = str((recorded.outcome or {}).get("said", ""))
    return Succeeded(message=f"It was committed under fence {recorded.epoch}.", response=Response(excerpt=said))
