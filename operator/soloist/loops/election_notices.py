"""What stands in the way of leading, said to people: once, and again only when it was over in between, or is another refusal."""

import logging
from collections.abc import Callable

from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.hearing import twin_message
from soloist.domain.standing import Candidate, LossReason, Standing

logger = logging.getLogger(__name__)


class Notices:
    """``say`` is given a reason and a sentence."""

    def __init__(self, me: Candidate, say: Callable[[str, str], None]) -> None:
        self._me, self._say = me, say
        self._said: set[str] = set()
        self._refused = ""

    def unanswered(self, error: TransientError | PermanentError) -> None:
        if isinstance(error, PermanentError):
            if str(error) != self._refused:
                self._said.discard("LeaseRefused")
            self._refused = str(error)
            self._notice("LeaseRefused", str(error))
        else:
            self._notice("LeaseUnreachable", str(error))

    def answered(self, standing: Standing) -> None:
        self._said -= {"LeaseUnreachable", "LeaseRefused"}
        record, skew = standing.record, standing.skew
        if standing.twin and record is not None:
            self._notice(LossReason.TWIN_DETECTED, twin_message(self._me, record))
        if skew is not None:
            self._notice(LossReason.CLOCK_SKEW, f"this clock is {skew.total_seconds():+.1f} s off the API server's.")
        elif standing.term is not None:
            self._said.discard(LossReason.CLOCK_SKEW)

    def _notice(self, reason: str, message: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            logger.warning("election noticed", extra={"reason": reason, "detail": message})
            self._say(reason, message)
