"""When a queue is asked for due rows again, and for how many.

A claim that comes back full is followed by the next at once: there is more. One that finds nothing waits, from ``least``
doubling to ``most``, and jitter only shortens a wait, so a row that comes due in an idle queue is picked up within ``most``
of its time, with no traffic at all. Errors have waits of their own, since a database that is down is not an empty queue.
"""

from dataclasses import dataclass

JITTER = 0.2
FIRST_AFTER_ERROR, LONGEST_AFTER_ERROR = 0.1, 5.0
MOST_AT_ONCE = 500
"""Rows a claim asks for at the most, and as many as one statement gives. Where handlers do nothing, a hundred are a third slower."""

GROWTH, BATCH_SECONDS = 8, 0.2
"""Of batches that only clear away: by how much one may exceed the last, and how long one may take, its locks held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Where the polling of one queue stands. ``least`` and ``most`` are seconds."""

    least: float = 0.005
    most: float = 0.25
    empty: int = 0
    failed: int = 0

    def after_claim(self, *, asked: int, taken: int) -> "Pace":
        """``taken`` of the ``asked`` rows came and are worked. Fewer than asked means that nothing more is due."""
        return self._with(empty=self.empty + 1 if taken == 0 < asked else 0, failed=0)

    def after_error(self) -> "Pace":
        return self._with(empty=0, failed=self.failed + 1)

    def woken(self) -> "Pace":
        """Something was enqueued: begin with the shortest wait again."""
        return self._with(empty=0, failed=self.failed)

    def wait(self, *, full: bool, drawn: float) -> float:
        """Seconds until the next claim; ``full``: the last one gave what it was asked for. ``drawn`` is in [0, 1)."""
        if self.failed:
            longest = min(LONGEST_AFTER_ERROR, FIRST_AFTER_ERROR * 2.0 ** min(self.failed - 1, 20))
        elif full:
            return 0.0
        else:
            longest = min(self.most, self.least * 2.0 ** min(max(self.empty - 1, 0), 20))
        return longest * (1.0 - JITTER * drawn)

    def _with(self, *, empty: int, failed: int) -> "Pace":
        return Pace(least=self.least, most=self.most, empty=empty, failed=failed)


def how_many(*, free: int, room: int) -> int:
    """Rows to ask for: as many as there are free slots and places for their outcomes, and never too many at once."""
    return max(0, min(free, room, MOST_AT_ONCE))


def enough(asked: int, *, slots: int) -> bool:
    """Whether so many rows are worth a statement now; else it waits a moment for more slots to become free."""
    return asked * 4 >= min(slots, MOST_AT_ONCE)


def how_many_next(asked: int, *, seconds: float) -> int:
    """Rows of a batch whose end nobody waits for, after ``asked`` of them that took ``seconds``: more, where that was quick."""
    return min(MOST_AT_ONCE, GROWTH * asked, int(asked * BATCH_SECONDS / max(seconds, 0.001)))


def next_from_head(began: float, ended: float, *, poll: float) -> float:
    """When a claim is to start from the head again, after one that took from ``began`` to ``ended``.

    Counted from its end, and rarer where it takes long: at most a fifth of the time goes into it.
    """
    return ended + max(poll, 4 * (ended - began))
