"""How dear a worker's Pod is to lose, in the words of Kubernetes: when a Deployment shrinks, the Pods of the lowest cost go first.

A Pod that says nothing costs 0, so one that has nothing in hand is the first to go, as it should be. Only the order of the
costs counts, and each change of one is a write to the API server: a cost goes up by one each time that what is in hand
doubles, and is written again only some time after the last one.
"""

ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
APART = 15.0
"""Seconds that pass between two writes at the least: a change waits, and only what is true by then is written."""


def cost_of(in_hand: int) -> int:
    """0 for no claim, 1 for one, 2 for two or three, 3 for four to seven, and so on."""
    return in_hand.bit_length()


def is_to_be_written(cost: int, *, written: int | None, since: float) -> bool:
    """``written``: what the Pod says, None where nobody knows. ``since``: seconds from the last write, done or refused."""
    return cost != written and since >= APART
