"""What the worker's loops need beside the rows and their delivery: which queues there are, and whom to tell.

A queue is its namespace and name; what it is to do is a ``QueueSpec``. A source gives all queues at each change, so that
whoever follows it needs no memory of what was said before.
"""

from collections.abc import Callable
from typing import NoReturn, Protocol

from soloist.domain.claims import Claim, Settled, Verdict
from soloist.domain.queue_name import FoundQueues, QueueName
from soloist.domain.queue_spec import QueueSpec
from soloist.loops.row_ports import Deliverer, Rows


class QueueSource(Protocol):
    """Where WorkQueues come from."""

    async def run(self, tell: Callable[[FoundQueues], None]) -> NoReturn:
        """Call ``tell`` with all queues there are, at the start and at every change, until cancelled."""


class OpenQueue(Protocol):
    """Rows and delivery of one queue, ready for use."""

    @property
    def rows(self) -> Rows: ...

    @property
    def deliverer(self) -> Deliverer: ...

    async def close(self) -> None: ...


class QueueOpener(Protocol):
    """Makes a queue ready: reads its Secret, checks the database, compiles its statements."""

    async def open(self, name: QueueName, spec: QueueSpec, wake: Callable[[], None]) -> OpenQueue:
        """``wake`` is called when something was enqueued, where that can be known.

        ``TransientError`` and ``PermanentError`` carry a sentence; the queue is tried again later, either way.
        """


class QueueReport(Protocol):
    """Where the loops say what happened; logs and metrics are made of it elsewhere."""

    def claimed(self, queue: QueueName, claims: int, reclaimed: int) -> None:
        """So many rows were claimed, so many of them after a claim that ended without an outcome."""

    def delivered(self, queue: QueueName, outcome: Settled, seconds: float) -> None:
        """An attempt ended by itself; its outcome is not written yet."""

    def settled(self, queue: QueueName, outcome: Settled, verdict: Verdict, *, unanswered: bool) -> None:
        """An outcome was written. ``unanswered``: an earlier try may have written it, so Lost may mean Accepted."""

    def lost(self, queue: QueueName, claim: Claim, sentence: str) -> None:
        """A claim was given up, and its handler stopped; nothing is written for it."""

    def failed(self, queue: QueueName, where: str, error: BaseException) -> None:
        """An error that was survived."""

    def started(self, queue: QueueName) -> None: ...

    def stopped(self, queue: QueueName) -> None: ...
