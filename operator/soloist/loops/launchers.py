"""One launcher for each kind of action, behind the one port."""

from collections.abc import Mapping

from soloist.domain.actions import Action, Order, Outcome
from soloist.domain.errors import PermanentError
from soloist.ports import Launcher


class Launchers:
    """Picks by the kind of the order's action."""

    def __init__(self, by_kind: Mapping[type[Action], Launcher]) -> None:
        self._by_kind = dict(by_kind)

    def _of(self, order: Order) -> Launcher:
        launcher = self._by_kind.get(type(order.action))
        if launcher is None:
            raise PermanentError(f"{type(order.action).__name__} is an action that this process cannot launch.")
        return launcher

    async def prepare(self, order: Order) -> str:
        return await self._of(order).prepare(order)

    async def launch(self, order: Order) -> Outcome:
        return await self._of(order).launch(order)

    async def found(self, order: Order) -> Outcome | None:
        return await self._of(order).found(order)

    async def stop(self, order: Order) -> None:
        await self._of(order).stop(order)
