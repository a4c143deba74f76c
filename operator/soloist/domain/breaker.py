"""When an endpoint is left alone. One for each endpoint, in each worker; what a worker learns it does not tell the others.

After some failures in a row by which an endpoint shows that it is not there (no connection, no answer in time, 408, 425,
429, 502, 503, 504) it is asked for nothing for a while, each time for longer. Then one request is let through as a probe:
an answer closes the breaker, another such failure opens it again. An endpoint that said 410 is stopped: for an hour its
rows are given up unsent, then one of them probes.

Rows of an open breaker are put back untried, as the senders do that people know: an open breaker uses no attempt of a row,
so an endpoint that is down for a day finds all its rows waiting and none dead. A row that fails by itself (400, 422, 500)
opens nothing, however often.

Times are seconds of any clock that does not go back.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from soloist.domain.delivery_outcome import Bearing


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRules:
    """``failures`` in a row open it, for ``first`` seconds, then twice as long each time up to ``longest``."""

    failures: int = 10
    first: float = 1.0
    longest: float = 300.0
    stopped: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What is known of one endpoint. As made: nothing, so it may be asked."""

    failures: int = 0
    openings: int = 0
    open_until: float | None = None
    gone: bool = False
    probing: bool = False


class Gate(StrEnum):
    """Whether a request may go to the endpoint."""

    OPEN = "Open"  # it may
    PROBE = "Probe"  # it may, and what comes of it decides for the others
    LATER = "Later"  # not now
    GONE = "Gone"  # the endpoint asked for nothing more


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``breaker`` is what is known now; ``wait`` how long until asking again is of use, where the gate says Later."""

    gate: Gate
    breaker: Breaker
    wait: float = 0.0


def ask(breaker: Breaker, rules: BreakerRules, now: float) -> Answer:
    """May a request go out at ``now``? Whoever is told Probe has to ``hear``, or everybody waits for it to be overdue."""
    if breaker.open_until is None:
        return Answer(gate=Gate.OPEN, breaker=breaker)
    if now < breaker.open_until:
        if breaker.gone and not breaker.probing:
            return Answer(gate=Gate.GONE, breaker=breaker)
        return Answer(gate=Gate.LATER, breaker=breaker, wait=breaker.open_until - now)
    # Others come back while the probe is out; one that is never heard of is overdue like an opening.
    probe = replace(breaker, probing=True, open_until=now + _wait(breaker.openings, rules))
    return Answer(gate=Gate.PROBE, breaker=probe)


def hear(
    breaker: Breaker, rules: BreakerRules, now: float, bearing: Bearing, *, probe: bool, asked: float = 0.0
) -> Breaker:
    """What is known after an attempt that ended at ``now``. ``asked`` is the endpoint's Retry-After, in seconds.

    Requests that were out when it opened come back one by one: what they say of a failure is known already.
    """
    probe = probe and breaker.open_until is not None  # else somebody's answer has closed it meanwhile
    match bearing:
        case Bearing.THERE:
            return Breaker()
        case Bearing.GONE:
            return Breaker(openings=breaker.openings, open_until=now + rules.stopped, gone=True)
        case Bearing.UNASKED if probe:  # the next one may try
            return replace(breaker, probing=False, open_until=now)
        case Bearing.AWAY if probe:
            return _opened(breaker, rules, now, asked)
        case Bearing.AWAY if breaker.open_until is None:
            counted = replace(breaker, failures=breaker.failures + 1)
            return _opened(counted, rules, now, asked) if counted.failures >= rules.failures else counted
    return breaker


def _opened(breaker: Breaker, rules: BreakerRules, now: float, asked: float) -> Breaker:
    seconds = min(max(_wait(breaker.openings, rules), asked), rules.longest)
    return Breaker(failures=breaker.failures, openings=breaker.openings + 1, open_until=now + seconds)


def _wait(openings: int, rules: BreakerRules) -> float:
    return min(rules.first * 2.0 ** min(openings, 32), rules.longest)
