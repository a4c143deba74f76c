"""What a worker knows of the endpoints that it sends to: their breakers, by address.

Only endpoints that fail are kept, so ten thousand that are well cost nothing, and of those that fail the ones longest
unheard of make room: forgetting one costs a few requests that fail.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta

from soloist.domain.breaker import Answer, Breaker, BreakerRules, Gate, ask, hear
from soloist.domain.delivery_outcome import Bearing

_MOST_KEPT = 10_000


class Endpoints:
    """One per process. ``boottime`` in seconds."""

    def __init__(self, *, boottime: Callable[[], float], rules: BreakerRules | None = None) -> None:
        self._boottime = boottime
        self._rules = rules or BreakerRules()
        self._known: OrderedDict[str, Breaker] = OrderedDict()

    def ask(self, url: str) -> Answer:
        """May a request go to ``url``? Whoever is told Open or Probe has to ``hear``."""
        breaker = self._known.get(url)
        if breaker is None:
            return Answer(gate=Gate.OPEN, breaker=Breaker())
        answer = ask(breaker, self._rules, self._boottime())
        self._keep(url, answer.breaker)
        return answer

    def hear(self, url: str, bearing: Bearing, *, probe: bool, asked: timedelta | None = None) -> None:
        """What came of a request to ``url``."""
        known = self._known.get(url)
        if known is None and bearing not in {Bearing.AWAY, Bearing.GONE}:
            return
        seconds = 0.0 if asked is None else asked.total_seconds()
        self._keep(url, hear(known or Breaker(), self._rules, self._boottime(), bearing, probe=probe, asked=seconds))

    def _keep(self, url: str, breaker: Breaker) -> None:
        if breaker == Breaker():
            self._known.pop(url, None)
            return
        self._known[url] = breaker
        self._known.move_to_end(url)
        if len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
