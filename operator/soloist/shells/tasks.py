"""What runs for ever in a process, started in one place and ended in one."""

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any

from soloist.shells.child import ExitCode

_log = logging.getLogger("soloist")


class Tasks:
    """To be made in the loop that they run in. None of them may end by itself: a loop that is gone is not survived in silence."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A fault of ours, not a term that passed on: the process ends as failed, so that whoever runs it sees that.
            _log.error("a loop ended; this process ends", exc_info=error)
            logging.shutdown()
            os._exit(ExitCode.FAILED)
