"""Controllers for the tests of this folder."""

from tests.api.crew import crew

__all__ = ["crew"]
