"""What the leader's care for WorkQueues asks of the world."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from soloist.domain.depth import Depth
from soloist.domain.queue_name import FoundQueues, QueueName
from soloist.domain.queue_spec import DatabaseRef, QueueSpec
from soloist.domain.queue_status import Learned, WatchedQueue
from soloist.domain.queue_validity import Condition
from soloist.ports import Conflict, Gone, Raw, Written


class QueueObjects(Protocol):
    """WorkQueues, followed."""

    @property
    def objects(self) -> Collection[Raw]:
        """All of them as they were heard of last."""

    async def run(self, tell: Callable[[FoundQueues], None]) -> NoReturn:
        """For ever; ``tell`` is called when a spec changed, or a queue came or went."""


class QueueDatabase(Protocol):
    """One database, asked about the queues in it."""

    async def learn(self, queues: Mapping[QueueName, QueueSpec]) -> dict[QueueName, Learned]:
        """Of each queue. Whatever is wrong with the database is an answer, not an exception."""


class QueueDatabases(Protocol):
    """The databases that are spoken to."""

    async def find(self, name: QueueName, ref: DatabaseRef) -> QueueDatabase:
        """The same one for all queues with the same URL. Raises SoloistError with a sentence that shows no secret."""

    async def keep(self, used: Collection[QueueDatabase]) -> None:
        """Let the others go."""


class QueueKeys(Protocol):
    """What deliveries are made of, beside the rows."""

    async def missing(self, name: QueueName, spec: QueueSpec) -> str | None:
        """What is not there, in a sentence that shows no secret; empty: nothing; None: nobody can tell now."""


class QueueStatuses(Protocol):
    """Where a status is written."""

    async def write(self, queue: WatchedQueue, status: Mapping[str, Any]) -> Written | Conflict | Gone:
        """Merge ``status`` into that very object, if nothing was written to it since."""


class CareReport(Protocol):
    """Where the care says what it saw and did."""

    def wrote(self, kind: str) -> None: ...

    def stand(self, queues: Sequence[tuple[QueueName, Condition, Depth | None]]) -> None:
        """All queues there are, as far as they are known."""

    def turned_bad(self, queue: WatchedQueue, condition: Condition) -> None:
        """Written: the queue cannot be worked, or nobody knows whether it can, for a new reason."""

    def failed(self, where: str, error: BaseException) -> None: ...
