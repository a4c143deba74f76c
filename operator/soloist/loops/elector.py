"""Keeps, or waits for, the Lease: asks ``election`` what to do, does it, and hands the term on. A thread of its own.

A renewal is said (``renewed``: the parent's page, the dead-man timer) before its term is handed on, so nothing acts on
what is not said. Losing the Lease is final: the term is withdrawn, ``lost`` is called, once, and this elector does nothing
more. A failure that nobody foresaw is a loss as well. Watches only wake; what counts is what was read.

``stop(drained)`` ends it in order: no claim any more; a leader goes on renewing until ``drained`` is set, then gives back
what it has just read to be its own.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from soloist.domain.election import decide
from soloist.domain.holder_pod import HolderPod, OwnPod
from soloist.domain.lease import LeaseRecord, Raw, parse
from soloist.domain.standing import Candidate, Claim, LossReason, Lost, Read, Renew, Restore, Wait, is_mine
from soloist.domain.term import Term
from soloist.loops.election_ports import Clocks, Hooks, LeaseApi
from soloist.loops.giving_back import give_back
from soloist.loops.holder_pods import HolderPods
from soloist.loops.lease_exchange import LeaseExchange

logger = logging.getLogger(__name__)

_POKE_GAP = 0.02
_DRAIN_POLL = 0.02


class Elector:
    """One candidate. ``stagger`` draws from [0, 1): candidates that wake together do not all claim together.

    ``own``: the Pod that this process runs in, or its container where that is known already. ``alone``: there is no other
    process, so whoever holds the Lease is taken for dead; its term counts as ended when its trust does, not before.
    """

    def __init__(
        self,
        me: Candidate,
        api: LeaseApi,
        clock: Clocks,
        *,
        hooks: Hooks,
        stagger: Callable[[], float],
        own: OwnPod | HolderPod | None = None,
        alone: bool = False,
    ) -> None:
        self._me, self._api, self._clock, self._hooks, self._alone = me, api, clock, hooks, alone
        self._exchange = LeaseExchange(me, api, clock, hooks=hooks, stagger=stagger)
        self._pods = HolderPods(api, own=own, hooks=hooks, timeout=me.timing.try_timeout)
        self._term: Term | None = None
        self._elected = False
        self._ended, self._woken, self._poked = threading.Event(), threading.Event(), False
        self._drained: threading.Event | None = None
        self._idle_boot: float | None = None
        self._stood_by = False
        self._thread = threading.Thread(target=self.run, name="elector", daemon=True)

    def start(self) -> None:
        """Take part from now on."""
        self._thread.start()

    def term(self) -> Term | None:
        """The term as of now. Ask it ``trusted`` before each effect."""
        return self._term

    def reading(self) -> tuple[LeaseRecord | None, float]:
        """The Lease as it was last read (None: it was not there, or not read yet), and when, by CLOCK_BOOTTIME."""
        standing = self._exchange.standing
        return standing.record, standing.read_boot

    def refused(self) -> str:
        """Why the Lease may not be read or written, a sentence; empty where it may, as far as is known."""
        return self._exchange.refused()

    def stop(self, drained: threading.Event) -> None:
        """Claim nothing any more; give the Lease back once ``drained`` is set. Returns at once.

        Nothing is launched after this call, so the term counts as ended now, though it is kept until what runs has ended.
        """
        self._idle_boot = self._clock.boottime()
        self._drained = drained
        self._woken.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; False where it has not come in time."""
        return self._ended.wait(timeout)

    def seen(self, raw: Raw | None) -> None:
        """A watch says that the Lease is now ``raw`` (None: gone). One's own renewals are no news."""
        term, record = self._term, parse(raw) if raw is not None else None
        own = term is not None and record is not None and is_mine(record, self._me) and record.uid == term.lease_uid
        if not own or (term is not None and record is not None and record.fleet_paused != term.fleet_paused):
            self.poke()

    def poke(self) -> None:
        """Read the Lease, and the holder's Pod, soon."""
        self._poked = True
        self._woken.set()

    def run(self) -> None:
        """Until the Lease is lost or given back."""
        try:
            while not self._ended.is_set():
                self.step()
        except Exception as error:  # what nobody foresaw ends the term, not only the thread
            logger.exception("elector failed")
            self._lose(Lost(reason=LossReason.ELECTOR_FAILED, message=f"{type(error).__name__}: {error}"))

    def step(self) -> None:
        """One decision and what it asks for."""
        standing = self._exchange.standing
        if self._drained is not None and (standing.term is None or self._drained.is_set()) and standing.lost is None:
            self._give_back()
            return
        match decision := decide(self._me, standing, self._clock.boottime()):
            case Wait():
                self._wait(decision.until)
            case Read():
                self._read()
            case Claim() | Renew() | Restore():
                self._write(decision)
            case Lost():
                self._lose(decision)

    def _wait(self, until: float) -> None:
        look = max(self._exchange.standing.not_before, self._exchange.standing.read_boot + _POKE_GAP)
        left = (min(until, look) if self._poked else until) - self._clock.boottime()
        if self._drained is not None:
            left = min(left, _DRAIN_POLL)
        if left > 0:
            self._woken.wait(left)
            self._woken.clear()
        if self._poked and self._clock.boottime() >= look:
            self._read()

    def _read(self) -> None:
        self._poked = False
        if (wall := self._exchange.read()) is None:
            return
        self._hand_on(wall)
        standing = self._exchange.standing
        if standing.record is not None and standing.term is None and not self._stood_by:
            self._stood_by = True
            logger.info("standing by", extra={"holder": standing.record.holder})
        follows = standing.term is None and standing.lost is None
        if follows and (self._alone or self._pods.holder_is_dead(standing.record)):
            self._exchange.holder_died()

    def _write(self, decision: Claim | Renew | Restore) -> None:
        if (wall := self._exchange.write(decision, pod=self._pods.text)) is not None:
            self._hand_on(wall)

    def _hand_on(self, wall: datetime) -> None:
        """The term as the answer left it."""
        term, before = self._exchange.standing.term, self._term
        if term is not None and (before is None or term.renew_time != before.renew_time):
            self._hooks.renewed(term)
        self._term = term
        if term is None:
            return
        if not self._elected:
            self._elected = True
            self._pods.follow(None)
            logger.info("elected", extra={"lease": f"{term.lease_namespace}/{term.lease_name}", "epoch": term.epoch})
            self._hooks.elected(term)
        self._pods.learn(wall)

    def _lose(self, lost: Lost) -> None:
        if self._ended.is_set():
            return
        self._term = None
        self._exchange.standing = replace(self._exchange.standing, term=None, lost=lost)
        logger.warning("lease lost", extra={"reason": lost.reason, "detail": lost.message})
        if not self._elected:
            self._release(None)  # a claim that landed, and under which nothing was started
        self._end(lambda: self._hooks.lost(f"{lost.reason}: {lost.message}"))

    def _give_back(self) -> None:
        term, self._term = self._exchange.standing.term, None
        if term is not None or self._exchange.standing.sent:
            self._release(term)
        self._end(self._hooks.released)

    def _release(self, term: Term | None) -> None:
        idle = self._idle_boot if self._idle_boot is not None else self._clock.boottime()
        end = term.now(idle) if term is not None else None
        give_back(self._me, self._api, term=term, end=end, rest=self._ended.wait)

    def _end(self, say: Callable[[], None]) -> None:
        try:
            self._pods.follow(None)
            say()
        finally:
            self._ended.set()
