"""The errors that cross our own boundaries; what is expected is a return value, not one of these.

::

    SoloistError
    ├── TransientError    the world did not answer, or not now: try again. ``sent`` says whether it may have acted.
    ├── PermanentError    trying again changes nothing: a right is missing, a thing is refused. The message says the remedy.
    └── ConfigError       a setting is wrong or contradicts another: the process does not start.

Adapters translate at the edge, with the cause attached.
"""


class SoloistError(Exception):
    """Root of everything that this package raises on purpose."""


class TransientError(SoloistError):
    """The other side did not answer as it should; a later try may succeed.

    ``sent`` is False only where it is certain that nothing reached the other side. A write that failed with
    ``sent=True`` may have happened: read before writing again. ``retry_after`` is what the other side asked for, seconds.
    """

    def __init__(self, message: str, *, sent: bool = True, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.retry_after = retry_after


class PermanentError(SoloistError):
    """Refused, and a later try would be refused too, until a person changes something."""


class ConfigError(SoloistError):
    """A setting that cannot be used; the message names it, its value and what to write."""


def sentence_of(error: BaseException) -> str:
    """For a page that anybody may read. What is not raised on purpose may have anything in it, so it is only named."""
    return str(error) if isinstance(error, SoloistError) else f"{type(error).__name__}: the log says more."
