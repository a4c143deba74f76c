"""Looking names up in threads, so that names for which nobody answers hold up no others.

The C library cannot be called off: a look-up goes on until its own time is over, some tens of seconds. So one that takes
longer than ``PATIENCE`` gives its place to the next, though its thread goes on; and its name is asked for in a lane of its own
from then on, until it is answered in time again. However many names are dead, those that are known to be well wait for none.

The threads belong to no executor: a process that goes away would wait for what they wait for.
"""

import asyncio
import contextlib
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

AddrInfo = tuple[Any, Any, int, str, tuple[Any, ...]]
Lookup = Callable[..., Sequence[AddrInfo]]

AT_ONCE = 16
"""Look-ups at one time, in each of the two lanes."""

PATIENCE = 1.0
"""Seconds after which a look-up holds nobody up any more."""

MOST_STUCK, MOST_SLOW = 256, 4096
"""Threads that may go on without a place, and names that are remembered for being slow."""


class Lookups:
    """``lookup`` has the signature of ``socket.getaddrinfo``. For one loop. ``slow``: names that were not answered in time."""

    def __init__(self, lookup: Lookup = socket.getaddrinfo) -> None:
        self._lookup = lookup
        self._lane, self._slow_lane = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(AT_ONCE)
        self.slow: OrderedDict[str, None] = OrderedDict()
        self._stuck = 0

    async def of(self, host: str, port: int, family: socket.AddressFamily) -> Sequence[AddrInfo]:
        """What the C library says, or its OSError. Whoever stops waiting leaves the look-up to end by itself."""
        loop = asyncio.get_running_loop()
        lane = self._slow_lane if host in self.slow else self._lane
        await lane.acquire()
        said: asyncio.Future[Sequence[AddrInfo]] = loop.create_future()
        said.add_done_callback(lambda done: done.exception())  # perhaps nobody waits for it any more
        late = has_place = False

        def too_long() -> None:
            nonlocal late, has_place
            late = True
            self._remember(host)
            if lane is self._lane and self._stuck < MOST_STUCK:
                has_place = False
                self._stuck += 1
                lane.release()

        def over(found: Sequence[AddrInfo], error: BaseException | None) -> None:
            patience.cancel()
            if has_place:
                lane.release()
            else:
                self._stuck -= 1
            if not late:
                self.slow.pop(host, None)
            if error is None:
                said.set_result(found)
            else:
                said.set_exception(error)

        has_place = True
        patience = loop.call_later(PATIENCE, too_long)

        def run() -> None:
            found: Sequence[AddrInfo] = ()
            error: BaseException | None = None
            try:
                found = self._look_up(host, port, family)
            except BaseException as problem:  # noqa: BLE001 - it is whoever waits that is to be told
                error = problem
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(over, found, error)

        try:
            threading.Thread(target=run, name="soloist-lookup", daemon=True).start()
        except RuntimeError as problem:
            over((), OSError(f"{host} cannot be looked up: {problem}"))
        return await asyncio.shield(said)

    def _remember(self, host: str) -> None:
        self.slow[host] = None
        self.slow.move_to_end(host)
        if len(self.slow) > MOST_SLOW:
            self.slow.popitem(last=False)

    def _look_up(self, host: str, port: int, family: socket.AddressFamily) -> Sequence[AddrInfo]:
        try:
            return self._lookup(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except UnicodeError as problem:
            raise OSError(f"{host} is no host name: {problem}") from problem
