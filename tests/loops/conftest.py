"""The stage that electors are tested on."""

from tests.loops.election_stage import stage

__all__ = ["stage"]
