"""What is asked for at the same moment by many is asked of the database in one statement.

The first to ask goes at once, so one alone waits for nobody; whoever comes while a batch is under way is in the next. Two
batches at a time: while the server is at one, the answers to the other are thought about.

What would hold up its company (``APART``) is taken out of it, and asked for by itself.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from enum import Enum
from typing import Generic, TypeVar

MOST = 500
AT_ONCE = 2
T = TypeVar("T")
R = TypeVar("R")


class Apart(Enum):
    """One member; a type of its own."""

    APART = "to be asked for by itself"


APART = Apart.APART
Answers = Sequence[R | Exception | Apart]


class Gathering(Generic[T, R]):
    """``send`` gives an answer or an error for each, in the same order. Of those with one ``key`` one is under way at a time."""

    def __init__(
        self,
        send: Callable[[Sequence[T]], Awaitable[Answers[R]]],
        *,
        key: Callable[[T], Hashable],
        alone: Callable[[T], Awaitable[Answers[R]]] | None = None,
    ) -> None:
        self._send, self._key, self._alone = send, key, alone
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._busy: set[Hashable] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._apart: set[asyncio.Task[None]] = set()

    async def ask(self, item: T) -> R:
        """The answer to it. Whoever is cancelled before it was sent has asked for nothing."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if len(self._sending) < AT_ONCE:
            task = asyncio.create_task(self._send_all())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return await answer

    async def _send_all(self) -> None:
        await asyncio.sleep(0)  # whoever is about to ask comes along
        while batch := self._batch():
            await self._answer(batch, self._send([item for item, _ in batch]))

    async def _answer(self, batch: "list[tuple[T, asyncio.Future[R]]]", sent: Awaitable[Answers[R]]) -> None:
        apart = []
        try:
            for (item, answer), said in zip(batch, await sent, strict=True):
                if said is APART:
                    apart.append((item, answer))
                elif not answer.done():
                    answer.set_exception(said) if isinstance(said, Exception) else answer.set_result(said)
        finally:
            for item, answer in batch:
                if (item, answer) not in apart:
                    self._busy.discard(self._key(item))
                    answer.cancel()  # does nothing to one that is answered
        for item, answer in apart:
            assert self._alone is not None
            task = asyncio.create_task(self._answer([(item, answer)], self._alone(item)))
            self._apart.add(task)
            task.add_done_callback(self._apart.discard)

    def _batch(self) -> list[tuple[T, "asyncio.Future[R]"]]:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        later: list[tuple[T, asyncio.Future[R]]] = []
        while self._waiting and len(batch) < MOST:
            item, answer = self._waiting.popleft()
            if answer.done():
                continue  # nobody waits for it any more
            key = self._key(item)
            if key in self._busy:
                later.append((item, answer))
                continue
            self._busy.add(key)
            batch.append((item, answer))
        self._waiting.extendleft(reversed(later))
        return batch
