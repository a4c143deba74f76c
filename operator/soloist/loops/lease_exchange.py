"""One request to the Lease at a time, and what its answer, or that there was none, makes of the standing.

A write is noted as sent before it is, since it may land whatever comes back; only one that certainly was not sent, or was
refused, is taken out again. A leader does not wait for an answer beyond its trust. Decides nothing: that is ``election``.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.hearing import clashed, heard, proven_dead, unanswered
from soloist.domain.lease import Answer, Clash
from soloist.domain.lease_writes import claim, clock_skew, renewal, restoration
from soloist.domain.standing import Candidate, Claim, Renew, Restore, Standing
from soloist.loops.election_notices import Notices
from soloist.loops.election_ports import Clocks, Hooks, LeaseApi

MOST_STAGGER = 0.05


class LeaseExchange:
    """``standing`` is what one candidate knows by now. Of an exchange, what is returned is the wall clock at its send."""

    def __init__(
        self, me: Candidate, api: LeaseApi, clock: Clocks, *, hooks: Hooks, stagger: Callable[[], float]
    ) -> None:
        self._me, self._api, self._clock, self._hooks, self._stagger = me, api, clock, hooks, stagger
        self._notices = Notices(me, hooks.noticed)
        self._refusal, self._refused_until = "", float("-inf")
        self.standing = Standing()

    def refused(self) -> str:
        """Why the Lease may not be read, or, within a Lease's time, could not be written; empty where it may."""
        return self._refusal if self._clock.boottime() < self._refused_until else ""

    def read(self) -> datetime | None:
        """None: no answer."""
        wall, sent_boot = self._clock.now(), self._clock.boottime()
        try:
            answer = self._api.read(timeout=self._patience(sent_boot))
        except (TransientError, PermanentError) as error:
            self._failed(error, self.standing, sent_boot, refused_for=float("inf"))
            return None
        if self._refused_until == float("inf"):
            self._refused_until = float("-inf")
        self._heard(answer, wall, sent_boot)
        return wall

    def write(self, decision: Claim | Renew | Restore, *, pod: str | None) -> datetime | None:
        """None: no answer, or another's write was first. ``pod``: our container, once it is certain."""
        before, wall, sent_boot = self.standing, self._clock.now(), self._clock.boottime()
        if isinstance(decision, Claim):
            body, after = claim(self._me, before, wall=wall, boot=sent_boot, pod=pod)
        elif isinstance(decision, Restore):
            body, after = restoration(self._me, before, wall=wall)
        else:
            needed = self._hooks.needed_epochs()
            body, after = renewal(self._me, before, wall=wall, boot=sent_boot, pod=pod, needed=needed)
        self.standing = after
        send = self._api.create if before.record is None else self._api.replace
        try:
            answer = send(body, timeout=self._patience(sent_boot))
        except (TransientError, PermanentError) as error:
            certain = isinstance(error, PermanentError) or not error.sent
            # Whoever finds the Lease held meanwhile has no more to write, and so no other way to learn that it may.
            self._failed(error, before if certain else after, sent_boot, refused_for=self._me.timing.lease)
            return None
        if isinstance(answer, Clash):
            self.standing = clashed(after)
            return None
        self._refused_until = float("-inf")
        self._heard(answer, wall, sent_boot)
        return wall

    def holder_died(self) -> None:
        """The kubelet says so of the container that the last reading names."""
        record = self.standing.record
        nonce = record.nonce if record is not None else None
        self.standing = proven_dead(self.standing, nonce, boot=self._clock.boottime(), stagger=self._draw())

    def _heard(self, answer: Answer, wall: datetime, sent_boot: float) -> None:
        boot = self._clock.boottime()
        skew = self._skew(answer.server_time, wall, sent_boot, boot)
        self.standing = heard(self._me, self.standing, answer.lease, boot=boot, skew=skew, stagger=self._draw())
        self._notices.answered(self.standing)

    def _failed(
        self, error: TransientError | PermanentError, standing: Standing, sent_boot: float, *, refused_for: float
    ) -> None:
        after, boot = error.retry_after if isinstance(error, TransientError) else None, self._clock.boottime()
        self.standing = unanswered(self._me, standing, sent_boot=sent_boot, boot=boot, after=after)
        self._notices.unanswered(error)
        if isinstance(error, PermanentError):
            self._refusal, self._refused_until = str(error), boot + refused_for

    def _patience(self, boot: float) -> float:
        term, bound = self.standing.term, self._me.timing.try_timeout
        return bound if term is None else min(bound, max(0.01, term.trusted_until - boot))

    def _skew(self, server: datetime | None, wall: datetime, sent_boot: float, boot: float) -> timedelta | None:
        term = self.standing.term
        shown = [wall] if term is None else [wall, term.now(sent_boot)]
        found = [clock_skew(moment, server, latency=boot - sent_boot) for moment in shown]
        return next((skew for skew in found if skew is not None), None)

    def _draw(self) -> float:
        return self._stagger() * MOST_STAGGER
