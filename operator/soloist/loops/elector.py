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
from datetime import datetime, timedelta

from soloist.domain.election import clashed, decide, heard, proven_dead, twin_message, unanswered
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.holder_pod import HolderPod, OwnPod
from soloist.domain.lease import Answer, Clash, Raw, parse
from soloist.domain.lease_writes import claim, clock_skew, renewal, restoration
from soloist.domain.standing import Candidate, Claim, LossReason, Lost, Read, Renew, Restore, Standing, Wait, is_mine
from soloist.domain.term import Term
from soloist.loops.election_ports import Clocks, Hooks, LeaseApi
from soloist.loops.giving_back import give_back
from soloist.loops.holder_pods import HolderPods

logger = logging.getLogger(__name__)

MOST_STAGGER = 0.05
_POKE_GAP = 0.02
_DRAIN_POLL = 0.02


class Elector:
    """One candidate. ``stagger`` draws from [0, 1): candidates that wake together do not all claim together.

    ``own``: the Pod that this process runs in, or its container where that is known already.
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
    ) -> None:
        self._me, self._api, self._clock, self._hooks, self._stagger = me, api, clock, hooks, stagger
        self._pods = HolderPods(api, own=own, hooks=hooks, timeout=me.timing.try_timeout)
        self._standing = Standing()
        self._term: Term | None = None
        self._elected = False
        self._ended, self._woken, self._poked = threading.Event(), threading.Event(), False
        self._drained: threading.Event | None = None
        self._idle_boot: float | None = None
        self._stood_by = False
        self._notices: set[str] = set()
        self._thread = threading.Thread(target=self.run, name="elector", daemon=True)

    def start(self) -> None:
        """Take part from now on."""
        self._thread.start()

    def term(self) -> Term | None:
        """The term as of now. Ask it ``trusted`` before each effect."""
        return self._term

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
        standing = self._standing
        if self._drained is not None and (standing.term is None or self._drained.is_set()) and standing.lost is None:
            self._give_back()
            return
        decision = decide(self._me, standing, self._clock.boottime())
        match decision:
            case Wait():
                self._wait(decision.until)
            case Read():
                self._read()
            case Claim() | Renew() | Restore():
                self._write(decision)
            case Lost():
                self._lose(decision)

    def _wait(self, until: float) -> None:
        look = max(self._standing.not_before, self._standing.read_boot + _POKE_GAP)
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
        wall, sent_boot = self._clock.now(), self._clock.boottime()
        try:
            answer = self._api.read(timeout=self._patience(sent_boot))
        except (TransientError, PermanentError) as error:
            self._failed(error, self._standing, sent_boot)
            return
        self._heard(answer, wall, sent_boot)
        standing = self._standing
        if standing.record is not None and standing.term is None and not self._stood_by:
            self._stood_by = True
            logger.info("standing by", extra={"holder": standing.record.holder})
        if standing.term is None and standing.lost is None and self._pods.holder_is_dead(standing.record):
            nonce = standing.record.nonce if standing.record is not None else None
            self._standing = proven_dead(standing, nonce, boot=self._clock.boottime(), stagger=self._draw())

    def _write(self, decision: Claim | Renew | Restore) -> None:
        before, wall, sent_boot = self._standing, self._clock.now(), self._clock.boottime()
        if isinstance(decision, Claim):
            body, after = claim(self._me, before, wall=wall, boot=sent_boot, pod=self._pods.text)
        elif isinstance(decision, Restore):
            body, after = restoration(self._me, before, wall=wall)
        else:
            needed = self._hooks.needed_epochs()
            body, after = renewal(self._me, before, wall=wall, boot=sent_boot, pod=self._pods.text, needed=needed)
        self._standing = after
        send = self._api.create if before.record is None else self._api.replace
        try:
            answer = send(body, timeout=self._patience(sent_boot))
        except (TransientError, PermanentError) as error:
            certain = isinstance(error, PermanentError) or not error.sent
            self._failed(error, before if certain else after, sent_boot)
            return
        if isinstance(answer, Clash):
            self._standing = clashed(after)
        else:
            self._heard(answer, wall, sent_boot)

    def _heard(self, answer: Answer, wall: datetime, sent_boot: float) -> None:
        boot, before = self._clock.boottime(), self._standing.term
        skew = self._skew(answer.server_time, wall, sent_boot, boot)
        self._standing = heard(self._me, self._standing, answer.lease, boot=boot, skew=skew, stagger=self._draw())
        self._say_what_stands_in_the_way()
        term = self._standing.term
        if term is None:
            self._term = None
            return
        if before is None or term.renew_time != before.renew_time:
            self._hooks.renewed(term)
        self._term = term
        if not self._elected:
            self._elected = True
            self._pods.follow(None)
            logger.info("elected", extra={"lease": f"{term.lease_namespace}/{term.lease_name}", "epoch": term.epoch})
            self._hooks.elected(term)
        self._pods.learn(wall)

    def _patience(self, boot: float) -> float:
        """Bound of one try; a leader does not wait for an answer beyond its trust."""
        term, bound = self._standing.term, self._me.timing.try_timeout
        return bound if term is None else min(bound, max(0.01, term.trusted_until - boot))

    def _skew(self, server: datetime | None, wall: datetime, sent_boot: float, boot: float) -> timedelta | None:
        term = self._standing.term
        shown = [wall] if term is None else [wall, term.now(sent_boot)]
        found = [clock_skew(moment, server, latency=boot - sent_boot) for moment in shown]
        return next((skew for skew in found if skew is not None), None)

    def _failed(self, error: TransientError | PermanentError, standing: Standing, sent_boot: float) -> None:
        after, boot = error.retry_after if isinstance(error, TransientError) else None, self._clock.boottime()
        self._standing = unanswered(self._me, standing, sent_boot=sent_boot, boot=boot, after=after)
        self._notice("LeaseRefused" if isinstance(error, PermanentError) else "LeaseUnreachable", str(error))

    def _lose(self, lost: Lost) -> None:
        if self._ended.is_set():
            return
        self._term = None
        self._standing = replace(self._standing, term=None, lost=lost)
        logger.warning("lease lost", extra={"reason": lost.reason, "detail": lost.message})
        if not self._elected:
            self._release(None)  # a claim that landed, and under which nothing was started
        self._end(lambda: self._hooks.lost(f"{lost.reason}: {lost.message}"))

    def _give_back(self) -> None:
        term, self._term = self._standing.term, None
        if term is not None or self._standing.sent:
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

    def _draw(self) -> float:
        return self._stagger() * MOST_STAGGER

    def _say_what_stands_in_the_way(self) -> None:
        standing = self._standing
        self._notices -= {"LeaseUnreachable", "LeaseRefused"}
        record, skew = standing.record, standing.skew
        if standing.twin and record is not None:
            self._notice(LossReason.TWIN_DETECTED, twin_message(self._me, record))
        if skew is not None:
            self._notice(LossReason.CLOCK_SKEW, f"this clock is {skew.total_seconds():+.1f} s off the API server's.")
        elif standing.term is not None:
            self._notices.discard(LossReason.CLOCK_SKEW)

    def _notice(self, reason: str, message: str) -> None:
        """Once, until it is over."""
        if reason not in self._notices:
            self._notices.add(reason)
            logger.warning("election noticed", extra={"reason": reason, "detail": message})
            self._hooks.noticed(reason, message)
