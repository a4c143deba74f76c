"""What a worker knows of the endpoints that it sends to: their breakers, by address.

Only endpoints that fail are kept, so ten thousand that are well cost nothing, and of those that fail the ones longest
unheard of make room: forgetting one costs a few requests that fail. An address in a manifest and the same one in a row are
two endpoints: what stops the one must not stop the queue of the other.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta

from soloist.domain.breaker import Answer, Breaker, BreakerRules, Gate, ask, hear
from soloist.domain.delivery_outcome import Bearing

_MOST_KEPT = 10_000

Key = tuple[bool, str]
"""Whether the address is the manifest's, and the address."""


class Endpoints:
    """One per process. ``boottime`` in seconds."""

    def __init__(self, *, boottime: Callable[[], float], rules: BreakerRules | None = None) -> None:
        self._boottime = boottime
        self._rules = rules or BreakerRules()
        self._known: OrderedDict[Key, Breaker] = OrderedDict()

    def ask(self, key: Key) -> Answer:
        """May a request go to that endpoint? Whoever is told Open or Probe has to ``hear``."""
        breaker = self._known.get(key)
        if breaker is None:
            return Answer(gate=Gate.OPEN, breaker=Breaker())
        answer = ask(breaker, self._rules, self._boottime())
        self._keep(key, answer.breaker)
        return answer

    def hear(self, key: Key, bearing: Bearing, *, probe: bool, asked: timedelta | None = None) -> None:
        """What came of a request to it."""
        known = self._known.get(key)
        if known is None and bearing not in {Bearing.AWAY, Bearing.GONE}:
            return
        seconds = 0.0 if asked is None else asked.total_seconds()
        self._keep(key, hear(known or Breaker(), self._rules, self._boottime(), bearing, probe=probe, asked=seconds))

    def _keep(self, key: Key, breaker: Breaker) -> None:
        if breaker == Breaker():
            self._known.pop(key, None)
            return
        self._known[key] = breaker
        self._known.move_to_end(key)
        if len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
