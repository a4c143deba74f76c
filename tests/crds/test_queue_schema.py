"""The schema of WorkQueue is of one mind with ``parse_queue``: the same defaults, bounds, choices and names."""

from typing import Any

import pytest

from soloist.domain.merge_patch import merged
from soloist.domain.queue_http import Scheme
from soloist.domain.queue_mapping import ClaimIn
from soloist.domain.queue_parsing import Invalid, parse_queue
from soloist.domain.queue_spec import AfterCrash, Encoding, KeyPer, OutcomeBy
from soloist.domain.spec_http import METHODS
from tests.cluster.fixtures import Namespace
from tests.crds.bad_rows import BASE
from tests.crds.schema import root, walk
from tests.crds.test_schema import defaulted
from tests.domain.test_queue_parsing import FULL, GOOD

SPEC = root("WorkQueue")["properties"]["spec"]
CHOICES = {
    "spec.table.claim": ClaimIn,
    "spec.table.outcome": OutcomeBy,
    "spec.afterCrash": AfterCrash,
    "spec.deliver.http.method": METHODS,
    "spec.deliver.http.signature": Scheme,
    "spec.deliver.http.hmacSha256.encoding": Encoding,
    "spec.idempotencyKey": KeyPer,
}
BESIDE: dict[str, Any] = {
    "spec.leaseSeconds": {"deliver": {"http": {"timeoutSeconds": 1}}},
    "spec.deliver.http.timeoutSeconds": {"leaseSeconds": 86400},
    "spec.poll.minMilliseconds": {"poll": {"maxMilliseconds": 60000}},
    "spec.poll.maxMilliseconds": {"poll": {"minMilliseconds": 1}},
    "spec.retry.maxAttempts": {"table": None, "concurrency": None, "onDead": None}
    | {"deliver": {"http": {"url": "http://a", "lookup": None, "bodyColumn": None, "headers": None}}},
    "spec.deliver.http.urlColumn": {"deliver": {"http": {"lookup": None}}},
    "spec.deliver.http.lookup.secret": {"deliver": {"http": {"secretRef": None}}},
}
"""What has to be as well, for one field to be judged alone."""
WITHOUT_TLS: dict[str, Any] = merged(FULL, {"deliver": {"http": {"tls": None}}})


@pytest.mark.parametrize("raw", GOOD)
def test_the_defaults_of_the_schema_are_those_of_the_program(raw: dict[str, Any]) -> None:
    assert parse_queue(defaulted(SPEC, raw)) == parse_queue(raw)


def test_the_bounds_of_the_schema_are_those_of_the_program() -> None:
    bounded = [(path, schema) for path, schema, _ in walk(SPEC, "spec") if "minimum" in schema]
    assert len(bounded) == 10
    for path, schema in bounded:
        least, most = schema["minimum"], schema["maximum"]
        assert [at(path, value) for value in (least, most)] == ["taken", "taken"], path
        assert [at(path, value) for value in (least - 1, most + 1)] == ["refused", "refused"], path


def test_the_choices_of_the_schema_are_those_of_the_program() -> None:
    chosen = {path: schema["enum"] for path, schema, _ in walk(SPEC, "spec") if "enum" in schema}
    assert chosen == {path: [str(choice) for choice in choices] for path, choices in CHOICES.items()}


def test_a_column_has_as_many_letters_for_the_program_as_for_the_schema() -> None:
    columns = [
        path
        for path, schema, _ in walk(SPEC, "spec")
        if str(schema.get("pattern", "")).startswith('^[^"') and not path.endswith("[]")
    ]
    assert len(columns) == 18
    for path in columns:
        assert [at(path, value) for value in ("a" * 63, "a" * 64, 'a"')] == ["taken", "refused", "refused"], path


@pytest.mark.cluster
@pytest.mark.parametrize("raw", GOOD)
def test_the_server_takes_what_the_program_takes(raw: dict[str, Any], namespace: Namespace) -> None:
    queue = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "good"}, "spec": raw}
    stored = namespace.api.create(namespace.ours("workqueues") + "?fieldValidation=Strict", queue)
    assert parse_queue(stored["spec"]) == parse_queue(raw)


@pytest.mark.cluster
def test_a_queue_may_be_changed_altogether(namespace: Namespace) -> None:
    """A mapping is seldom right at once; claims belong to the table, so nothing is lost by another one."""
    queue = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "q"}}
    namespace.api.create(namespace.ours("workqueues"), {**queue, "spec": BASE["WorkQueue"]})
    other = {"database": {"secretName": "other"}, "table": {"name": "public.other", "id": ["a", "b"]}}
    changed = namespace.api.patch(namespace.ours("workqueues", "q"), {"spec": other})
    assert (changed["spec"]["table"]["id"], changed["metadata"]["generation"]) == (["a", "b"], 2)


@pytest.mark.cluster
def test_kubectl_shows_queues_in_columns(namespace: Namespace) -> None:
    queue = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "hooks"}}
    namespace.api.create(namespace.ours("workqueues"), {**queue, "spec": {**BASE["WorkQueue"], "suspend": True}})
    now = "2026-11-29T02:00:00Z"
    valid = {"type": "Valid", "status": "True", "reason": "Accepted", "message": "…", "lastTransitionTime": now}
    status = {
        "observedGeneration": 1,
        "conditions": [{**valid, "observedGeneration": 1}],
        "ready": 12,
        "scheduled": 345,
        "inFlight": 6,
        "dead": 7,
        "oldestDueSeconds": 89,
        "measuredTime": now,
    }
    path = namespace.ours("workqueues", "hooks/status?fieldValidation=Strict")
    assert namespace.api.patch(path, {"status": status})["status"] == status
    head, row = namespace.kubectl("get", "wq", "--field-selector", "spec.suspend=true").splitlines()
    assert head.split() == ["NAME", "TABLE", "SUSPEND", "VALID", "READY", "IN-FLIGHT", "DEAD", "LAG", "AGE"]
    assert row.split()[:-1] == ["hooks", 'public."WebhookDelivery"', "true", "True", "12", "6", "7", "89"]
    assert "workqueue.soloist.dev/hooks" in namespace.kubectl("get", "soloist", "-o", "name")


def at(path: str, value: object) -> str:
    """Whether the program takes ``value`` in the field at ``path``, all else being good."""
    patch: Any = value
    for name in reversed(path.split(".")[1:]):
        patch = {name: patch}
    raw = merged(merged(WITHOUT_TLS, BESIDE.get(path, {})), patch)
    return "refused" if isinstance(parse_queue(raw), Invalid) else "taken"
