"""JobRuns as they are written: the body of a claimed run, and the status patch for each step."""

from datetime import datetime, timedelta
from typing import Any

from soloist.domain.actions import Action, FailedKnown, HttpAction, JobAction, Order, Succeeded, asking
from soloist.domain.instants import stamp
from soloist.domain.names import label_value, run_key, run_name
from soloist.domain.runs import Entry, Job, Memory, Phase, Run
from soloist.domain.steps import WriteAttempt, WriteRun
from soloist.domain.view import View, a_job_tells, the_ledger_tells

Raw = dict[str, Any]


def run_of(job: Job, name: str, **spec: Any) -> Raw:
    """A JobRun that its ScheduledJob owns. It carries whose it is, not what it does."""
    labels = {"soloist.dev/scheduled-job-uid": job.uid}
    label = label_value(job.name)
    if label is not None:
        labels["soloist.dev/scheduled-job"] = label
    owner = {
        "apiVersion": "soloist.dev/v1alpha1",
        "kind": "ScheduledJob",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        "apiVersion": "soloist.dev/v1alpha1",
        "kind": "JobRun",
        "metadata": {"name": name, "namespace": job.namespace, "labels": labels, "ownerReferences": [owner]},
        "spec": {"scheduledJobName": job.name, "scheduledJobUID": job.uid, **spec},
    }


def claimed(view: View, tick: datetime, lease_uid: str) -> Raw:
    """A run of the schedule, Pending."""
    namespace, lease_name = view.lease.split("/", 1)
    lease = {"namespace": namespace, "name": lease_name, "uid": lease_uid, "epoch": view.epoch}
    name = run_name(view.job.name, view.job.uid, tick)
    return run_of(view.job, name, trigger="Schedule", scheduledTime=stamp(tick), lease=lease)


def order(view: View, run: Run, attempt: int) -> Order:
    """What one attempt needs to know. The action is the ScheduledJob's, as it stands now."""
    job = view.job
    tick = run.tick
    key = run_key(run_uid=run.uid, job_uid=job.uid, scheduled=tick if run.scheduled else None)
    return Order(
        namespace=job.namespace,
        job_name=job.name,
        job_uid=job.uid,
        generation=job.generation,
        run_name=run.name,
        run_uid=run.uid,
        scheduled_time=tick,
        attempt=attempt,
        key=key,
        fence=view.epoch,
        timeout=view.spec.timeout,
        action=view.spec.action,
    )


def order_for(view: View, entry: Entry) -> Order:
    """To find, or to stop, what a recorded run has started, its object or not; by the kind of action that it was then."""
    return Order(
        namespace=view.job.namespace,
        job_name=view.job.name,
        job_uid=view.job.uid,
        generation=view.job.generation,
        run_name=entry.run,
        run_uid=entry.uid,
        scheduled_time=entry.tick,
        attempt=max(1, view.remembered(entry.uid).launched),
        key=run_key(run_uid=entry.uid, job_uid=view.job.uid, scheduled=entry.tick),
        fence=view.epoch,
        timeout=view.spec.timeout,
        action=_action_then(entry),
        prepared=entry.prepared,
    )


def _action_then(entry: Entry) -> Action:
    if the_ledger_tells(entry):
        return asking(entry.ledger)
    return JobAction(template={}) if a_job_tells(entry) else HttpAction(url="")


def attempt_ahead(view: View, step: WriteAttempt) -> Raw:
    return {
        "phase": str(Phase.RUNNING),
        "attempt": step.attempt,
        "epoch": view.epoch,
        "timeoutSeconds": int(view.spec.timeout.total_seconds()),
        "takenBy": view.epoch,
        "nextAttemptTime": None,
    }


def taken_over(view: View) -> Raw:
    return {"takenBy": view.epoch, "takenTime": stamp(view.now)}


def skipped_message(view: View, step: WriteRun) -> str:
    """Why it was not launched and what to do, for whoever looks at the run itself."""
    sentences = {
        "Blocked": f"Another run of {view.job.name} was going on, or may have been, and concurrencyPolicy is {view.spec.concurrency}."
        f" See kubectl soloist runs {view.job.name}; start it again when that is over.",
        "FleetPaused": "The whole installation is paused; to go on: kubectl soloist resume --all.",
        "Suspended": "spec.suspend became true before it could be launched.",
        "Paused": f"The job was paused before it could be launched; to go on: kubectl soloist resume {view.job.name}.",
        "Invalid": f"The spec cannot be run; kubectl describe sj {view.job.name} says what to write instead.",
        "ScheduleChanged": "The schedule or the action was changed before it could be launched.",
        "DeadlineExceeded": "It could not be launched within startingDeadlineSeconds of its time.",
    }
    return sentences.get(step.reason, "") if step.phase is Phase.SKIPPED else ""


def run_status(view: View, step: WriteRun, known: Memory) -> Raw:
    """Where the run stands, its reason, and what there is of an answer. ``startTime`` is the send of the last attempt."""
    message = step.message or skipped_message(view, step)
    status: Raw = {"phase": str(step.phase), "reason": step.reason, "message": message[:1024]}
    if step.attempt:
        status |= {"attempt": step.attempt, "epoch": view.epoch, "scheduledJobGeneration": view.job.generation}
        if known.launched:
            status["startTime"] = stamp(view.now - timedelta(seconds=view.boot - known.sent_boot))
    status["nextAttemptTime"] = stamp(step.next_attempt) if step.next_attempt is not None else None
    if step.phase.final:
        status["completionTime"] = stamp(view.now)
    response = known.outcome.response if isinstance(known.outcome, Succeeded | FailedKnown) else None
    if response is not None:
        status["response"] = {"statusCode": response.status_code, "excerpt": response.excerpt[:1024]}
        if response.status_code is None:
            del status["response"]["statusCode"]
    return status
