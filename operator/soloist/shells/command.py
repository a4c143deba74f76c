"""The command that a sidecar runs while it holds its Lease, through a guard that ends it when the term's trust does.

What is said to the guard goes through a pipe, one short write each, from whichever thread: the elector's at each renewal
and at a loss, the loop's at an end in good time. A pipe that is full or closed means a guard that does not read: it is
about to end the command by the last that it heard.
"""

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Sequence

from soloist.domain.term import Term
from soloist.loops.election_ports import Clocks
from soloist.shells import guard
from soloist.shells.child import PARENT_VARIABLE

_log = logging.getLogger("soloist.elect")

KEPT_BACK = frozenset({"SOLOIST_DATABASE"})
"""What a command does not inherit: the sidecar's own database has its password in it."""


class Command:
    """One run of it, under one term."""

    def __init__(self, words: Sequence[str], *, grace: float, clock: Clocks) -> None:
        self._words, self._grace, self._clock = words, grace, clock
        self._reads, self._writes = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._writes, False)
        self._alone = threading.Lock()
        self._over = asyncio.Event()

    async def run(self, term: Term) -> int:
        """Start it and wait for its end; its exit code, 128 + n where signal n ended it."""
        self.trusted(term.trusted_until)
        mine = {"SOLOIST_LEASE": term.lease_name, "SOLOIST_FENCE": str(term.epoch), PARENT_VARIABLE: str(os.getpid())}
        program = [sys.executable, "-P", "-m", "soloist.shells.guard", *self._words]
        env = {name: value for name, value in os.environ.items() if name not in KEPT_BACK} | mine
        try:
            process = await asyncio.create_subprocess_exec(*program, stdin=self._reads, env=env)
            os.close(self._reads)
            _log.info("command started", extra={"lease": term.lease_name, "epoch": term.epoch, "guard": process.pid})
            code = await process.wait()
            _log.info("command ended", extra={"lease": term.lease_name, "epoch": term.epoch, "code": code})
            return code
        finally:
            self.kill()
            self._over.set()

    def trusted(self, until: float) -> None:
        """The term is trusted so long (CLOCK_BOOTTIME)."""
        self._say(guard.TRUSTED, until)

    async def end(self) -> None:
        """SIGTERM, and SIGKILL after the grace; returns when it has ended."""
        self._say(guard.END, self._clock.boottime() + self._grace)
        await self._over.wait()

    def kill(self) -> None:
        """Now."""
        with self._alone:
            if self._writes >= 0:
                os.close(self._writes)
                self._writes = -1

    def _say(self, kind: bytes, moment: float) -> None:
        with self._alone, contextlib.suppress(BlockingIOError, BrokenPipeError):
            if self._writes >= 0:
                os.write(self._writes, guard.MESSAGE.pack(kind, moment))
