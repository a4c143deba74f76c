"""What the database says of a claim or a fence, as exceptions of ours, and what a handler may say of its row.

Known by SQLSTATE alone, whichever driver brings it and whatever wraps it. All other errors stay what they are: they are
between the application and its database.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from soloist.domain.errors import SoloistError


class ClaimLost(SoloistError):
    """SO001: another worker has the row, or it was cancelled or finished. Roll back; nothing of this attempt may stay."""


class StaleFence(SoloistError):
    """SO002: a later fence was here already, so whoever asks was replaced. Roll back and stop."""


class GiveUp(Exception):
    """Raised by a handler: no later attempt can do better. The row becomes a dead letter with this text."""


class TryAgain(Exception):
    """Raised by a handler: nothing has happened yet, and the row may be tried again, by the retry rules or in ``after``.

    It counts as an attempt. Any other exception means the same, but for ``hold``: there it parks the row for a person.
    """

    def __init__(self, message: str, *, after: timedelta | None = None) -> None:
        super().__init__(message)
        self.after = after


_KNOWN: dict[str, type[SoloistError]] = {"SO001": ClaimLost, "SO002": StaleFence}


@contextmanager
def typed() -> Iterator[None]:
    """Errors of the block that say a claim or a fence is lost, as what they are."""
    try:
        yield
    except Exception as error:
        said = getattr(error, "orig", None) or error  # SQLAlchemy keeps the driver's under this name
        state = getattr(said, "sqlstate", None) or getattr(said, "pgcode", None)
        known = _KNOWN.get(state or "")
        if known is None:
            raise
        primary = getattr(getattr(said, "diag", None), "message_primary", None)
        raise known(f"{primary or said}.") from error
