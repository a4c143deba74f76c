"""What becomes of a row after an attempt, by the queue's retry rules and what the receiver asked for.

Any status that is not expected is a failure and is tried again, redirects among them: a receiver that is being mended
answers anything. The exception is 410, by which a receiver says that nothing is to come again: the row is given up, and
where the address is data its endpoint is stopped (``breaker``); a fixed address is the queue's own and goes on.

Given up at once is what no later attempt could change and is the row's own fault: an address that may not be dialled, an
endpoint that is switched off, a request that cannot be built. A fixed address that may not be dialled is the manifest's
fault, so its rows are tried for as long as all others.

An outcome that nobody knows is parked where the queue says Hold, else it counts as a failure.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum

from soloist.domain.actions import FailedKnown, Outcome, Response, Succeeded, UnknownOutcome
from soloist.domain.claims import Claim, Done, Failed, Parked
from soloist.domain.http_reply import NOT_NOW, retry_after
from soloist.domain.http_request import HttpReason
from soloist.domain.queue_spec import RetryRules

GONE = 410
_NOT_THERE = frozenset({502, 503, 504})


class Bearing(StrEnum):
    """What an attempt says of the endpoint itself, whatever it says of the row."""

    THERE = "There"  # it answered for itself, be it with a 500, which is a fault of one row as often as of all
    AWAY = "Away"  # it could not be reached, did not answer in time, or says that it cannot now
    GONE = "Gone"  # it asks for nothing more, ever
    UNASKED = "Unasked"  # nothing was asked of it


def accepted(status: int, expected: tuple[tuple[int, int], ...]) -> bool:
    """Whether the status is one that the queue takes for success; of such an answer nothing more is read or kept."""
    return any(low <= status <= high for low, high in expected)


def judge(response: Response, headers: Mapping[str, str], expected: tuple[tuple[int, int], ...]) -> Outcome:
    """The outcome of an attempt that was answered; ``headers`` by lower-case names."""
    status = response.status_code or 0
    if accepted(status, expected):
        return Succeeded(response=response)
    message = f"The receiver answered {status}."
    if response.excerpt:
        message = f"The receiver answered {status}: {response.excerpt}"
    may_ask = status in NOT_NOW or 500 <= status <= 599
    return FailedKnown(
        reason=HttpReason.UNEXPECTED_STATUS,
        message=message,
        retryable=status != GONE,
        response=response,
        retry_after=retry_after(headers.get("retry-after"), date=headers.get("date")) if may_ask else None,
    )


def bearing(outcome: Outcome, *, fixed: bool) -> Bearing:
    """What ``outcome`` says of the endpoint; of a ``fixed`` address it is never that it is gone."""
    if isinstance(outcome, UnknownOutcome):
        return Bearing.AWAY
    if outcome.response is None:
        return Bearing.AWAY if isinstance(outcome, FailedKnown) and outcome.reason in _NOT_REACHED else Bearing.UNASKED
    if isinstance(outcome, Succeeded):
        return Bearing.THERE
    status = outcome.response.status_code
    if status == GONE:
        return Bearing.THERE if fixed else Bearing.GONE
    return Bearing.AWAY if status in NOT_NOW or status in _NOT_THERE else Bearing.THERE


def endpoint_stopped() -> FailedKnown:
    """The outcome of a row that is not sent because its endpoint asked for nothing more."""
    message = "Nothing was sent: the endpoint answered 410 (gone) to an earlier row. Once it takes rows again, retry this one."
    return FailedKnown(reason=HttpReason.UNEXPECTED_STATUS, message=message, retryable=False)


def settled(
    claim: Claim, outcome: Outcome, rules: RetryRules, *, hold: bool, fixed: bool, drawn: float
) -> Done | Failed | Parked:
    """What is to be written. ``fixed``: the address is the manifest's; ``drawn`` in [0, 1) is what the jitter is made of."""
    match outcome:
        case Succeeded():
            return Done(claim=claim)
        case UnknownOutcome() if hold:
            return Parked(claim=claim, error=outcome.message)
        case UnknownOutcome():
            return Failed(claim=claim, error=outcome.message, retry_in=wait_after(claim, rules, drawn=drawn))
    if fixed and outcome.reason == HttpReason.ADDRESS_REFUSED:
        outcome = replace(outcome, retryable=True)
    wait = wait_after(claim, rules, drawn=drawn, asked=outcome.retry_after) if outcome.retryable else None
    return Failed(claim=claim, error=outcome.message, retry_in=wait)


def wait_after(claim: Claim, rules: RetryRules, *, drawn: float, asked: timedelta | None = None) -> timedelta | None:
    """How long until the try after this failed one; None: it was the last. ``asked`` is the receiver's Retry-After."""
    if claim.tries >= most_attempts(claim, rules):
        return None
    planned = rules.schedule[min(max(claim.tries, 1), len(rules.schedule)) - 1]
    wait = planned * (1 + rules.jitter * (2 * drawn - 1))
    if asked is None:
        return wait
    # Those that were told the same time do not come back together, and none of them before it.
    return max(wait, min(asked * (1 + rules.jitter * drawn), rules.retry_after_cap))


def most_attempts(claim: Claim, rules: RetryRules) -> int:
    """The limit of tries."""
    if isinstance(rules.max_attempts, int):
        return rules.max_attempts
    try:
        return int(claim.columns.get(rules.max_attempts.name) or "")
    except ValueError:
        return usual_attempts(rules)


def usual_attempts(rules: RetryRules) -> int:
    """The same where no column says otherwise. One that holds no number means as many as the schedule has waits, and one more."""
    return rules.max_attempts if isinstance(rules.max_attempts, int) else len(rules.schedule) + 1


_NOT_REACHED = frozenset(
    {
        HttpReason.NAME_NOT_RESOLVED,
        HttpReason.CONNECTION_FAILED,
        HttpReason.TLS_FAILED,
        HttpReason.NOT_SENT_IN_TIME,
    }
)
