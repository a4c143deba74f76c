"""How long a worker may act on a claim: from the send of the last good renewal, and never as long as the database waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.claim_lease import ClaimLease

seconds = st.floats(0.5, 86400)
moments = st.floats(0, 1e6)


def test_a_lease_of_a_minute_is_renewed_each_quarter_and_given_up_five_seconds_early() -> None:
    lease = ClaimLease(seconds=60.0)
    assert (lease.renew_after, lease.margin, lease.deadline(100.0)) == (15.0, 5.0, 155.0)


def test_a_short_lease_has_a_margin_that_leaves_it_of_use() -> None:
    assert ClaimLease(seconds=1.2).margin == 1.2 / 6


@given(seconds=seconds, sent=moments)
def test_whoever_acts_stops_before_the_database_lets_another_in(seconds: float, sent: float) -> None:
    lease = ClaimLease(seconds=seconds)
    assert not lease.over(sent, sent)
    assert lease.over(sent, lease.deadline(sent))
    assert lease.deadline(sent) < sent + seconds


@given(seconds=seconds)
def test_three_renewals_may_fail_before_a_claim_is_given_up(seconds: float) -> None:
    lease = ClaimLease(seconds=seconds)
    assert 3 * lease.renew_after < lease.deadline(0.0)
    assert lease.rides_along < lease.renew_after


@given(seconds=seconds)
def test_a_hung_loop_is_found_out_before_its_claims_would_be_renewed_for_another_lease(seconds: float) -> None:
    lease = ClaimLease(seconds=seconds)
    assert lease.call_limit < lease.longest_silence < lease.deadline(0.0), (
        "a claim that the database is slow to answer is given up first, and that is no hang"
    )
