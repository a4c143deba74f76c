"""The claims that one queue's worker holds, from the claim until its outcome is written.

One place knows them all, so that nothing is counted twice or forgotten: a claim waits for its key, runs, or has an outcome
that is being written; as long as it is here its lease is renewed, and when it leaves, it is over. What is here is bounded:
claims that run by the queue's concurrency, and all of them by ``bound``, so outcomes that cannot be written hold up claiming.

A key whose endpoint is shut rests for as long, and where all rows go to one endpoint the whole queue does: to claim its
rows would only move them from hand to hand. Whatever else comes of a row of it ends the rest.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from soloist.domain.claim_lease import ClaimLease
from soloist.domain.claims import Claim, Settled
from soloist.domain.queue_spec import Concurrency

BUFFERED_PER_SLOT = 3
"""Outcomes that may wait to be written for each row that may run."""


MOST_RESTING = 100
"""Keys that rest at the same time: a claim looks through them for each row."""


class Place(Enum):
    """What becomes of a new claim."""

    RUNS = 1
    WAITS = 2
    GOES_BACK = 3


@dataclass(slots=True, eq=False)
class Held:
    """One claim. ``sent``: CLOCK_BOOTTIME of the send of the claim, or of its last good renewal."""

    claim: Claim
    sent: float
    key: str | None
    task: "asyncio.Task[Settled] | None" = None
    outcome: Settled | None = None
    given_up: bool = False

    @property
    def runs(self) -> bool:
        return self.task is not None and self.outcome is None


class InHand:
    """All of one queue's claims. ``changed`` is called when there may be room for another."""

    def __init__(self, lease: ClaimLease, concurrency: Concurrency, *, changed: Callable[[], None]) -> None:
        self.lease = lease
        self._slots = concurrency.per_worker
        self._per_key = concurrency.per_key
        self._bound = concurrency.per_worker * (1 + BUFFERED_PER_SLOT)
        self._held: dict[int, Held] = {}
        self._running: Counter[str | None] = Counter()
        self._waiting: dict[str | None, deque[Held]] = {}
        self._resting: dict[str | None, float] = {}
        self._changed = changed

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._held.values()))

    @property
    def running(self) -> int:
        return self._running.total()

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def free(self) -> int:
        """Slots for rows that would run at once. One that waits for its key has none: it takes that of the one before."""
        return self._slots - self.running

    @property
    def room(self) -> int:
        """Places for claims whose outcome may have to wait to be written."""
        return self._bound - len(self._held)

    @property
    def rests_until(self) -> float:
        """The CLOCK_BOOTTIME until which no row of the queue is wanted."""
        return self._resting.get(None, float("-inf"))

    def full_keys(self, now: float) -> Collection[str]:
        """Keys of which no further row is wanted: as many run as may, and the next ones wait already; or they rest."""
        self._resting = {key: until for key, until in self._resting.items() if until > now}
        if self._per_key is None:
            return ()
        full = {key for key in self._running if key is not None and not self._wanted(key)}
        return full.union(key for key in self._resting if key is not None)

    def rest(self, held: Held, until: float, *, for_all: bool) -> None:
        """No row of its key, or none at all, is wanted before that CLOCK_BOOTTIME."""
        if for_all or (held.key is not None and len(self._resting) < MOST_RESTING):
            self._resting.setdefault(None if for_all else held.key, until)

    def rouse(self, held: Held) -> None:
        """A row of its key was tried, so others may be."""
        if self._resting:
            self._resting.pop(held.key, None)
            self._resting.pop(None, None)

    def take(self, claim: Claim, sent: float) -> Held:
        """Hold a new claim."""
        key = claim.columns.get(self._per_key.column) if self._per_key is not None else None
        held = self._held[claim.fence] = Held(claim=claim, sent=sent, key=key)
        return held

    def place(self, held: Held) -> Place:
        """Whether it may start now. One that waits for its key stands in line, and ``ended`` gives it in its turn."""
        if held.key is None or self._per_key is None or self._running[held.key] < self._per_key.limit:
            return Place.RUNS
        if not self._wanted(held.key):
            return Place.GOES_BACK
        self._waiting.setdefault(held.key, deque()).append(held)
        return Place.WAITS

    def start(self, held: Held, task: "asyncio.Task[Settled]") -> None:
        held.task = task
        self._running[held.key] += 1

    def ended(self, held: Held) -> Held | None:
        """Its handler is over, with an outcome or without; gives the claim that waited for its key the longest."""
        self._running[held.key] -= 1
        if not self._running[held.key]:
            del self._running[held.key]
        self._changed()
        return self._next_of(held.key)

    def drop(self, held: Held) -> None:
        """It is over: written, or lost."""
        if self._held.pop(held.claim.fence, None) is None:
            return
        if held.key in self._waiting and held in self._waiting[held.key]:
            self._waiting[held.key].remove(held)
        self._changed()

    def take_waiting(self) -> list[Held]:
        """Those that have not started, which shall not start any more."""
        taken = [held for line in self._waiting.values() for held in line]
        self._waiting.clear()
        return taken

    def _wanted(self, key: str) -> bool:
        assert self._per_key is not None
        return self._running[key] + len(self._waiting.get(key, ())) < 2 * self._per_key.limit

    def _next_of(self, key: str | None) -> Held | None:
        line = self._waiting.get(key) if key is not None else None
        if not line:
            return None
        return line.popleft()
