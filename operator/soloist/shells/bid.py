"""One bid of a sidecar for one Lease: from standing for it to the end of the term that may come of it.

Losing the Lease does not end the process, as it does a controller: others may be held, and nothing goes on here that
outlives a term. A term is asked at each use, a slot is on record before it is handed out, and the command has a guard of
its own. In the elector's thread happens what must be in order with it: a renewal is said to the parent and to the guard
before its term is used, and a loss ends the command before anything else.
"""

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Sequence

from soloist.adapters.clock import SystemClock
from soloist.domain.slots import Refused, SlotReason, Timer, refused
from soloist.domain.term import Term
from soloist.loops.election_ports import Hooks
from soloist.loops.granting import Granted, Granter
from soloist.shells.child import Beat
from soloist.shells.command import Command
from soloist.shells.stand import Ground, Stand, new_nonce

_log = logging.getLogger("soloist.elect")


class Bid:
    """To be made and run in the process's loop.

    ``notice`` is what stood in the way last, a reason and a sentence; ``command_code`` is how the command ended by itself.
    """

    def __init__(self, ground: Ground, clock: SystemClock, *, beat: Beat, command: Sequence[str], grace: float) -> None:
        self._ground, self._clock, self._beat, self._grace = ground, clock, beat, grace
        self._loop = asyncio.get_running_loop()
        self._nonce = new_nonce()
        self._words = command
        self._command: Command | None = None
        self._granter: Granter | None = None
        self._records = ground.client()
        self._tasks: list[asyncio.Task[None]] = []
        self._drained, self._over, self._one_by_one = threading.Event(), asyncio.Event(), asyncio.Lock()
        self.going = self.lost = self.notice = ""
        self.command_code: int | None = None
        hooks = Hooks(
            renewed=self._renewed,
            elected=self._elected,
            lost=self._ended,
            released=lambda: self._ended(""),
            noticed=self._noticed,
            needed_epochs=frozenset,
        )
        self._stand = Stand(ground, clock, hooks, nonce=self._nonce)
        self.reading, self.refused = self._stand.elector.reading, self._stand.elector.refused

    async def run(self) -> None:
        """Until the term is lost (``lost`` says why) or given back, and the command has ended."""
        self._stand.start()
        await self._over.wait()
        for task in self._tasks:
            await task
        self._stand.close()
        self._records.close()

    def term(self) -> Term | None:
        """The term, while it may be used."""
        term = self._stand.term() if not self.going else None
        return term if term is not None and term.trusted(self._clock.boottime()) else None

    def lives(self) -> bool:
        """Whether its elector takes part."""
        return not self._stand.elector.join(0)

    async def grant(self, timer: Timer) -> Granted | Refused:
        """The slot that lasts now, or why not."""
        granter, (record, _) = self._granter, self.reading()
        if granter is None:
            who = f": {record.holder} does" if record is not None and record.holder else ""
            return refused(timer.slot(self._clock.now()), SlotReason.NOT_HOLDER, who)
        async with self._one_by_one:  # so that those who wait take no threads
            found = await asyncio.to_thread(granter.grant, timer)
        if isinstance(found, Granted):
            self._stand.elector.poke()  # the next renewal is to know of that write
        return found

    def give_up(self, why: str) -> None:
        """Use the term no more, end the command in good time, and give the Lease back."""
        if self.going or self._over.is_set():
            return
        _log.info("giving up", extra={"lease": self._ground.name, "sentence": why})
        self.going = why
        self._stand.give_up(self._drained)
        self._tasks.append(self._loop.create_task(self._drain()))

    async def _drain(self) -> None:
        if self._command is not None:
            await self._command.end()
        self._drained.set()

    def _renewed(self, term: Term) -> None:
        if self._command is not None:
            self._command.trusted(term.trusted_until)
        self._beat.write(term, nonce=self._nonce, connection=self._ground.connection())

    def _elected(self, term: Term) -> None:
        self._granter = Granter(
            self._records,
            self._clock,
            first=term,
            term=self.term,
            timeout=self._ground.timing.try_timeout,
            drawn=lambda: secrets.token_hex(8),
        )
        if self._words and not self.going:
            self._command = Command(self._words, grace=self._grace, clock=self._clock)
            self._in_loop(self._start_command, term, self._command)

    def _start_command(self, term: Term, command: Command) -> None:
        self._tasks.append(self._loop.create_task(self._command_runs(term, command)))

    async def _command_runs(self, term: Term, command: Command) -> None:
        code = await command.run(term)
        self._command = None
        if not self.going:
            self.command_code = code
            self.give_up(f"the command ended with exit code {code}")

    def _ended(self, lost: str) -> None:
        if self._command is not None:
            self._command.kill()
        self._beat.clear(self._ground.namespace, self._ground.name)
        self.lost = lost
        self._in_loop(self._over.set)

    def _noticed(self, reason: str, message: str) -> None:
        self.notice = f"{reason}: {message}"

    def _in_loop(self, call: Callable[..., object], *args: object) -> None:
        self._loop.call_soon_threadsafe(call, *args)
