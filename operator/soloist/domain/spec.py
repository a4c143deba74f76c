"""A ScheduledJob's spec as one typed value, or the one sentence that says why it cannot be used.

``parse_spec`` applies every default itself and checks every bound itself, so that it means the same with an API server,
with an older schema, and without Kubernetes. Whatever it is given, it returns: a bad spec is an expected outcome, ends
in the condition ``Valid=False``, and stops no other job. Beyond what the schema states it refuses what only a program
can see: cron fields, zones, times that never come, variables of templates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from soloist.domain.actions import Action, JobAction
from soloist.domain.retry import OnUnknown, RetryPolicy
from soloist.domain.schedule import DaylightSaving, InvalidSchedule, Schedule, parse_schedule
from soloist.domain.spec_exec import parse_exec
from soloist.domain.spec_fields import Fields, Invalid, Refusal, fields, forbidden, required, wrong
from soloist.domain.spec_http import parse_http
from soloist.domain.spec_sql import parse_enqueue, parse_sql

__all__ = ["ConcurrencyPolicy", "Invalid", "MissedRunPolicy", "Spec", "parse_spec"]

_WEEK = 7 * 86400
_ACTIONS = ("http", "job", "sql", "enqueue", "exec")


class ConcurrencyPolicy(StrEnum):
    """What becomes of a tick that is due while an earlier run is not over."""

    FORBID = "Forbid"
    QUEUE = "Queue"
    REPLACE = "Replace"
    ALLOW = "Allow"


class MissedRunPolicy(StrEnum):
    """Which of the ticks run that nobody could launch in time."""

    SKIP = "Skip"
    RUN_LATEST = "RunLatest"
    RUN_ALL = "RunAll"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What is to be done and when; every field has its meaning, none is optional but ``starting_deadline`` (no limit)."""

    schedule: Schedule
    schedule_text: str
    time_zone: str
    daylight_saving: DaylightSaving
    suspend: bool
    concurrency: ConcurrencyPolicy
    starting_deadline: timedelta | None
    missed: MissedRunPolicy
    max_missed_runs: int
    jitter: timedelta
    timeout: timedelta
    retry: RetryPolicy
    pause_after_failures: int
    successful_history: int
    failed_history: int
    action: Action


def parse_spec(raw: Mapping[str, Any]) -> Spec | Invalid:
    """Read ``ScheduledJob.spec`` as the API server gives it; defaults may be absent. Never raises."""
    try:
        return _spec(fields(raw, "spec"))
    except Refusal as refusal:
        return refusal.invalid
    except InvalidSchedule as problem:
        return Invalid(field=f"spec.{problem.field}", reason=problem.reason, message=f"spec.{problem.message}")


def _spec(spec: Fields) -> Spec:
    text = spec.text("schedule", 'five cron fields such as "0 2 * * *", or "@every 30s"', longest=256)
    zone = spec.text("timeZone", "an IANA zone such as Europe/Berlin", longest=64, default="UTC")
    daylight_saving = spec.choice("daylightSaving", DaylightSaving.SHIFT)
    action = _action(spec)
    return Spec(
        schedule=parse_schedule(text, zone, daylight_saving),
        schedule_text=text,
        time_zone=zone,
        daylight_saving=daylight_saving,
        suspend=spec.flag("suspend"),
        concurrency=spec.choice("concurrencyPolicy", ConcurrencyPolicy.FORBID),
        starting_deadline=_starting_deadline(spec),
        missed=spec.choice("missedRunPolicy", MissedRunPolicy.RUN_LATEST),
        max_missed_runs=spec.whole("maxMissedRuns", 5, least=1, most=100),
        jitter=timedelta(seconds=spec.whole("jitterSeconds", 0, least=0, most=86400)),
        timeout=_timeout(spec, action),
        retry=_retry(spec, action),
        pause_after_failures=spec.whole("pauseAfterFailures", 0, least=0, most=1000),
        successful_history=spec.whole("successfulRunsHistoryLimit", 3, least=0, most=100),
        failed_history=spec.whole("failedRunsHistoryLimit", 3, least=0, most=100),
        action=action,
    )


def _starting_deadline(spec: Fields) -> timedelta | None:
    if not spec.has("startingDeadlineSeconds"):
        return None
    return timedelta(seconds=spec.whole("startingDeadlineSeconds", 1, least=1, most=3650 * 86400))


def _timeout(spec: Fields, action: Action) -> timedelta:
    default = 86400 if isinstance(action, JobAction) else 30
    return timedelta(seconds=spec.whole("timeoutSeconds", default, least=1, most=_WEEK))


def _retry(spec: Fields, action: Action) -> RetryPolicy:
    if not spec.has("retry"):
        return RetryPolicy()
    if isinstance(action, JobAction):
        raise forbidden(
            "spec.retry",
            "spec.retry is not for a job action: remove it and write spec.job.template.spec.backoffLimit instead.",
        )
    retry = spec.nested("retry", "maxAttempts under it")
    if not retry.has("maxAttempts"):
        raise required(retry.at("maxAttempts"), "how many attempts a run has in all")
    policy = RetryPolicy(
        max_attempts=retry.whole("maxAttempts", 1, least=1, most=100),
        initial_delay=timedelta(seconds=retry.whole("initialDelaySeconds", 10, least=1, most=86400)),
        factor=retry.number("factor", 2.0, least=1, most=10),
        max_delay=timedelta(seconds=retry.whole("maxDelaySeconds", 600, least=1, most=_WEEK)),
        on_unknown=retry.choice("onUnknown", OnUnknown.NEVER),
    )
    if policy.initial_delay > policy.max_delay:
        raise wrong(
            retry.at("initialDelaySeconds"),
            "spec.retry.initialDelaySeconds must not exceed spec.retry.maxDelaySeconds: lower the one or raise the other.",
        )
    if policy.on_unknown is OnUnknown.RETRY and policy.max_attempts < 2:
        raise wrong(
            retry.at("onUnknown"),
            "spec.retry.onUnknown: Retry needs a second attempt: write 2 or more in spec.retry.maxAttempts.",
        )
    return policy


def _action(spec: Fields) -> Action:
    named = [name for name in _ACTIONS if spec.has(name)]
    if len(named) != 1:
        raise wrong("spec", "spec: write exactly one of http, job, sql and enqueue.")
    action = spec.nested(named[0], "the action under it")
    match named[0]:
        case "http":
            return parse_http(action)
        case "job":
            return _job(action)
        case "sql":
            return parse_sql(action)
        case "exec":
            return parse_exec(action)
        case _:
            return parse_enqueue(action)


def _job(job: Fields) -> JobAction:
    template = job.nested("template", "a batch/v1 JobTemplateSpec")
    spec = template.nested("spec", "a batch/v1 JobSpec")
    if spec.has("ttlSecondsAfterFinished"):
        raise forbidden(
            spec.at("ttlSecondsAfterFinished"),
            "spec.job.template.spec.ttlSecondsAfterFinished would delete a Job before its outcome is recorded: remove it; "
            "spec.successfulRunsHistoryLimit and spec.failedRunsHistoryLimit delete finished Jobs with their runs.",
        )
    if spec.has("suspend"):
        raise forbidden(
            spec.at("suspend"),
            "spec.job.template.spec.suspend is Soloist's own switch: remove it; spec.suspend holds the whole job back.",
        )
    pod = spec.nested("template", "a core/v1 PodTemplateSpec").nested("spec", "a core/v1 PodSpec")
    if pod.text("restartPolicy", "Never or OnFailure", longest=32) not in ("Never", "OnFailure"):
        raise wrong(pod.at("restartPolicy"), f"{pod.at('restartPolicy')} must be Never or OnFailure in a Job.")
    if not pod.items("containers", most=1000):
        raise wrong(pod.at("containers"), f"{pod.at('containers')} is required: write at least one container.")
    return JobAction(template=template.raw)
