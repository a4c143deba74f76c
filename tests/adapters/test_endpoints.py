"""What a worker remembers of the endpoints that it sends to."""

from soloist.adapters.http import endpoints as module
from soloist.adapters.http.endpoints import Endpoints
from soloist.domain.breaker import BreakerRules, Gate
from soloist.domain.delivery_outcome import Bearing


def test_only_endpoints_that_fail_are_remembered_and_of_those_the_latest() -> None:
    known = Endpoints(boottime=lambda: 0.0, rules=BreakerRules(failures=1))
    for number in range(module._MOST_KEPT + 10):
        known.hear((False, f"http://{number}/"), Bearing.AWAY, probe=False)
        known.hear((False, f"http://well-{number}/"), Bearing.THERE, probe=False)
    assert known.ask((False, "http://9/")).gate is Gate.OPEN
    assert known.ask((False, "http://10/")).gate is Gate.LATER
    assert known.ask((False, f"http://{module._MOST_KEPT + 9}/")).gate is Gate.LATER
    assert known.ask((False, "http://well-5/")).gate is Gate.OPEN


def test_an_endpoint_that_answers_again_is_forgotten_with_all_that_was_held_against_it() -> None:
    known = Endpoints(boottime=lambda: 0.0, rules=BreakerRules(failures=2))
    for _ in range(3):
        known.hear((False, "http://a/"), Bearing.AWAY, probe=False)
        known.hear((False, "http://a/"), Bearing.THERE, probe=False)
    assert known.ask((False, "http://a/")).gate is Gate.OPEN
