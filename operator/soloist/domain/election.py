"""Placeholder until the decisions are in: names what others import."""

from soloist.domain.term import Term, Timing

__all__ = ["Term", "Timing"]
