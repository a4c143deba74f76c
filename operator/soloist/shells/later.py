"""What speaks to a database is made, and its libraries are imported, when somebody first needs one.

Most controllers never do; those imports are a fifth of a start, and a start is what a hand-over waits for. They go on in a
thread, so that the loop launches meanwhile.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

from soloist.domain.actions import Order, Outcome
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import DatabaseRef
from soloist.loops.queue_care_ports import QueueDatabase, QueueDatabases
from soloist.ports import Launcher

T = TypeVar("T")


class Later(Generic[T]):
    """``make`` is called once, in a thread, by the first who needs it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._alone = make, asyncio.Lock()
        self.made: T | None = None

    async def needed(self) -> T:
        async with self._alone:
            if self.made is None:
                self.made = await asyncio.to_thread(self._make)
            return self.made


class ClosingLauncher(Launcher, Protocol):
    async def close(self) -> None: ...


class LaterLauncher:
    """The ``Launcher`` port."""

    def __init__(self, make: Callable[[], ClosingLauncher]) -> None:
        self._launcher = Later(make)

    async def prepare(self, order: Order) -> str:
        return await (await self._launcher.needed()).prepare(order)

    async def launch(self, order: Order) -> Outcome:
        return await (await self._launcher.needed()).launch(order)

    async def found(self, order: Order) -> Outcome | None:
        return await (await self._launcher.needed()).found(order)

    async def stop(self, order: Order) -> None:
        await (await self._launcher.needed()).stop(order)

    async def close(self) -> None:
        if self._launcher.made is not None:
            await self._launcher.made.close()


class LaterDatabases:
    """The ``QueueDatabases`` port."""

    def __init__(self, make: Callable[[], QueueDatabases]) -> None:
        self._databases = Later(make)

    async def find(self, name: QueueName, ref: DatabaseRef) -> QueueDatabase:
        return await (await self._databases.needed()).find(name, ref)

    async def keep(self, used: Collection[QueueDatabase]) -> None:
        if self._databases.made is not None:
            await self._databases.made.keep(used)
