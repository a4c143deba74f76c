"""What a failed transaction of a run means, and what a run shows as its reason.

All of these are known: a transaction whose commit was not asked for cannot have been committed. What PostgreSQL says of
the statement itself is the same the next time and is not tried again; whatever may pass is.
"""

from enum import StrEnum

import psycopg

from soloist.adapters.postgres.failures import A_PERSON, first_line, translated
from soloist.domain.actions import FailedKnown


class SqlReason(StrEnum):
    """Why an attempt of a ``sql`` or ``enqueue`` action did not succeed."""

    DATABASE_UNAVAILABLE = "DatabaseUnavailable"
    DATABASE_REFUSED = "DatabaseRefused"
    STATEMENT_FAILED = "StatementFailed"
    STATEMENT_TIMED_OUT = "StatementTimedOut"
    CONNECTION_LOST = "ConnectionLost"
    NOT_COMMITTED = "NotCommitted"
    NOT_FOUND = "DatabaseNotFound"


VALUES = "22"
QUERY_CANCELED, LOCK_TIMEOUT = "57014", "55P03"
IDLE = "25P03"


def not_found(problem: Exception) -> FailedKnown:
    """The Secret, the WorkQueue, or what they hold; a person may mend that before the next attempt."""
    return FailedKnown(reason=SqlReason.NOT_FOUND, message=str(problem), retryable=True)


def not_begun(problem: Exception) -> FailedKnown:
    """Our own part of the transaction was refused, or nobody answered."""
    return FailedKnown(reason=SqlReason.DATABASE_UNAVAILABLE, message=str(problem), retryable=True)


def refused(error: psycopg.Error, where: str) -> FailedKnown:
    """Before the statement: the record of the run could not be made."""
    if error.sqlstate == LOCK_TIMEOUT:
        message = f"{where}: another transaction is at this very run, and did not end in time."
        return FailedKnown(reason=SqlReason.DATABASE_UNAVAILABLE, message=message, retryable=True)
    reason = SqlReason.DATABASE_REFUSED if error.sqlstate else SqlReason.DATABASE_UNAVAILABLE
    return FailedKnown(reason=reason, message=str(translated(error, where)), retryable=True)


def failed(error: psycopg.Error, where: str, seconds: float) -> FailedKnown:
    """In the statement, or in what was put off to its end (constraints, triggers)."""
    code, said = error.sqlstate, first_line(error)
    if code == QUERY_CANCELED and "statement timeout" in said:
        message = f"{where}: the statement took longer than timeoutSeconds ({seconds:g} s) and was rolled back."
        return FailedKnown(reason=SqlReason.STATEMENT_TIMED_OUT, message=message, retryable=True)
    if code == IDLE:
        message = f"{where} ended the transaction, since the controller did not go on with it in time."
        return FailedKnown(reason=SqlReason.CONNECTION_LOST, message=message, retryable=True)
    if code is None:
        if isinstance(error, psycopg.NotSupportedError):
            return FailedKnown(reason=SqlReason.STATEMENT_FAILED, message=f"{said}.", retryable=False)
        message = f"{where}: the connection was lost before the commit, so nothing was done: {said}."
        return FailedKnown(reason=SqlReason.CONNECTION_LOST, message=message, retryable=True)
    message = f"PostgreSQL refused the statement (SQLSTATE {code}): {said}."
    hopeless = code[:2] in A_PERSON or code[:2] == VALUES
    return FailedKnown(reason=SqlReason.STATEMENT_FAILED, message=message, retryable=not hopeless)


def not_committed(where: str) -> FailedKnown:
    message = f"{where}: the connection was lost during the commit, and the ledger says that nothing was committed."
    return FailedKnown(reason=SqlReason.NOT_COMMITTED, message=message, retryable=True)
