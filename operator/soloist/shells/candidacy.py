"""How a controller takes part in the election, and what every change of its term does to this process.

The elector has a thread of its own, which nothing in the loop can hold up. Its hooks are called there: a renewal arms the
dead-man timer and tells the parent before anything acts on it; a lost term ends the process at once, and the parent starts
another. What the loop has to know is handed over to it.
"""

import asyncio
import logging
import os
import random
import secrets
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.bounded import BoundedClient
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.lease import LeaseClient
from soloist.adapters.kube.lease_watch import LeaseWatches
from soloist.domain.standing import Candidate, identity_of
from soloist.domain.term import Term
from soloist.loops.election_ports import Hooks
from soloist.loops.elector import Elector
from soloist.shells.child import PARENT_VARIABLE, Beat, ExitCode, arm_dead_man, disarm_dead_man
from soloist.shells.own_pod import own_pod, pod_name
from soloist.shells.settings import ControllerSettings

_log = logging.getLogger("soloist.controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the loop is told, in the loop; but for ``needed_epochs``, which is asked in the elector's thread."""

    elected: Callable[[Term], None]
    noticed: Callable[[str, str], None]
    fleet_pause_changed: Callable[[], None]
    needed_epochs: Callable[[], Collection[int] | None]


class Candidacy:
    """One for each process. To be made in the loop that is to be told."""

    def __init__(self, settings: ControllerSettings, access: Access, clock: SystemClock, told: Told) -> None:
        self._access, self._clock, self._told = access, clock, told
        self._patience = settings.lease_duration
        self._loop = asyncio.get_running_loop()
        self._beat = Beat.inherited()
        self._nonce = secrets.token_hex(8)
        me = Candidate(
            identity=identity_of(pod_name(), os.environ.get("POD_UID", ""), self._nonce),
            nonce=self._nonce,
            namespace=settings.lease_namespace,
            name=settings.lease_name,
            timing=settings.timing,
        )
        self._watches = LeaseWatches(
            access,
            namespace=me.namespace,
            name=me.name,
            lease_seen=lambda raw: self._elector.seen(raw),
            pod_seen=lambda: self._elector.poke(),
        )
        hooks = Hooks(
            renewed=self._renewed,
            elected=lambda term: self._in_loop(told.elected, term),
            lost=self.end,
            released=self._released,
            noticed=lambda reason, message: self._in_loop(told.noticed, reason, message),
            follow=self._watches.follow,
            needed_epochs=told.needed_epochs,
        )
        client = LeaseClient(BoundedClient(access), namespace=me.namespace, name=me.name)
        own = own_pod(os.environ, clock, first=int(os.environ.get(PARENT_VARIABLE, os.getpid())))
        self._elector = Elector(me, client, clock, hooks=hooks, stagger=random.random, own=own)

    def start(self) -> None:
        self._watches.start()
        self._elector.start()

    def term(self) -> Term | None:
        """The term of this very process, while it is to be trusted."""
        return self._elector.term()

    def lives(self) -> tuple[bool, str]:
        return not self._elector.join(0), "the elector takes part"

    def stop(self, drained: threading.Event) -> None:
        """Stand for nothing new; a term that is held is renewed until ``drained``, then given back."""
        self._elector.stop(drained)

    async def stopped(self) -> None:
        await asyncio.to_thread(self._elector.join, self._patience)

    def end(self, sentence: str) -> None:
        """The term is over, and with it this process."""
        _log.error("term lost; this process ends", extra={"sentence": sentence})
        logging.shutdown()
        os._exit(ExitCode.TERM_LOST)

    def _renewed(self, term: Term) -> None:
        arm_dead_man(term.trusted_until - self._clock.boottime())
        self._beat.write(term, nonce=self._nonce, connection=self._access.facts())
        before = self._elector.term()
        if before is not None and before.fleet_paused != term.fleet_paused:
            self._in_loop(self._told.fleet_pause_changed)

    def _released(self) -> None:
        disarm_dead_man()
        self._beat.clear()

    def _in_loop(self, call: Callable[..., None], *args: Any) -> None:
        self._loop.call_soon_threadsafe(call, *args)
