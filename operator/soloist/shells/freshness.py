"""How old that is which a process knows of jobs and runs, for those who ask: a launch, and the probes.

Lists keep what is known from growing old even where no watch ever comes up; but then a change is seen minutes after it
was made. So a replica counts as ready only while its watches have been up. A process leads once, and ends with its term.
"""

from collections.abc import Callable
from dataclasses import dataclass

from soloist.domain.errors import PermanentError
from soloist.loops.cache import Cache
from soloist.loops.keeper import NEVER, Keeper
from soloist.ports import Clock
from soloist.shells.health import Check

UNWATCHED = 300.0
"""Seconds without a watch that may pass. One that is up is renewed, or brings a bookmark, each minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """One kind of object: the CLOCK_BOOTTIME of the last word on it, and of the last that was not a list's. NEVER: none yet."""

    heard: Callable[[], float]
    watched: Callable[[], float]


class Freshness:
    """``limit`` in seconds: nothing is launched on what is older."""

    def __init__(
        self, keeper: Keeper, cache: Cache, clock: Clock, *, limit: float, jobs: Followed, runs: Followed
    ) -> None:
        self._keeper, self._cache, self._clock, self._limit = keeper, cache, clock, limit
        self._jobs, self._runs = jobs, runs
        self._born, self._led_from = clock.boottime(), NEVER
        self.cannot_begin = ""
        """What keeps the lists that a term starts with from being taken."""

    def begin_term(self) -> None:
        """Runs are known and followed from now on."""
        self._led_from, self.cannot_begin = self._clock.boottime(), ""

    def fresh(self) -> bool:
        """Whether it may be acted on."""
        runs = max(self._keeper.runs_listed, self._runs.heard())
        return self._clock.boottime() - min(self._jobs_heard(), runs) < self._limit

    def follows(self) -> tuple[bool, str]:
        """For /healthz: whether the jobs are being followed at all."""
        limit = 2 * self._limit
        age = self._clock.boottime() - max(self._jobs_heard(), self._born)
        return age < limit, f"jobs were last heard of {age:.0f} s ago (limit {limit:.0f} s)"

    def ready(self) -> dict[str, Check]:
        """For /readyz."""
        return {"cache": self._is_filled, "fresh": self._is_fresh, "watch": self._is_watched}

    def _is_filled(self) -> tuple[bool, str]:
        trouble, so = self._keeper.trouble, f": {self._keeper.trouble}" if self._keeper.trouble else ""
        if self._keeper.jobs_listed == NEVER:
            return False, f"the first list is not through{so}"
        known = f"{len(self._cache)} jobs are known"
        return not isinstance(trouble, PermanentError), f"{known}, and the last list failed{so}" if so else known

    def _is_fresh(self) -> tuple[bool, str]:
        if self.cannot_begin:
            return False, f"this leader's term cannot begin: {self.cannot_begin}"
        fresh = self.fresh()
        leads = self._led_from > NEVER
        return not leads or fresh, "what this leader knows is fresh" if fresh else "a follower, or too old"

    def _is_watched(self) -> tuple[bool, str]:
        jobs = self._jobs.watched()
        if jobs == NEVER:
            return False, "no watch of the jobs has come up yet: may this account watch them?"
        # Of a follower the runs are not asked for; a leader's watch of them comes up after its term has begun.
        runs = max(self._led_from, self._runs.watched()) if self._led_from > NEVER else jobs
        kind, since = min(("jobs", jobs), ("runs", runs), key=lambda each: each[1])
        age = self._clock.boottime() - since
        if age >= UNWATCHED:
            return False, f"no watch of the {kind} has been up for {age:.0f} s (limit {UNWATCHED:.0f} s)"
        return True, "changes are heard of as they come"

    def _jobs_heard(self) -> float:
        return max(self._keeper.jobs_listed, self._jobs.heard())
