"""Controllers for the tests of this folder."""

from tests.api.account import account
from tests.api.crew import crew
from tests.api.desk import cleared, desk
from tests.api.tending import crews

__all__ = ["account", "cleared", "crew", "crews", "desk"]
