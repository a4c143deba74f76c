"""How what a process remembers of a run changes. It is never more than this; all else is read from the API server."""

from dataclasses import replace
from typing import Any

from soloist.domain.actions import Outcome
from soloist.domain.runs import NOTHING, Memory, Phase
from soloist.domain.steps import Launch

PATIENCE = 2.0
"""Seconds for which an outcome waits to be written while something leads to the next launch of its job."""


def launching(known: Memory, step: Launch, boot: float) -> Memory:
    """Just before the effect: whatever happens now, this attempt counts as launched."""
    if known is NOTHING:
        return Memory(launched=step.attempt, sent_boot=boot, running=True)
    return replace(known, launched=step.attempt, sent_boot=boot, running=True, outcome=None, cancelled=None)


def inspecting(known: Memory) -> Memory:
    return replace(known, inspecting=True)


def uninspected(known: Memory) -> Memory:
    """The world could not be asked: ask again."""
    return replace(known, inspecting=False)


def inspected(known: Memory, outcome: Outcome | None, boot: float) -> Memory:
    """The world has told: an outcome, or that nothing was launched."""
    return replace(known, inspecting=False, outcome=outcome, not_launched=outcome is None, **_seen(boot))


def ended(known: Memory, outcome: Outcome, boot: float) -> Memory:
    """The action is over; one that was cancelled before stays cancelled."""
    if known.cancelled is not None:
        return replace(known, running=False)
    return replace(known, running=False, outcome=outcome, **_seen(boot))


def cancelled(known: Memory, reason: str, boot: float) -> Memory:
    return replace(known, running=False, inspecting=False, outcome=None, cancelled=reason, **_seen(boot))


def _seen(boot: float) -> dict[str, Any]:
    return {"seen_boot": boot, "patience": PATIENCE}


def offered(known: Memory, boot: float) -> Memory:
    """It has its turn now. Should that fail, launches go before it for as long again: what no server takes stops none."""
    waited = boot - known.seen_boot
    return replace(known, patience=2 * waited) if waited >= known.patience else known


def written(known: Memory, phase: Phase) -> Memory:
    """What was seen now stands on the run: it is confirmed, and need not be remembered, but for how it ended."""
    return replace(known, outcome=None, cancelled=None, settled=phase if phase.final else None, in_doubt=False)


def doubted(known: Memory) -> Memory:
    """The reply to a write on the run was lost: it may yet arrive."""
    return replace(known, in_doubt=True)


def certain(known: Memory) -> Memory:
    """A later write has taken: what was in doubt now fails by its precondition."""
    return replace(known, in_doubt=False) if known.in_doubt else known


def prepared(known: Memory, made: str = "") -> Memory:
    """It was tried once; ``made`` is the uid of what stands ready, where the answer came."""
    return replace(known, prepared=True, made=made)
