"""When an endpoint is left alone, and for how long."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from soloist.domain.breaker import Breaker, BreakerRules, Gate, ask, hear
from soloist.domain.delivery_outcome import Bearing

RULES = BreakerRules(failures=3, first=5, longest=60, stopped=3600)


def after(*bearings: Bearing, breaker: Breaker | None = None, now: float = 0.0, asked: float = 0.0) -> Breaker:
    breaker = breaker or Breaker()
    for said in bearings:
        breaker = hear(breaker, RULES, now, said, probe=False, asked=asked)
    return breaker


def probed(breaker: Breaker, now: float, said: Bearing, asked: float = 0.0) -> Breaker:
    answer = ask(breaker, RULES, now)
    assert answer.gate is Gate.PROBE
    return hear(answer.breaker, RULES, now, said, probe=True, asked=asked)


OPENED = after(*[Bearing.AWAY] * 3)


def test_an_endpoint_of_which_nothing_is_known_may_be_asked() -> None:
    assert ask(Breaker(), RULES, 0.0).gate is Gate.OPEN


def test_it_opens_after_so_many_failures_in_a_row_and_not_before() -> None:
    assert ask(after(*[Bearing.AWAY] * 2), RULES, 0.0).gate is Gate.OPEN
    answer = ask(OPENED, RULES, 1.0)
    assert (answer.gate, answer.wait) == (Gate.LATER, 4.0)


@pytest.mark.parametrize("between", [Bearing.THERE])
def test_an_answer_in_between_begins_the_count_anew(between: Bearing) -> None:
    breaker = after(Bearing.AWAY, Bearing.AWAY, between, Bearing.AWAY, Bearing.AWAY)
    assert ask(breaker, RULES, 0.0).gate is Gate.OPEN


def test_what_was_not_asked_neither_counts_nor_ends_a_count() -> None:
    breaker = after(Bearing.AWAY, Bearing.UNASKED, Bearing.AWAY, Bearing.UNASKED)
    assert ask(breaker, RULES, 0.0).gate is Gate.OPEN
    assert ask(after(Bearing.AWAY, breaker=breaker), RULES, 0.0).gate is Gate.LATER


def test_when_it_has_waited_one_request_probes_and_the_others_wait_for_it() -> None:
    probe = ask(OPENED, RULES, 5.0)
    assert probe.gate is Gate.PROBE
    assert ask(probe.breaker, RULES, 5.1).gate is Gate.LATER


def test_a_probe_that_is_answered_closes_it_with_nothing_kept() -> None:
    assert probed(OPENED, 5.0, Bearing.THERE) == Breaker()


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_a_limit() -> None:
    breaker, now, waits = OPENED, 0.0, []
    for _ in range(7):
        wait = ask(breaker, RULES, now).wait
        waits.append(wait)
        now += wait
        breaker = probed(breaker, now, Bearing.AWAY)
    assert waits == [5, 10, 20, 40, 60, 60, 60]


def test_a_probe_that_was_abandoned_makes_room_for_the_next_at_once() -> None:
    assert ask(probed(OPENED, 5.0, Bearing.UNASKED), RULES, 5.0).gate is Gate.PROBE


def test_a_probe_that_is_never_heard_of_is_overdue_one_day() -> None:
    lost = ask(OPENED, RULES, 5.0).breaker
    assert ask(lost, RULES, 14.9).gate is Gate.LATER
    assert ask(lost, RULES, 15.0).gate is Gate.PROBE


def test_failures_of_requests_that_were_out_when_it_opened_do_not_prolong_it() -> None:
    late = after(*[Bearing.AWAY] * 50, breaker=OPENED, now=4.0)
    assert ask(late, RULES, 5.0).gate is Gate.PROBE


def test_a_late_answer_is_an_answer() -> None:
    assert after(Bearing.THERE, breaker=OPENED, now=1.0) == Breaker()


def test_an_endpoint_that_asks_for_time_is_given_it_up_to_the_limit() -> None:
    assert ask(after(*[Bearing.AWAY] * 3, asked=30.0), RULES, 0.0).wait == 30.0
    assert ask(after(*[Bearing.AWAY] * 3, asked=3000.0), RULES, 0.0).wait == 60.0
    assert ask(probed(OPENED, 5.0, Bearing.AWAY, asked=50.0), RULES, 5.0).wait == 50.0


def test_an_endpoint_that_is_gone_is_stopped_at_once_and_probed_much_later() -> None:
    gone = after(Bearing.GONE)
    assert ask(gone, RULES, 3599.0).gate is Gate.GONE
    probe = ask(gone, RULES, 3600.0)
    assert probe.gate is Gate.PROBE
    assert ask(probe.breaker, RULES, 3600.1).gate is Gate.LATER
    assert hear(probe.breaker, RULES, 3600.2, Bearing.THERE, probe=True) == Breaker()
    again = hear(probe.breaker, RULES, 3600.2, Bearing.GONE, probe=True)
    assert ask(again, RULES, 7000.0).gate is Gate.GONE


@pytest.mark.parametrize("said", [Bearing.AWAY, Bearing.UNASKED])
def test_a_probe_that_comes_back_after_another_answer_closed_it_opens_nothing(said: Bearing) -> None:
    closed = hear(ask(OPENED, RULES, 5.0).breaker, RULES, 6.0, Bearing.THERE, probe=False)
    assert ask(hear(closed, RULES, 7.0, said, probe=True), RULES, 7.0).gate is Gate.OPEN


def test_a_stopped_endpoint_that_is_away_when_it_is_probed_is_no_longer_taken_for_gone() -> None:
    breaker = probed(after(Bearing.GONE), 3600.0, Bearing.AWAY)
    assert ask(breaker, RULES, 3600.5).gate is Gate.LATER


class Endpoint(RuleBasedStateMachine):
    """Any interleaving of requests, their outcomes, and time."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker()
        self.now = 0.0
        self.out: list[bool] = []

    @rule(seconds=st.floats(0, 200))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def somebody_asks(self) -> None:
        answer = ask(self.breaker, RULES, self.now)
        self.breaker = answer.breaker
        if answer.gate in {Gate.OPEN, Gate.PROBE}:
            self.out.append(answer.gate is Gate.PROBE)
        if answer.gate is Gate.LATER:
            assert 0 < answer.wait <= RULES.stopped

    @precondition(lambda self: self.out)
    @rule(said=st.sampled_from(Bearing), which=st.integers(0, 100))
    def one_comes_back(self, said: Bearing, which: int) -> None:
        probe = self.out.pop(which % len(self.out))
        before = self.breaker
        self.breaker = hear(self.breaker, RULES, self.now, said, probe=probe)
        if said is Bearing.THERE:
            assert self.breaker == Breaker()
        elif before.open_until is None and said is Bearing.AWAY:
            assert self.breaker.failures == before.failures + 1

    @invariant()
    def it_never_stays_shut_for_ever(self) -> None:
        assert ask(self.breaker, RULES, self.now + RULES.stopped).gate in {Gate.OPEN, Gate.PROBE}

    @invariant()
    def an_open_breaker_lets_one_through_at_a_time(self) -> None:
        if self.breaker.open_until is not None:
            first = ask(self.breaker, RULES, self.breaker.open_until)
            assert first.gate is Gate.PROBE
            assert ask(first.breaker, RULES, self.breaker.open_until).gate is Gate.LATER


TestAnyInterleaving = Endpoint.TestCase
TestAnyInterleaving.settings = settings(deadline=None, max_examples=50, stateful_step_count=40)
