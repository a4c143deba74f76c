"""Whose a document is: what was meant to be ours is told what to write, and what is somebody else's is passed over."""

from __future__ import annotations

from typing import Any

import pytest

from soloist.domain.manifest_kinds import is_used, mistake

VERSION = "soloist.dev/v1alpha1"
QUEUES = frozenset({"WorkQueue", "Secret", "ConfigMap"})
ALL = QUEUES | {"ScheduledJob"}


def of(kind: Any, version: str | None = VERSION, **more: Any) -> dict[str, Any]:
    named = {} if version is None else {"apiVersion": version}
    return {**named, "kind": kind, "metadata": {"name": "a"}, **more}


@pytest.mark.parametrize("version", [VERSION, None, "v1", "batch/v1", "soloits.dev/v1alpha1"])
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("ScheduledJbo", "ScheduledJob"),
        ("scheduledjob", "ScheduledJob"),
        ("ScheduledJobs", "ScheduledJob"),
        ("Scheduled-Job", "ScheduledJob"),
        ("ScheduleJob", "ScheduledJob"),
        ("SchedueldJobs", "ScheduledJob"),
        ("Workqueue", "WorkQueue"),
        ("WorkQueues", "WorkQueue"),
        ("WrokQueue", "WorkQueue"),
        ("WorkerQueue", "WorkQueue"),
        ("MorkQueun", "WorkQueue"),
    ],
)
def test_a_kind_that_is_near_ours_is_a_mistake_whatever_its_group(wrong: str, right: str, version: str | None) -> None:
    said = mistake(of(wrong, version), ALL)
    assert said is not None
    assert said.startswith(f"kind '{wrong}' is not known here: write {right}")
    foreign = version in ("batch/v1", "soloits.dev/v1alpha1")
    assert ("or keep it in another folder, if it is not Soloist's" in said) == foreign
    assert not is_used(of(wrong, version), ALL)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (of("Job"), "kind 'Job' is not known here: write ScheduledJob or WorkQueue."),
        (of("Job", "Soloist.dev/v2"), "kind 'Job' is not known here: write ScheduledJob or WorkQueue."),
        (of("ScheduledJobList", items=[]), "kind 'ScheduledJobList' is not known here: write kind: List and apiVersion: v1."),
        (of("jobrun"), "kind 'jobrun' is not known here: write JobRun."),
        (of("Secret"), "a Secret is not of 'soloist.dev/v1alpha1': write apiVersion: v1."),
        (of("secret", "v1"), "kind 'secret' is not known here: write Secret."),
        (of("Secrets", None), "kind 'Secrets' is not known here: write Secret."),
        (of("Configmap", "v1"), "kind 'Configmap' is not known here: write ConfigMap."),
        (of("Lsit", "v1", items=[]), "kind 'Lsit' is not known here: write List."),
        (of("ScheduledJob", "soloist.dev/v1"), "apiVersion 'soloist.dev/v1' is not known here: write soloist.dev/v1alpha1."),
        (of("WorkQueue", None), "a WorkQueue has no apiVersion: write apiVersion: soloist.dev/v1alpha1."),
        *(
            (of("WorkQueue", version), f"apiVersion '{version}' is not known here: write {VERSION}, or keep it in another folder, if it is not Soloist's.")
            for version in ("v1", "v1alpha1", "soloist.dev", "solist.dev/v1alpha1", "example.com/v1")
        ),
        ({"apiVersion": VERSION, "metadata": {"name": "a"}}, "there is no kind: write kind: ScheduledJob or WorkQueue."),
        ({"knd": "ScheduledJob", "spec": {}}, "there is no kind: write kind: ScheduledJob or WorkQueue."),
        ({"kind": None, "spec": None}, "there is no kind: write kind: ScheduledJob or WorkQueue."),
        ({"kind": ["ScheduledJob"], "spec": {}}, "there is no kind: write kind: ScheduledJob or WorkQueue."),
        ({"kind": "", "spec": {}}, "there is no kind: write kind: ScheduledJob or WorkQueue."),
    ],
)  # fmt: skip
def test_what_was_meant_to_be_ours_is_told_what_to_write(document: dict[str, Any], says: str) -> None:
    assert mistake(document, ALL) == says


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("CronJob", "batch/v1"),
        ("Job", "batch/v1"),
        ("Service", "v1"),
        ("Namespace", "v1"),
        ("Deployment", "apps/v1"),
        ("StatefulSet", "apps/v1"),
        ("Lease", "coordination.k8s.io/v1"),
        ("Kustomization", "kustomize.config.k8s.io/v1beta1"),
        ("ScaledJob", "keda.sh/v1alpha1"),
        ("ScheduledBackup", "postgresql.cnpg.io/v1"),
        ("ScheduledSparkApplication", "sparkoperator.k8s.io/v1beta2"),
        ("Queue", "scheduling.volcano.sh/v1beta1"),
        ("LocalQueue", "kueue.x-k8s.io/v1beta1"),
        ("ClusterQueue", "kueue.x-k8s.io/v1beta1"),
        ("Workload", "kueue.x-k8s.io/v1beta1"),
        ("Workflow", "argoproj.io/v1alpha1"),
        ("SealedSecret", "bitnami.com/v1alpha1"),
        ("ExternalSecret", "external-secrets.io/v1"),
        ("Secret", "example.com/v1"),
        ("secrets", "example.com/v1"),
        ("Lisp", "example.com/v1"),
        ("JobRun", VERSION),
        ("JobRun", "example.com/v1"),
        ("x" * 10_000_000, "example.com/v1"),
        (["a"], None),
        (None, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_document_of_another_kind_is_passed_over(kind: Any, version: str | None) -> None:
    spec = {"spec": {}} if isinstance(kind, str) else {}
    assert mistake(of(kind, version, **spec), ALL) is None
    assert not is_used(of(kind, version, **spec), ALL)


@pytest.mark.parametrize(
    ("kind", "version"),
    [("ScheduledJob", VERSION), ("WorkQueue", VERSION), ("Secret", "v1"), ("Secret", None), ("ConfigMap", "v1")],
)
def test_a_document_of_ours_is_used(kind: str, version: str | None) -> None:
    assert mistake(of(kind, version), ALL) is None
    assert is_used(of(kind, version), ALL)


def test_who_reads_queues_alone_passes_over_jobs_and_says_what_is_wrong_with_the_rest() -> None:
    for version in (VERSION, None, "soloist.dev/v2"):
        assert mistake(of("ScheduledJob", version), QUEUES) is None
        assert not is_used(of("ScheduledJob", version), QUEUES)
    assert mistake(of("ScheduledJbo", "batch/v1"), QUEUES) is None
    assert mistake(of("ScheduledJbo"), QUEUES) == "kind 'ScheduledJbo' is not known here: write ScheduledJob."
    assert mistake(of("WorkQueu", None), QUEUES) == "kind 'WorkQueu' is not known here: write WorkQueue."
