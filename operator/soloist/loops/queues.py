"""The set of queues that this process works, as it changes.

A queue that is new starts, one that is gone, suspended or worked by others (``external``) is drained, and one whose spec
changed is drained and starts again with the new one, so that its limits hold at every moment. Each queue has a keeper of its
own, so one that takes long to drain holds up no other. At the end all are drained side by side.
"""

import asyncio
from collections.abc import Callable, Mapping

from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import External, QueueSpec
from soloist.loops.queue_ports import QueueOpener, QueueReport
from soloist.loops.queue_unit import QueueUnit
from soloist.ports import Clock

DRAIN_SECONDS = 30.0
"""How long what runs may take when a queue changes, is suspended or goes."""


class Queues:
    """``follow`` is told of all queues at each change. ``drawn`` gives a number in [0, 1)."""

    def __init__(self, opener: QueueOpener, *, clock: Clock, report: QueueReport, drawn: Callable[[], float]) -> None:
        self._opener, self._clock, self._report, self._drawn = opener, clock, report, drawn
        self._wanted: dict[QueueName, QueueSpec] = {}
        self._units: dict[QueueName, QueueUnit] = {}
        self._keepers: dict[QueueName, asyncio.Task[None]] = {}
        self._changed: dict[QueueName, asyncio.Event] = {}
        self._closing = False

    @property
    def units(self) -> Mapping[QueueName, QueueUnit]:
        """Those that are worked now."""
        return self._units

    def follow(self, found: Mapping[QueueName, QueueSpec]) -> None:
        """These are all queues there are."""
        if self._closing:
            return
        self._wanted = {name: spec for name, spec in found.items() if _is_ours(spec)}
        for name in self._wanted.keys() | self._keepers.keys():
            if name in self._keepers:
                self._changed[name].set()
            else:
                self._changed[name] = asyncio.Event()
                self._keepers[name] = asyncio.create_task(self._keep(name))

    async def close(self, grace: float) -> None:
        """Drain all within ``grace`` seconds; nothing starts any more."""
        self._closing = True
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        await asyncio.gather(*(unit.drain(grace) for unit in self._units.values()))
        self._units.clear()

    async def _keep(self, name: QueueName) -> None:
        while True:
            self._changed[name].clear()
            spec, unit = self._wanted.get(name), self._units.get(name)
            if unit is not None and unit.spec != spec:
                await unit.drain(DRAIN_SECONDS)
                del self._units[name]
                continue
            if spec is None:
                del self._keepers[name], self._changed[name]
                return
            if unit is None:
                self._units[name] = QueueUnit(
                    name, spec, self._opener, clock=self._clock, report=self._report, drawn=self._drawn
                )
            await self._changed[name].wait()


def _is_ours(spec: QueueSpec) -> bool:
    return not spec.suspend and not isinstance(spec.deliver, External)
