"""How a controller takes part in the election, and what every change of its term does to this process.

The elector has a thread of its own, which nothing in the loop can hold up. Its hooks are called there: a renewal arms the
dead-man timer and tells the parent before anything acts on it; a lost term ends the process at once, and the parent starts
another. What the loop has to know is handed over to it.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.domain.holder_pod import OwnPod
from soloist.domain.standing import LossReason
from soloist.domain.term import Term
from soloist.loops.election_ports import Hooks
from soloist.shells.child import Beat, ExitCode, arm_dead_man, disarm_dead_man
from soloist.shells.stand import Ground, Stand, new_nonce

_log = logging.getLogger("soloist.controller")

TWO = (
    "Two processes run with --single-process on one database: stop one, or start both without it, and they take turns."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the loop is told, in the loop; but for ``needed_epochs``, which is asked in the elector's thread."""

    elected: Callable[[Term], None]
    noticed: Callable[[str, str], None]
    fleet_pause_changed: Callable[[], None]
    needed_epochs: Callable[[], Collection[int] | None]


class Candidacy:
    """One for each process. To be made in the loop that is to be told.

    ``alone``: no election is held; whoever holds the Lease is taken for a process that is gone.
    """

    def __init__(
        self, ground: Ground, clock: SystemClock, told: Told, *, own: OwnPod | None = None, alone: bool = False
    ) -> None:
        self._ground, self._clock, self._told, self._alone = ground, clock, told, alone
        self._patience = ground.timing.lease
        self._loop = asyncio.get_running_loop()
        self._beat = Beat.inherited()
        self._nonce = new_nonce()
        hooks = Hooks(
            renewed=self._renewed,
            elected=lambda term: self._in_loop(told.elected, term),
            lost=self.end,
            released=self._released,
            noticed=lambda reason, message: self._in_loop(told.noticed, reason, message),
            needed_epochs=told.needed_epochs,
        )
        self._stand = Stand(ground, clock, hooks, nonce=self._nonce, own=own, alone=alone)
        self._elector = self._stand.elector

    def start(self) -> None:
        self._stand.start()

    def term(self) -> Term | None:
        """The term of this very process, while it is to be trusted."""
        return self._elector.term()

    def lives(self) -> tuple[bool, str]:
        return not self._elector.join(0), "the elector takes part"

    def may_lead(self) -> tuple[bool, str]:
        """For /readyz: one that may not is no standby."""
        refused = self._elector.refused()
        return not refused, refused or "the Lease may be read and written"

    def stop(self, drained: threading.Event) -> None:
        """Stand for nothing new; a term that is held is renewed until ``drained``, then given back."""
        self._elector.stop(drained)

    async def stopped(self) -> None:
        await asyncio.to_thread(self._elector.join, self._patience)

    def end(self, sentence: str) -> None:
        """The term is over, and with it this process."""
        _log.error("term lost; this process ends", extra={"sentence": sentence})
        if self._alone and sentence.startswith(LossReason.HOLDER_CHANGED):
            # To start again would end the other in turn, and so on: somebody has to say which of the two there is to be.
            _log.error("another process took over", extra={"sentence": TWO})
            logging.shutdown()
            os._exit(ExitCode.FAILED)
        logging.shutdown()
        os._exit(ExitCode.TERM_LOST)

    def _renewed(self, term: Term) -> None:
        arm_dead_man(term.trusted_until - self._clock.boottime())
        self._beat.write(term, nonce=self._nonce, connection=self._ground.connection())
        before = self._elector.term()
        if before is not None and before.fleet_paused != term.fleet_paused:
            self._in_loop(self._told.fleet_pause_changed)

    def _released(self) -> None:
        disarm_dead_man()
        self._beat.clear(self._ground.namespace, self._ground.name)

    def _in_loop(self, call: Callable[..., None], *args: Any) -> None:
        self._loop.call_soon_threadsafe(call, *args)
