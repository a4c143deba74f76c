"""What a worker in an application's process says: the ``QueueReport`` port as lines of the logger ``soloist.queue``.

A line for what a person may have to look at, never for a row that went well. A handler that ended its claim itself, in the
transaction of its effect, leaves nothing to write afterwards: that its claim is then gone is no news.
"""

import logging
from typing import Any

from soloist.domain.claims import Claim, Done, Failed, Parked, Settled, Verdict
from soloist.domain.errors import SoloistError
from soloist.domain.queue_name import QueueName

_log = logging.getLogger("soloist.queue")


class LogReport:
    """``queue`` is how it is called in soloist.work_items."""

    def __init__(self, queue: str) -> None:
        self._queue = queue

    def claimed(self, queue: QueueName, claims: int, reclaimed: int) -> None:
        if reclaimed:
            _log.info("rows claimed again after a claim that ended without an outcome", extra=self._of(rows=reclaimed))

    def delivered(self, queue: QueueName, outcome: Settled, seconds: float) -> None:
        if isinstance(outcome, Failed | Parked):
            _log.info("attempt failed: %s", outcome.error, extra=self._row(outcome.claim))

    def settled(self, queue: QueueName, outcome: Settled, verdict: Verdict, *, unanswered: bool) -> None:
        if verdict is Verdict.ACCEPTED:
            if isinstance(outcome, Parked) or (isinstance(outcome, Failed) and outcome.retry_in is None):
                _log.warning("row given up: %s", outcome.error, extra=self._row(outcome.claim))
        elif isinstance(outcome, Done) and verdict is Verdict.LOST:
            _log.info("nothing left to write: the handler ended its claim, or lost it", extra=self._row(outcome.claim))
        elif not unanswered:
            _log.warning("outcome not accepted: %s", verdict.value, extra=self._row(outcome.claim))

    def lost(self, queue: QueueName, claim: Claim, sentence: str) -> None:
        _log.warning("claim lost: %s", sentence, extra=self._row(claim))

    def failed(self, queue: QueueName, where: str, error: BaseException) -> None:
        fault = None if isinstance(error, SoloistError) else error
        _log.warning("survived at %s: %s", where, error, extra=self._of(), exc_info=fault)

    def started(self, queue: QueueName) -> None:
        _log.info("queue is worked", extra=self._of())

    def stopped(self, queue: QueueName) -> None:
        _log.info("queue is worked no more", extra=self._of())

    def _of(self, **more: Any) -> dict[str, Any]:
        return {"queue": self._queue, **more}

    def _row(self, claim: Claim) -> dict[str, Any]:
        return self._of(row=claim.row[0], fence=claim.fence, attempt=claim.attempt)
