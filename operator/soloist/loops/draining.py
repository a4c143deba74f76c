"""Going away in order: actions end, and what came of each stands on its run before the lease is given back."""

import asyncio

from soloist.loops.acting import Acting
from soloist.loops.cache import Cache
from soloist.loops.turns import Turns
from soloist.ports import Clock


async def drained(acting: Acting, turns: Turns, cache: Cache, clock: Clock, grace: float) -> None:
    """Returns when nothing is going on, nobody is at a job, and all outcomes are written; after ``grace`` seconds at the latest."""
    deadline = clock.boottime() + grace
    while acting.going or turns.working or _unwritten(acting, cache):
        left = deadline - clock.boottime()
        if left <= 0:
            return
        tasks = [*acting.going.values(), *turns.working.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(min(left, 0.05))


def _unwritten(acting: Acting, cache: Cache) -> bool:
    memory = acting.memory
    ended = {uid for uid, known in memory.items() if known.outcome is not None or known.cancelled is not None}
    return not ended.isdisjoint(cache.unfinished())
