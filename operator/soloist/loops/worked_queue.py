"""An opened queue as the loops that work it share it: its rows, what is in hand of them, the clock, and whom to tell.

What is asked of its database has as long as a claim's lease allows for one call. Of what takes longer nobody knows what
became of it; whoever asked goes on to the next turn, so a database that hangs holds up no loop for longer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from soloist.domain.errors import TransientError
from soloist.domain.queue_name import QueueName
from soloist.loops.in_hand import InHand
from soloist.loops.queue_ports import QueueReport
from soloist.loops.row_ports import Rows
from soloist.ports import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedQueue:
    """``drawn`` gives a number in [0, 1)."""

    name: QueueName
    rows: Rows
    hand: InHand
    clock: Clock
    report: QueueReport
    drawn: Callable[[], float]

    async def in_time(self, call: Awaitable[T], late: str) -> T:
        """What the database answers; TransientError, which begins with ``late``, where it takes too long for that."""
        limit = self.hand.lease.call_limit
        try:
            async with asyncio.timeout(limit):
                return await call
        except TimeoutError as error:
            raise TransientError(f"{late} within {limit:g} s") from error
