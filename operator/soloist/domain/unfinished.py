"""What is written for a claim that its handler gave no outcome for.

What is not known to have been tried goes back as it was. What may have arrived is for a person where the queue holds such
rows (``afterCrash: Hold``), else it is sent again, and the receiver knows it by its key.
"""

from dataclasses import dataclass
from datetime import timedelta

from soloist.domain.claims import Claim, Failed, Parked, PutBack
from soloist.domain.delivery_outcome import wait_after
from soloist.domain.queue_spec import AfterCrash, QueueSpec

OVER_LIMIT = 1.0
"""Seconds for which a row whose key has enough is left alone by this worker, and by the others."""


def over_limit(claim: Claim, drawn: float) -> PutBack:
    """Its key has enough rows here. ``drawn`` in [0, 1) spreads them, so that they do not come back all together."""
    return PutBack(claim=claim, retry_in=timedelta(seconds=OVER_LIMIT * (0.5 + drawn)))


def untried(claim: Claim) -> PutBack:
    """It has not begun, and shall not here."""
    return PutBack(claim=claim)


def stopped(spec: QueueSpec, claim: Claim) -> Parked | PutBack:
    """The worker went away, and its grace was over before the handler was."""
    if spec.after_crash is AfterCrash.HOLD:
        error = "The worker was stopped in the middle of the attempt: nobody knows whether it arrived."
        return Parked(claim=claim, error=error)
    return PutBack(claim=claim)


def faulty(spec: QueueSpec, claim: Claim, error: BaseException, drawn: float) -> Parked | Failed:
    """The delivery broke on a fault of its own, at a moment that nobody knows. It uses an attempt, or it would never end."""
    text = f"The delivery broke: {type(error).__name__}: {error}"
    if spec.after_crash is AfterCrash.HOLD:
        return Parked(claim=claim, error=text)
    return Failed(claim=claim, error=text, retry_in=wait_after(claim, spec.retry, drawn=drawn))


@dataclass(frozen=True, slots=True, kw_only=True)
class TooOften(Failed):
    """Too many claims in a row ended without an outcome; the present one was made to say so."""


def ended_too_often(claim: Claim, *, hold: bool, max_reclaims: int) -> Parked | TooOften | None:
    """Why a row that was found is not handed out again, for what became of its earlier claims; None where it is."""
    if claim.reclaims and hold:
        error = "Its claim ended without an outcome, and the queue holds such rows for a person."
        return Parked(claim=claim, error=error)
    if claim.reclaims > max_reclaims:
        error = f"{claim.reclaims} claims in a row ended without an outcome."
        return TooOften(claim=claim, error=error, retry_in=None)
    return None
