"""Every example is taken by the real API server and by the program, and the kinds read well in kubectl."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.spec import Spec, parse_spec
from tests.cluster.fixtures import Namespace
from tests.crds.bad_rows import BASE
from tests.docs.shown_tables import heads, of_the_readme

MANIFESTS = Path(__file__).parents[2] / "manifests"
FOLDER = MANIFESTS / "examples"
KUSTOMIZED = sorted(path.parent for path in FOLDER.rglob("kustomization.yaml"))
EXAMPLES = sorted(
    path
    for path in FOLDER.rglob("*.yaml")
    # Kubernetes knows no Kustomization; the other two are what readers of the pages put there.
    if path.name not in ("kustomization.yaml", "install.yaml") and "node_modules" not in path.parts
)
ON_ONE_NETWORK = {"backend-jobs"}
"""Of manifests/examples/queues: a service of Docker Compose, whose page has another address put in elsewhere."""
EVERY = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.relative_to(FOLDER).as_posix())


def documents(example: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(example.read_text(encoding="utf-8")) if document]


def hosts(value: Any) -> Iterator[str]:
    """Of all URLs in it."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from hosts(each)
    elif isinstance(value, str) and re.match(r"(https?|postgresql)://", value):
        yield urlsplit(value).hostname or ""


def test_the_examples_of_the_folders_are_among_them() -> None:
    assert {path.parent.name for path in EXAMPLES} >= {"examples", "invoices", "payroll", "queues", "jobs", "sweeps"}
    assert [path.name for path in KUSTOMIZED] == ["payroll"]


@EVERY
def test_an_example_begins_with_what_to_expect(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert "\n# Expect " in text


@EVERY
def test_an_address_that_soloist_asks_is_found_from_its_own_namespace(example: Path) -> None:
    asked = [doc for doc in documents(example) if doc["kind"] in ("ScheduledJob", "WorkQueue", "Secret")]
    assert [
        host for host in hosts(asked) if not re.search(r"\.[a-z-]+\.svc$", host) and host not in ON_ONE_NETWORK
    ] == []


@EVERY
def test_the_program_takes_an_example(example: Path) -> None:
    for document in documents(example):
        if document["kind"] == "ScheduledJob":
            spec = parse_spec(document["spec"])
            assert isinstance(spec, Spec), spec
        if document["kind"] == "WorkQueue":
            queue = parse_queue(document["spec"])
            assert isinstance(queue, QueueSpec), queue


@pytest.mark.cluster
@EVERY
def test_the_server_takes_an_example(example: Path, namespace: Namespace) -> None:
    """One that names its namespace has the test's own in its place."""
    generated = any("generateName" in document["metadata"] for document in documents(example))
    text = example.read_text(encoding="utf-8").replace("\n  namespace: payroll\n", f"\n  namespace: {namespace.name}\n")
    said = namespace.kubectl("create" if generated else "apply", "--validate=strict", "-f", "-", stdin=text)
    assert len(said.splitlines()) == len(documents(example))


@pytest.mark.cluster
@pytest.mark.parametrize("folder", KUSTOMIZED, ids=lambda path: path.name)
def test_the_server_takes_what_kustomize_makes_of_a_folder(folder: Path, namespace: Namespace, tmp_path: Path) -> None:
    """With install.yaml beside it, as the folder says. Its namespaces are the test's own: a dry run makes none."""
    shutil.copytree(folder, tmp_path / "made", ignore=shutil.ignore_patterns("backend", "install.yaml"))
    shutil.copy(MANIFESTS / "install.yaml", tmp_path / "made")
    made = namespace.kubectl("kustomize", tmp_path / "made")
    found = [each for each in yaml.safe_load_all(made) if each["kind"] not in ("Namespace", "CustomResourceDefinition")]
    assert {"Deployment", "Role", "ClusterRole"} <= {each["kind"] for each in found}
    for each in found:
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = namespace.name
    text = yaml.safe_dump_all(found)
    said = namespace.kubectl("apply", "--dry-run=server", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-", stdin=text)  # fmt: skip
    assert len(said.splitlines()) == len(found)


@pytest.mark.cluster
def test_what_the_server_stores_is_what_the_program_reads(namespace: Namespace) -> None:
    """Two examples may have a job of one name."""
    jobs = [doc for example in EXAMPLES for doc in documents(example) if doc["kind"] == "ScheduledJob"]
    for job in jobs:
        stored = namespace.api.create(f"{namespace.ours('scheduledjobs')}?dryRun=All", job)
        assert parse_spec(stored["spec"]) == parse_spec(job["spec"])


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("sj.spec", "CronJob's Forbid runs the newest blocked one later"),
        ("sj.spec.http", "{scheduledTime} (RFC 3339 in UTC; empty for a manual run)"),
        ("sj.spec.http.headers", "The header's name, such as Authorization"),
        ("sj.spec.job.template.spec.template.spec", "Never or OnFailure"),
        ("sj.status", "Every tick up to this time is decided"),
        ("jr.spec", "It cannot be changed"),
        ("jr.status", "Superseded: its tick was decided already"),
        ("wq.spec", "Apply a queue suspended, switch the poller of your application off everywhere"),
        ("wq.spec.table", "or a list of its columns"),
        ("wq.spec.table.maxAttempts", "the column of the row that holds the number"),
        ("wq.spec.deliver.http.lookup", "Where it is not true, the delivery is given up"),
        ("wq.status", "For how many seconds the oldest ready row has been due"),
    ],
)
def test_kubectl_explains(path: str, words: str, namespace: Namespace) -> None:
    assert words in " ".join(namespace.kubectl("explain", path).split())


@pytest.mark.cluster
def test_kubectl_shows_jobs_and_runs_in_columns(namespace: Namespace) -> None:
    """k8s #78564, #141428, kubernetes/enhancements #6281."""
    job = {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "metadata": {"name": "shown"}}
    namespace.api.create(namespace.ours("scheduledjobs"), {**job, "spec": {**BASE["ScheduledJob"], "suspend": True}})
    status = {"nextScheduleTime": "2027-01-01T02:00:00Z", "lastResult": "Succeeded", "activeCount": 2}
    namespace.api.patch(namespace.ours("scheduledjobs", "shown/status"), {"status": status})
    head, row = namespace.kubectl("get", "sj", "--field-selector", "spec.suspend=true").splitlines()
    assert head.split() == ["NAME", "SCHEDULE", "ZONE", "SUSPEND", "LAST", "RESULT", "NEXT", "ACTIVE", "AGE"]
    assert row.split()[:9] == ["shown", "0", "2", "*", "*", "*", "UTC", "true", "Succeeded"]
    assert row.split()[9:11] == ["2027-01-01T02:00:00Z", "2"]

    run = {"apiVersion": "soloist.dev/v1alpha1", "kind": "JobRun", "metadata": {"name": "shown-1"}}
    namespace.api.create(namespace.ours("jobruns"), {**run, "spec": {"scheduledJobName": "shown"}})
    namespace.api.patch(namespace.ours("jobruns", "shown-1/status"), {"status": {"phase": "Running", "attempt": 1}})
    selector = "status.phase=Running,spec.scheduledJobName=shown"
    head, row = namespace.kubectl("get", "jr", "--field-selector", selector).splitlines()
    assert head.split() == ["NAME", "JOB", "SCHEDULED", "PHASE", "ATTEMPT", "REASON", "AGE"]
    assert row.split()[:4] == ["shown-1", "shown", "Running", "1"]
    assert "jobrun.soloist.dev/shown-1" in namespace.kubectl("get", "soloist", "-o", "name")


@pytest.mark.cluster
def test_kubectl_shows_the_columns_that_the_readme_shows(namespace: Namespace) -> None:
    for kind, resource in (("ScheduledJob", "scheduledjobs"), ("JobRun", "jobruns"), ("WorkQueue", "workqueues")):
        body = {"apiVersion": "soloist.dev/v1alpha1", "kind": kind, "metadata": {"name": "shown"}, "spec": BASE[kind]}
        namespace.api.create(namespace.ours(resource), body)
    shown = heads(namespace.kubectl("get", "sj,jr,wq"))
    assert len(shown) == 3
    assert shown == of_the_readme()


@pytest.mark.cluster
def test_a_status_with_every_field_is_taken_and_kept(namespace: Namespace) -> None:
    now = "2026-11-29T02:00:00Z"
    status = {
        "observedGeneration": 1,
        "conditions": [
            {"type": "Valid", "status": "True", "reason": "Valid", "message": "", "lastTransitionTime": now},
        ],
        "observedSchedule": {
            "schedule": "@daily",
            "timeZone": "UTC",
            "daylightSaving": "Shift",
            "suspend": False,
            "since": "2026-11-29T01:00:00.123456Z",
        },
        "watermark": now,
        "active": [
            {"run": "r", "uid": "u", "scheduledTime": now, "epoch": 1_800_000_000_000_000}
            | {"lease": "soloist/soloist", "launchTime": now, "timeoutSeconds": 30, "action": "http"},
            {"run": "s", "uid": "v", "epoch": 1, "lease": "soloist/soloist"},
        ],
        "activeCount": 2,
        "lastScheduleTime": now,
        "lastSuccessfulTime": now,
        "lastFailureTime": now,
        "lastResult": "Succeeded",
        "nextScheduleTime": now,
        "consecutiveFailures": 0,
        "counters": {"launched": 1, "succeeded": 1, "failed": 0, "unknown": 0, "skipped": 0},
        "paused": {"since": now, "reason": "TooManyFailures", "message": "…"},
        "recent": [{"result": "Succeeded", "first": now, "last": now, "count": 1, "message": "…"}],
    }
    job = {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "metadata": {"name": "full"}}
    namespace.api.create(namespace.ours("scheduledjobs"), {**job, "spec": BASE["ScheduledJob"]})
    stored = namespace.api.patch(
        namespace.ours("scheduledjobs", "full/status?fieldValidation=Strict"), {"status": status}
    )
    assert stored["status"] == status
