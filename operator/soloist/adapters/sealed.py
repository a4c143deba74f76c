"""A value that is not to be seen: read for the one place that sends it."""

from collections.abc import Awaitable, Callable

from soloist.domain.actions import KeyRef


class Sealed:
    """A value that no log, traceback or f-string shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> str:
        raise TypeError("A sealed value is not copied out of its process.")


ReadKey = Callable[[str, KeyRef], Awaitable[Sealed]]
"""Reads one key of a Secret or ConfigMap in a namespace; raises ``SoloistError`` with a sentence."""
