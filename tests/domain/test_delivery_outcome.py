"""What is written for a row after each kind of attempt."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.actions import FailedKnown, Response, Succeeded, UnknownOutcome
from soloist.domain.claims import Claim, Done, Failed, Parked
from soloist.domain.delivery_outcome import Bearing, bearing, endpoint_stopped, judge, settled, wait_after
from soloist.domain.http_request import HttpReason
from soloist.domain.queue_spec import Column, RetryRules

HOURS = timedelta(hours=1)
SCHEDULE = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    2 * HOURS,
    5 * HOURS,
    10 * HOURS,
    10 * HOURS,
)
RULES = RetryRules(schedule=SCHEDULE, jitter=0.2, max_attempts=8, retry_after_cap=HOURS)
CLAIM = Claim(row=("1",), fence=1, attempt=1, tries=1, columns={"most": "3", "bad": "many", "null": None})
EXPECTED = ((200, 299),)
UNKNOWN = UnknownOutcome(reason=HttpReason.TIMED_OUT, message="The request was sent and no answer came within 15 s.")
MIDDLE = 0.5


def answered(status: int, excerpt: str = "", **headers: str) -> Succeeded | FailedKnown | UnknownOutcome:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return judge(Response(status_code=status, excerpt=excerpt), named, EXPECTED)


def not_sent(reason: HttpReason, *, retryable: bool = True) -> FailedKnown:
    return FailedKnown(reason=reason, message=f"Nothing was sent: {reason}.", retryable=retryable)


def write(
    outcome: Succeeded | FailedKnown | UnknownOutcome,
    *,
    tries: int = 1,
    hold: bool = False,
    fixed: bool = False,
    drawn: float = MIDDLE,
) -> Done | Failed | Parked:
    return settled(replace(CLAIM, tries=tries), outcome, RULES, hold=hold, fixed=fixed, drawn=drawn)


def retry_in(outcome: Succeeded | FailedKnown | UnknownOutcome, **how: object) -> timedelta | None:
    written = write(outcome, **how)  # type: ignore[arg-type]
    assert isinstance(written, Failed)
    return written.retry_in


@pytest.mark.parametrize("status", [200, 201, 204, 299])
@pytest.mark.parametrize("hold", [True, False])
def test_an_expected_status_is_done(status: int, hold: bool) -> None:
    assert write(answered(status), hold=hold) == Done(claim=CLAIM)


@pytest.mark.parametrize("status", [100, 301, 302, 304, 307, 308, 400, 401, 404, 409, 422, 429, 500, 503, 599])
@pytest.mark.parametrize("hold", [True, False])
def test_every_other_status_but_410_is_tried_again_by_the_schedule(status: int, hold: bool) -> None:
    assert retry_in(answered(status), hold=hold) == SCHEDULE[0]


@pytest.mark.parametrize("fixed", [True, False])
def test_410_gives_the_row_up(fixed: bool) -> None:
    assert retry_in(answered(410), fixed=fixed) is None


def test_the_schedule_is_walked_and_its_end_gives_the_row_up() -> None:
    waits = [retry_in(answered(500), tries=tries) for tries in range(1, 10)]
    assert waits == [*SCHEDULE, None, None]


def test_after_the_schedule_its_last_wait_goes_on_as_long_as_attempts_are_left() -> None:
    rules = replace(RULES, max_attempts=100)
    assert wait_after(replace(CLAIM, tries=99), rules, drawn=MIDDLE) == 10 * HOURS
    assert wait_after(replace(CLAIM, tries=100), rules, drawn=MIDDLE) is None


@pytest.mark.parametrize(("column", "most"), [("most", 3), ("bad", 8), ("null", 8), ("absent", 8)])
def test_the_limit_of_attempts_may_be_the_rows_own(column: str, most: int) -> None:
    rules = replace(RULES, max_attempts=Column(column))
    assert wait_after(replace(CLAIM, tries=most - 1), rules, drawn=MIDDLE) is not None
    assert wait_after(replace(CLAIM, tries=most), rules, drawn=MIDDLE) is None


@given(st.integers(1, 7), st.floats(0, 1, exclude_max=True))
def test_the_jitter_spreads_a_wait_to_both_sides(tries: int, drawn: float) -> None:
    wait = wait_after(replace(CLAIM, tries=tries), RULES, drawn=drawn)
    assert wait is not None
    planned = SCHEDULE[tries - 1]
    assert planned * 0.8 <= wait <= planned * 1.2
    assert (wait < planned) == (drawn < MIDDLE) or wait == planned


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_retry_after_is_heeded_up_to_the_cap(status: int) -> None:
    assert retry_in(answered(status, retry_after="60"), drawn=0.0) == timedelta(seconds=60)
    assert retry_in(answered(status, retry_after="60"), drawn=MIDDLE) == timedelta(seconds=66)
    assert retry_in(answered(status, retry_after="86400")) == HOURS
    assert retry_in(answered(status, retry_after="1"), drawn=MIDDLE) == SCHEDULE[0]
    assert retry_in(answered(status, retry_after="soon")) == SCHEDULE[0]


def test_retry_after_as_a_date_is_read_on_the_receivers_clock() -> None:
    date, later = "Sun, 29 Mar 2026 02:00:00 GMT", "Sun, 29 Mar 2026 02:10:00 GMT"
    assert retry_in(answered(503, retry_after=later, date=date), drawn=0.0) == timedelta(minutes=10)


@pytest.mark.parametrize("status", [301, 404])
def test_retry_after_with_another_status_says_nothing(status: int) -> None:
    assert retry_in(answered(status, retry_after="600")) == SCHEDULE[0]


@given(st.integers(0, 10**9), st.integers(1, 7), st.floats(0, 1, exclude_max=True))
def test_a_receiver_is_never_asked_before_it_says_nor_later_than_the_cap_or_the_plan(
    asked: int, tries: int, drawn: float
) -> None:
    wait = wait_after(replace(CLAIM, tries=tries), RULES, drawn=drawn, asked=timedelta(seconds=asked))
    assert wait is not None
    assert wait >= min(timedelta(seconds=asked), HOURS)
    assert wait <= max(HOURS, SCHEDULE[tries - 1] * 1.2)


def test_the_last_attempt_is_the_last_whatever_the_receiver_asks_for() -> None:
    assert retry_in(answered(503, retry_after="60"), tries=8) is None


def test_an_outcome_that_nobody_knows_is_tried_again_or_held_for_a_person() -> None:
    assert write(UNKNOWN) == Failed(claim=CLAIM, error=UNKNOWN.message, retry_in=SCHEDULE[0])
    assert write(UNKNOWN, hold=True) == Parked(claim=CLAIM, error=UNKNOWN.message)
    assert retry_in(UNKNOWN, tries=8) is None


@pytest.mark.parametrize("hold", [True, False])
def test_what_was_certainly_not_sent_is_tried_again_also_where_unknown_outcomes_are_held(hold: bool) -> None:
    assert retry_in(not_sent(HttpReason.CONNECTION_FAILED), hold=hold) == SCHEDULE[0]


def test_an_address_that_may_not_be_dialled_ends_a_row_that_names_it_and_not_a_queue_that_does() -> None:
    refused = not_sent(HttpReason.ADDRESS_REFUSED, retryable=False)
    assert retry_in(refused, fixed=False) is None
    assert retry_in(refused, fixed=True) == SCHEDULE[0]
    assert retry_in(refused, fixed=True, tries=8) is None


def test_a_request_that_cannot_be_built_ends_its_row_under_a_fixed_address_too() -> None:
    assert retry_in(not_sent(HttpReason.REQUEST_REFUSED, retryable=False), fixed=True) is None


def test_an_error_shows_the_status_and_the_beginning_of_the_answer() -> None:
    written = write(answered(422, "no such gig"))
    assert isinstance(written, Failed)
    assert written.error == "The receiver answered 422: no such gig"


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (answered(200), Bearing.THERE),
        (answered(302), Bearing.THERE),
        (answered(400), Bearing.THERE),
        (answered(500), Bearing.THERE),
        (answered(408), Bearing.AWAY),
        (answered(425), Bearing.AWAY),
        (answered(429), Bearing.AWAY),
        (answered(502), Bearing.AWAY),
        (answered(503), Bearing.AWAY),
        (answered(504), Bearing.AWAY),
        (answered(410), Bearing.GONE),
        (UNKNOWN, Bearing.AWAY),
        (not_sent(HttpReason.CONNECTION_FAILED), Bearing.AWAY),
        (not_sent(HttpReason.NAME_NOT_RESOLVED), Bearing.AWAY),
        (not_sent(HttpReason.TLS_FAILED), Bearing.AWAY),
        (not_sent(HttpReason.NOT_SENT_IN_TIME), Bearing.AWAY),
        (not_sent(HttpReason.REQUEST_REFUSED), Bearing.UNASKED),
        (not_sent(HttpReason.ADDRESS_REFUSED), Bearing.UNASKED),
        (not_sent(HttpReason.SECRET_UNAVAILABLE), Bearing.UNASKED),
        (endpoint_stopped(), Bearing.UNASKED),
    ],
)
def test_what_an_attempt_says_of_the_endpoint(outcome: Succeeded | FailedKnown | UnknownOutcome, said: Bearing) -> None:
    assert bearing(outcome, fixed=False) is said


def test_a_fixed_address_is_never_gone() -> None:
    assert bearing(answered(410), fixed=True) is Bearing.THERE


def test_a_row_of_a_stopped_endpoint_is_given_up_with_its_reason() -> None:
    written = write(endpoint_stopped())
    assert isinstance(written, Failed)
    assert written.retry_in is None
    assert "410" in written.error
