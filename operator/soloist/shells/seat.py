"""One Lease of a sidecar: a bid for it, and then another, and what there is to say to whoever asks meanwhile.

Each bid has a new identity, and is over before the next begins. It is made only while the application is well, and not for
a while after the Lease was given up, so that another replica gets it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from soloist.adapters.clock import SystemClock
from soloist.domain.lease import LeaseRecord
from soloist.domain.slots import Refused, SlotReason, Timer, refused
from soloist.domain.term import Term
from soloist.loops.granting import Granted
from soloist.shells.bid import Bid
from soloist.shells.child import Beat
from soloist.shells.stand import Ground

FIRST_PAUSE, LONGEST_PAUSE, LONG_BID = 0.2, 5.0, 5.0
"""Seconds between two bids, doubled after each that ended badly: was lost, or its command ended. A long one begins anew."""

ASIDE = "it stands aside for a while after its last term"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """``term`` while this replica holds the Lease, and for how many seconds it is trusted; else why it does not.

    ``record`` is the last reading, ``age`` seconds old. ``away``: why this replica takes no part now. ``refused``: why it
    may not read or write the Lease. ``notice``: what stood in the way last.
    """

    term: Term | None
    left: float
    record: LeaseRecord | None
    age: float
    away: str
    refused: str
    notice: str


class Seat:
    """To be made and run in the process's loop."""

    def __init__(
        self, ground: Ground, clock: SystemClock, *, beat: Beat, command: Sequence[str], grace: float, away: str
    ) -> None:
        self.ground, self._clock, self._beat, self._command, self._grace = ground, clock, beat, command, grace
        self._bid: Bid | None = None
        self._changed, self._closed = asyncio.Event(), asyncio.Event()
        self._held_back, self._closing, self._lost = away, False, ""
        self._rest_until, self._pause = float("-inf"), FIRST_PAUSE

    async def run(self) -> None:
        """Until ``close``."""
        while await self._may_bid():
            born = self._clock.boottime()
            self._bid = bid = Bid(self.ground, self._clock, beat=self._beat, command=self._command, grace=self._grace)
            await bid.run()
            self._bid, self._lost = None, bid.lost
            if self._clock.boottime() - born > LONG_BID:
                self._pause = FIRST_PAUSE
            if bid.lost or bid.command_code is not None:
                self._rest(self._pause)
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._closed.set()

    def view(self) -> View:
        bid, boot = self._bid, self._clock.boottime()
        if bid is None:
            return View(
                term=None, left=0.0, record=None, age=float("inf"), away=self._away(), refused="", notice=self._lost
            )
        term, (record, read) = bid.term(), bid.reading()
        left = term.trusted_until - boot if term is not None else 0.0
        notice = bid.notice or self._lost
        return View(
            term=term,
            left=left,
            record=record,
            age=boot - read,
            away=self._away(),
            refused=bid.refused(),
            notice=notice,
        )

    async def grant(self, timer: Timer) -> Granted | Refused:
        """The slot that lasts now, or why not."""
        bid, away = self._bid, self._away()
        if bid is None or away:
            return refused(timer.slot(self._clock.now()), SlotReason.GIVEN_UP, away)
        return await bid.grant(timer)

    def release(self, seconds: float, why: str) -> None:
        """Give the Lease up, and stand aside for so long."""
        self._rest(seconds)
        if self._bid is not None:
            self._bid.give_up(why)

    def hold_back(self, why: str) -> None:
        """Give the Lease up and bid for it no more, while ``why`` is not empty."""
        self._held_back = why
        self._changed.set()
        if why and self._bid is not None:
            self._bid.give_up(why)

    async def close(self, why: str) -> None:
        """Give the Lease up for good; returns when nothing is held and no command runs."""
        self._closing = True
        self.hold_back(why)
        await self._closed.wait()

    def lives(self) -> tuple[bool, str]:
        bid = self._bid
        return bid is None or bid.lives(), self._away() or "its elector takes part"

    def _away(self) -> str:
        aside = f"{ASIDE}: {self._lost.removesuffix('.')}" if self._lost else ASIDE
        return self._held_back or (self._bid.going if self._bid is not None else aside)

    def _rest(self, seconds: float) -> None:
        self._rest_until = max(self._rest_until, self._clock.boottime() + seconds)

    async def _may_bid(self) -> bool:
        while not self._closing:
            left = self._rest_until - self._clock.boottime()
            if not self._held_back and left <= 0:
                return True
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), None if self._held_back else left)
            except TimeoutError:
                continue
        return False
