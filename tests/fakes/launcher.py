"""The ``Launcher`` port in memory, held to the contract of the real ones by ``tests/contracts/test_launcher.py``."""

import asyncio
from dataclasses import dataclass, field

from soloist.domain.actions import Order, Outcome, Succeeded


@dataclass
class FakeLauncher:
    """Notes what is launched; ``until`` holds each launch until it is set. Its list is the world: it tells of all in it."""

    outcome: Outcome = field(default_factory=Succeeded)
    launched: list[Order] = field(default_factory=list)
    until: asyncio.Event | None = None
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def prepare(self, order: Order) -> str:
        return ""

    async def stop(self, order: Order) -> None: ...

    async def found(self, order: Order) -> Outcome | None:
        return await self._ended() if order.key in {each.key for each in self.launched} else None

    async def launch(self, order: Order) -> Outcome:
        self.launched.append(order)
        self.arrived.set()
        return await self._ended()

    async def _ended(self) -> Outcome:
        if self.until is not None:
            await self.until.wait()
        return self.outcome
