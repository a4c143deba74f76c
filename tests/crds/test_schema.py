"""The CRDs as files: described throughout, held by a golden list, and of one mind with ``parse_spec``."""

import copy
from typing import Any

import pytest

from soloist.domain.merge_patch import merged
from soloist.domain.runs import Phase, Trigger
from soloist.domain.spec import Invalid, Spec, parse_spec
from tests.crds.bad_rows import BASE
from tests.crds.schema import GOLDEN, KINDS, described_fields, root, version, walk

JOB = {"template": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a"}]}}}}}
FULL: dict[str, Any] = {
    **BASE["ScheduledJob"],
    "startingDeadlineSeconds": 60,
    "timeoutSeconds": 60,
    "retry": {"maxAttempts": 3},
    "http": {"url": "https://backend.default.svc/path", "tls": {}},
}
SPEC = root("ScheduledJob")["properties"]["spec"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described(kind: str) -> None:
    # Root metadata is the server's: it refuses a description there.
    silent = [path for path, schema, _ in walk(root(kind), kind) if not schema.get("description")]
    assert silent == [f"{kind}.metadata"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_is_described(kind: str) -> None:
    assert all(column["description"] for column in version(kind)["additionalPrinterColumns"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_has_a_message_of_its_own_that_is_a_sentence(kind: str) -> None:
    rules = [rule for _, schema, _ in walk(root(kind), kind) for rule in schema.get("x-kubernetes-validations", ())]
    messages = [rule["message"] for rule in rules]
    assert len(set(messages)) == len(messages)
    for message in messages:
        assert message.startswith(("spec", "metadata.name"))
        assert message.endswith(".")


def test_the_crds_are_as_the_golden_list_says() -> None:
    assert described_fields() == GOLDEN.read_text(encoding="utf-8"), "python -m tests.crds.schema writes it anew"


def test_the_defaults_of_the_schema_are_those_of_the_program() -> None:
    assert parse_spec(defaulted(SPEC, FULL)) == parse_spec(FULL)
    assert isinstance(parse_spec(FULL), Spec)


def test_the_bounds_of_the_schema_are_those_of_the_program() -> None:
    bounded = [
        (path.removeprefix("spec.").split("."), schema)
        for path, schema, _ in walk(SPEC, "spec")
        if schema.get("type") in ("integer", "number") and "minimum" in schema
    ]
    assert len(bounded) >= 11
    for path, schema in bounded:
        least, most = schema["minimum"], schema["maximum"]
        assert [at(path, value) for value in (least, most)] == ["taken", "taken"], path
        assert [at(path, value) for value in (least - 1, most + 1)] == ["refused", "refused"], path


def test_the_choices_of_the_schema_are_those_of_the_program() -> None:
    chosen = [(path.split(".")[1:], schema["enum"]) for path, schema, _ in walk(SPEC, "spec") if "enum" in schema]
    assert len(chosen) == 6
    for path, choices in chosen:
        if "job" in path:
            continue
        for choice in choices:
            assert at(path, choice) == "taken", (path, choice)
        assert at(path, "Sometimes") == "refused", path


def test_a_run_has_the_phases_and_triggers_of_the_program() -> None:
    run = root("JobRun")["properties"]
    assert run["status"]["properties"]["phase"]["enum"] == [str(phase) for phase in Phase]
    assert run["spec"]["properties"]["trigger"]["enum"] == [str(trigger) for trigger in Trigger]


def test_the_time_out_of_a_job_is_a_day_and_of_a_request_half_a_minute() -> None:
    """PostHog #47045."""
    plain = parse_spec(BASE["ScheduledJob"])
    job = parse_spec({"schedule": "@daily", "job": JOB})
    assert isinstance(plain, Spec)
    assert isinstance(job, Spec)
    assert (plain.timeout.total_seconds(), job.timeout.total_seconds()) == (30, 86400)


def at(path: list[str], value: object) -> str:
    """Whether the program takes ``value`` in the field at ``path``, all else being good."""
    patch: Any = value
    for name in reversed(path):
        patch = {name: patch}
    others: dict[str, Any] = {}
    if path[-1].endswith("DelaySeconds"):
        others = {"retry": {"initialDelaySeconds": 1, "maxDelaySeconds": 604800}}
    elif path[0] == "enqueue":
        others = {"http": None, "enqueue": {"workQueue": "emails"}}
    return "refused" if isinstance(parse_spec(merged(merged(FULL, others), patch)), Invalid) else "taken"


def defaulted(schema: dict[str, Any], value: Any) -> Any:
    """``value`` as the API server stores it."""
    if not isinstance(value, dict):
        return value
    result = copy.deepcopy(value)
    for name, child in schema.get("properties", {}).items():
        if name not in result and "default" in child:
            result[name] = child["default"]
        if name in result:
            result[name] = defaulted(child, result[name])
    return result
