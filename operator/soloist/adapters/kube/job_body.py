"""The batch/v1 Job of a run: how it is made, whose it is, whether it was started, and what became of it.

Why it is right: the Job is created suspended, so its creation starts nothing; it carries the epoch that may start it, and the
request to start it asks for that epoch, so that whoever takes it for a later one has ended the right of all before; of a
suspended Job's Pod template the API lets annotations be changed, so the fence, known at the start only, is an annotation that
the containers read as an environment variable; and that annotation, written by the very request that starts the Job, stays as
the mark that it was started, also when a person suspends it afterwards. The variables come first, so that the template's own
may refer to them.
"""

import copy
import math
from typing import Any

from soloist.domain.actions import FailedKnown, JobAction, Order, Outcome, Succeeded
from soloist.domain.instants import stamp
from soloist.domain.names import label_value
from soloist.ports import Raw

FENCE = "soloist.dev/fence"
EPOCH = "soloist.dev/epoch"
GENERATION = "soloist.dev/generation"
SCHEDULED_TIME = "soloist.dev/scheduled-time"
JOB_UID_LABEL = "soloist.dev/scheduled-job-uid"
JOB_LABEL = "soloist.dev/scheduled-job"
RUN_LABEL = "soloist.dev/run"
_OWNER_GROUP = "soloist.dev/"
_VARIABLES = frozenset({"SOLOIST_RUN", "SOLOIST_KEY", "SOLOIST_FENCE", "SOLOIST_SCHEDULED_TIME"})


def build_job(order: Order, action: JobAction) -> Raw:
    """The Job to create: the template, suspended, owned by the run, bounded in time, told which run it is."""
    metadata = _part(action.template, "metadata")
    spec = _part(action.template, "spec")
    pod = spec.setdefault("template", {})
    pod_metadata = pod.setdefault("metadata", {})
    labels = _labels(order)
    pod_metadata["labels"] = {**(pod_metadata.get("labels") or {}), **labels}
    # A fence out of the template would say that the Job was started.
    pod_metadata["annotations"] = {k: v for k, v in (pod_metadata.get("annotations") or {}).items() if k != FENCE}
    for containers in ("initContainers", "containers"):
        for container in pod.get("spec", {}).get(containers) or ():
            own = [entry for entry in container.get("env") or () if entry.get("name") not in _VARIABLES]
            container["env"] = _environment(order) + own
    spec["suspend"] = True
    spec.setdefault("activeDeadlineSeconds", max(1, math.ceil(order.timeout.total_seconds())))
    spec.pop("ttlSecondsAfterFinished", None)  # what became of the run could be gone before it is read
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": order.run_name,
            "namespace": order.namespace,
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {}), **_annotations(order)},
            "ownerReferences": [
                {
                    "apiVersion": "soloist.dev/v1alpha1",
                    "kind": "JobRun",
                    "name": order.run_name,
                    "uid": order.run_uid,
                    "controller": True,
                }
            ],
        },
        "spec": spec,
    }


def start_patch(order: Order, job: Raw) -> list[Raw]:
    """The JSON patch that starts that very Job and marks it as started, unless a later term has taken it since it was read.

    It also lets the Job's field ownership go, as the API has it (a list of one empty entry). To keep that is a quarter of what
    a start costs the server, and nobody applies a Job of ours field by field; whoever does begins it anew.
    """
    metadata, held = job["metadata"], epoch_of(job)
    fence, known = str(order.fence), bool(job["spec"]["template"]["metadata"].get("annotations"))
    marks = "/spec/template/metadata/annotations"
    return [
        {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
        *([{"op": "test", "path": _EPOCH_PATH, "value": str(held)}] if held else []),
        {"op": "add", "path": _EPOCH_PATH, "value": fence},
        {"op": "add", "path": f"{marks}/{_escaped(FENCE)}", "value": fence}
        if known
        else {"op": "add", "path": marks, "value": {FENCE: fence}},
        {"op": "add", "path": "/spec/suspend", "value": False},
        {"op": "add", "path": "/metadata/managedFields", "value": [{}]},
    ]


def take_patch(order: Order, job: Raw) -> Raw:
    """The merge patch that takes that Job for the order's term, as it was read: not started."""
    seen = {name: job["metadata"][name] for name in ("uid", "resourceVersion")}
    return {"metadata": {**seen, "annotations": {EPOCH: str(order.fence)}}}


def epoch_of(job: Raw) -> int:
    """The term that may start it; 0 for one that an earlier version of Soloist made."""
    said = str((job["metadata"].get("annotations") or {}).get(EPOCH, ""))
    return int(said) if said.isdecimal() else 0


def is_ours(job: Raw, order: Order) -> bool:
    """Is it this very run's?"""
    return any(owner.get("uid") == order.run_uid and owner.get("controller") for owner in _owners(job))


def is_left_over(job: Raw, order: Order) -> bool:
    """Is it of an earlier run of the same name, which is gone: on its way out?"""
    return any(
        owner.get("kind") == "JobRun"
        and str(owner.get("apiVersion", "")).startswith(_OWNER_GROUP)
        and owner.get("name") == order.run_name
        for owner in _owners(job)
    )


def is_of_generation(job: Raw, order: Order) -> bool:
    """Was it made from the ScheduledJob as the order has it?"""
    annotations = job["metadata"].get("annotations") or {}
    return bool(annotations.get(GENERATION) == str(order.generation))


def was_started(job: Raw) -> bool:
    """Has anybody started it, ever?"""
    spec = job.get("spec", {})
    annotations = spec.get("template", {}).get("metadata", {}).get("annotations") or {}
    return FENCE in annotations or not spec.get("suspend", False)


def is_going(job: Raw) -> bool:
    """Is it being deleted?"""
    return "deletionTimestamp" in job["metadata"]


def outcome_of(job: Raw) -> Outcome | None:
    """What became of it by its own conditions; None while it goes on.

    Complete and Failed come after the last Pod has ended; SuccessCriteriaMet and FailureTarget before, so they end nothing.
    """
    name = job["metadata"]["name"]
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("status") != "True":
            continue
        said = condition.get("message") or ""
        if condition.get("type") == "Complete":
            return Succeeded(message=said or f"Job {name} is complete.")
        if condition.get("type") == "Failed":
            reason = condition.get("reason") or "JobFailed"
            return FailedKnown(reason=reason, message=said or f"Job {name} failed: {reason}.", retryable=False)
    return None


def _escaped(name: str) -> str:
    """As a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


_EPOCH_PATH = f"/metadata/annotations/{_escaped(EPOCH)}"


def _owners(job: Raw) -> list[dict[str, Any]]:
    return job["metadata"].get("ownerReferences") or []


def _part(template: Any, name: str) -> dict[str, Any]:
    return copy.deepcopy(dict(template.get(name) or {}))


def _labels(order: Order) -> dict[str, str]:
    name = label_value(order.job_name)
    return {JOB_UID_LABEL: order.job_uid, RUN_LABEL: order.run_name} | ({JOB_LABEL: name} if name else {})


def _annotations(order: Order) -> dict[str, str]:
    when = {} if order.scheduled_time is None else {SCHEDULED_TIME: stamp(order.scheduled_time)}
    return {GENERATION: str(order.generation), EPOCH: str(order.fence)} | when


def _environment(order: Order) -> list[dict[str, Any]]:
    fence = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{FENCE}']"}}
    variables: list[dict[str, Any]] = [
        {"name": "SOLOIST_RUN", "value": order.run_name},
        {"name": "SOLOIST_KEY", "value": order.key},
        {"name": "SOLOIST_FENCE", "valueFrom": fence},
    ]
    if order.scheduled_time is not None:
        variables.append({"name": "SOLOIST_SCHEDULED_TIME", "value": stamp(order.scheduled_time)})
    return variables
