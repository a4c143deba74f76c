"""What each phase of a run and each reason of a tick means to a person, and what to do about it.

One row for each member; a test holds the tables complete. ``{job}`` and its kind are filled in by ``why``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from soloist.domain.runs import Phase
from soloist.domain.ticks import Reason


class Verdict(StrEnum):
    """The short answer to "did it run at that time?"."""

    RAN = "Ran"
    FAILED = "Failed"
    UNDER_WAY = "UnderWay"
    DID_NOT_RUN = "DidNotRun"
    STOPPED = "Stopped"
    NOT_KNOWN = "NotKnown"
    AHEAD = "Ahead"
    UNDECIDED = "Undecided"
    NOT_A_TICK = "NotATick"
    NOT_RECORDED = "NotRecorded"

    @property
    def sentence(self) -> str:
        return _SHORT[self]


_SHORT = {
    Verdict.RAN: "it ran",
    Verdict.FAILED: "it ran, and did not succeed",
    Verdict.UNDER_WAY: "its run is not over",
    Verdict.DID_NOT_RUN: "it did not run",
    Verdict.STOPPED: "it was stopped",
    Verdict.NOT_KNOWN: "it was launched, and nobody knows what became of it",
    Verdict.AHEAD: "still ahead",
    Verdict.UNDECIDED: "past, and not decided yet",
    Verdict.NOT_A_TICK: "not a time of its schedule",
    Verdict.NOT_RECORDED: "no longer recorded",
}


@dataclass(frozen=True, slots=True)
class Words:
    """``what`` happened, and what to ``do`` (empty: nothing)."""

    verdict: Verdict
    what: str
    do: str = ""


_TRIGGER = "To run it now: kubectl soloist trigger {job}."
_STILL_WANTED = "If it is still wanted: kubectl soloist trigger {job}."

PHASES: Mapping[Phase, Words] = {
    Phase.PENDING: Words(Verdict.UNDER_WAY, "Its run {run} is made and not launched yet."),
    Phase.RUNNING: Words(Verdict.UNDER_WAY, "Its run {run} is under way."),
    Phase.RETRYING: Words(
        Verdict.UNDER_WAY, "An attempt of its run {run} did not succeed, and another one is to come."
    ),
    Phase.SUCCEEDED: Words(Verdict.RAN, "Its run {run} succeeded."),
    Phase.FAILED: Words(
        Verdict.FAILED, "Its run {run} failed: it is certain that it did not succeed.", f"Mend the cause. {_TRIGGER}"
    ),
    Phase.UNKNOWN: Words(
        Verdict.NOT_KNOWN,
        "Its run {run} ended Unknown: something was sent or started, and no answer came back. Until spec.timeoutSeconds"
        " ({timeout}) have passed it counts as running.",
        "Ask the receiver whether it did the work of key {key}. If it did not: kubectl soloist trigger {job}. If it takes"
        " a key once only, spec.retry.onUnknown: Retry has another attempt made with the same key.",
    ),
    Phase.INTERRUPTED: Words(
        Verdict.NOT_KNOWN,
        "Its run {run} ended Interrupted: its last attempt (spec.retry.maxAttempts is {attempts}) was cut off, and nobody"
        " knows whether it did its work.",
        "Ask the receiver whether it did the work of key {key}. If it did not: kubectl soloist trigger {job}.",
    ),
    Phase.SUPERSEDED: Words(
        Verdict.DID_NOT_RUN,
        "The run {run} was never launched: it arrived after its time had been decided, from a controller that had lost its Lease.",
    ),
    Phase.SKIPPED: Words(
        Verdict.DID_NOT_RUN, "The run {run} was made and then not launched: it was not wanted any more at its time."
    ),
    Phase.CANCELLED: Words(Verdict.STOPPED, "The run {run} was stopped; its action may have begun.", _STILL_WANTED),
}

REASONS: Mapping[Reason, Words] = {
    Reason.SUSPENDED: Words(
        Verdict.DID_NOT_RUN,
        "spec.suspend was true at that time.",
        f"Write suspend: false in the manifest; what passes before that is not made up for. {_TRIGGER}",
    ),
    Reason.PAUSED: Words(
        Verdict.DID_NOT_RUN,
        "The job was paused at that time, by a person or after too many failures in a row.",
        f"To go on: kubectl soloist resume {{job}}. {_TRIGGER}",
    ),
    Reason.FLEET_PAUSED: Words(
        Verdict.DID_NOT_RUN,
        "The whole installation was paused at that time, by the annotation soloist.dev/paused on its Lease.",
        "To go on: kubectl soloist resume --all.",
    ),
    Reason.MISSED: Words(
        Verdict.DID_NOT_RUN,
        "Nobody could launch it in time, and spec.missedRunPolicy: {missed} does not make up for it (RunLatest makes up for"
        " the newest missed time only, Skip for none).",
        f"Look why no controller led then. To make up for every missed time, write missedRunPolicy: RunAll. {_TRIGGER}",
    ),
    Reason.TOO_MANY_MISSED: Words(
        Verdict.DID_NOT_RUN,
        "More times were missed than spec.maxMissedRuns ({most}), and this was not one of the newest.",
        f"Write up to 100 in spec.maxMissedRuns. {_TRIGGER}",
    ),
    Reason.DEADLINE_EXCEEDED: Words(
        Verdict.DID_NOT_RUN,
        "It could not be started within spec.startingDeadlineSeconds ({deadline}) of its time.",
        f"If a late run is better than none, raise startingDeadlineSeconds. {_TRIGGER}",
    ),
    Reason.BLOCKED: Words(
        Verdict.DID_NOT_RUN,
        "Another run was not over at that time, and spec.concurrencyPolicy: Forbid skips what is then due. A run whose"
        " outcome is unknown counts until spec.timeoutSeconds ({timeout}) have passed.",
        "See kubectl soloist runs {job}. If runs take longer than the schedule gives them, make it due less often, or write"
        " concurrencyPolicy: Queue (the newest one waits its turn), Replace or Allow.",
    ),
    Reason.QUEUED_BEHIND_NEWER: Words(
        Verdict.DID_NOT_RUN,
        "It waited for another run to end until a newer time was due: spec.concurrencyPolicy: {concurrency} keeps the newest only.",
        "Runs take longer than the schedule gives them: make it due less often, or write concurrencyPolicy: Allow.",
    ),
    Reason.NAME_TAKEN: Words(
        Verdict.DID_NOT_RUN,
        "An object that is not this schedule's has the name of its run, {run}.",
        f"See who made it (kubectl get jobrun {{run}} -n {{namespace}} -o yaml), and delete it. {_TRIGGER}",
    ),
    Reason.INVALID: Words(
        Verdict.DID_NOT_RUN,
        "The spec could not be run at that time.",
        f"See kubectl describe sj {{name}} -n {{namespace}} for what to write instead. {_TRIGGER}",
    ),
    Reason.SCHEDULE_CHANGED: Words(
        Verdict.DID_NOT_RUN,
        "The schedule was changed before this time was decided, and times of a former schedule are not run.",
        _STILL_WANTED,
    ),
    Reason.SUPERSEDED: Words(
        Verdict.DID_NOT_RUN,
        "Its time had been decided before this run arrived, from a controller that had lost its Lease.",
    ),
    Reason.CANCELLED: Words(
        Verdict.STOPPED,
        "Its JobRun was deleted by a person before it was over.",
        _STILL_WANTED,
    ),
}
