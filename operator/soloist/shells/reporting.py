"""What the loops did, as logs, metrics and Events. One line a change; Events only for what a person should act on.

Reasons of Events, all warnings but PausedAfterFailures: Invalid, RunFailed, RunUnknown, RunInterrupted, TicksNotRun,
NameTaken, OtherInstallation, CrdsTooOld, RunRefused, Refused, LedgerUnreadable. There is none for a success.
"""

import logging
from collections.abc import Callable
from typing import Any

from soloist.domain.actions import kind_of
from soloist.domain.orphaned import NO_SUCH_JOB
from soloist.domain.runs import Job, Phase, Run
from soloist.domain.spec import Invalid
from soloist.domain.steps import Launch, WriteJob, WriteRun
from soloist.domain.ticks import Reason, fold
from soloist.domain.view import View, launch_at
from soloist.ports import Recorder
from soloist.shells.telemetry import Metrics

_log = logging.getLogger("soloist.controller")
TOO_OLD_SECONDS = 70.0
"""A job that meets CRDs of another version comes back to them each 30 s."""
_WORTH_AN_EVENT = {Phase.FAILED: "RunFailed", Phase.UNKNOWN: "RunUnknown", Phase.INTERRUPTED: "RunInterrupted"}
_NOT_RUN = {
    Reason.MISSED: "missed while nothing led, and missedRunPolicy lets them go",
    Reason.TOO_MANY_MISSED: "missed, and more than maxMissedRuns",
    Reason.DEADLINE_EXCEEDED: "later than startingDeadlineSeconds",
    Reason.BLOCKED: "blocked by runs that were still going on (concurrencyPolicy)",
    Reason.QUEUED_BEHIND_NEWER: "overtaken in the queue by a newer tick (concurrencyPolicy: Queue)",
}


class Reporter:
    """The ``Report`` port."""

    def __init__(self, metrics: Metrics, recorder: Recorder | None, *, boottime: Callable[[], float]) -> None:
        self._metrics, self._recorder, self._boottime = metrics, recorder, boottime
        self._too_old = (float("-inf"), "")

    def wrote(self, kind: str) -> None:
        self._metrics.api_write(kind)

    def launched(self, view: View, step: Launch) -> None:
        skew = (view.now - launch_at(view, step.run)).total_seconds()
        if step.run.scheduled and step.attempt == 1:
            self._metrics.launched(view.job.namespace, kind_of(view.spec.action), skew)
        keys = _keys(view.job) | {"run": step.run.name, "attempt": step.attempt, "skew": round(skew, 4)}
        _log.info("launched", extra=keys)

    def decided(self, view: View, step: WriteJob) -> None:
        self._metrics.due(view.job.namespace, step.ticks)
        for line in fold(step.decided):
            self._metrics.tick_missed(view.job.namespace, str(line.reason), line.count)
            keys = _keys(view.job) | {"reason": str(line.reason), "first": line.first.isoformat(), "count": line.count}
            _log.info("ticks not run", extra=keys)
            if line.reason in _NOT_RUN:
                many = f"{line.count} ticks from {line.first:%Y-%m-%dT%H:%M:%SZ}" if line.count > 1 else "1 tick"
                self._event(view.job, "TicksNotRun", f"{many} not run: {_NOT_RUN[line.reason]}.")

    def settled(self, view: View, step: WriteRun) -> None:
        if step.phase.final:
            self._metrics.run_ended(view.job.namespace, str(step.phase))
        keys = _keys(view.job) | {"run": step.run.name, "phase": str(step.phase), "reason": step.reason}
        _log.info("settled", extra=keys)
        event = _WORTH_AN_EVENT.get(step.phase)
        if event is not None:
            # Not which run it was: what happens again and again is one Event that is counted.
            self._event(view.job, event, f"A run ended {step.phase} ({step.reason}): {step.message}")

    def orphaned(self, run: Run) -> None:
        keys = {"namespace": run.namespace, "job": run.job_name, "run": run.name, "reason": NO_SUCH_JOB}
        _log.warning("settled", extra=keys)

    def invalid(self, job: Job, invalid: Invalid) -> None:
        _log.warning("spec cannot be run", extra=_keys(job) | {"field": invalid.field, "reason": invalid.reason})
        self._event(job, "Invalid", invalid.message)

    def stands_in_the_way(self, job: Job, reason: str, message: str) -> None:
        _log.warning("stands in the way", extra=_keys(job) | {"reason": reason, "sentence": message})
        self._event(job, reason, message)
        if reason == "CrdsTooOld":
            self._too_old = self._boottime(), message

    def crds_will_do(self) -> tuple[bool, str]:
        """For /readyz, so that an update to this version stops at a cluster with the CRDs of another."""
        told, sentence = self._too_old
        too_old = self._boottime() - told < TOO_OLD_SECONDS
        return not too_old, sentence if too_old else "no status was seen to be cut short"

    def failed(self, where: str, error: BaseException) -> None:
        self._metrics.error(where)
        expected = type(error).__module__.startswith("soloist.")
        _log.warning(
            "error survived", extra={"where": where, "error": str(error)}, exc_info=None if expected else error
        )

    def _event(self, job: Job, reason: str, message: str) -> None:
        if self._recorder is not None:
            self._recorder.event(_regarding(job), reason=reason, message=message, warning=True)


def _keys(job: Job) -> dict[str, Any]:
    return {"namespace": job.namespace, "job": job.name}


def _regarding(job: Job) -> dict[str, Any]:
    meta = {"namespace": job.namespace, "name": job.name, "uid": job.uid, "resourceVersion": job.resource_version}
    return {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "metadata": meta}
