"""Fields that nobody reads, and that every field of the examples is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from soloist.domain.queue_parsing import parse_queue
from soloist.domain.spec import parse_spec
from soloist.domain.spec_fields import Invalid
from soloist.domain.unread import unread

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
PARSERS: dict[str, Any] = {"ScheduledJob": parse_spec, "WorkQueue": parse_queue}


def specs(kind: str) -> Iterator[Any]:
    """Of the examples and of what lies in their folders."""
    for file in sorted(EXAMPLES.rglob("*.yaml")):
        for number, each in enumerate(yaml.safe_load_all(file.read_text())):
            # A Job's template is Kubernetes' own, and is not read here.
            if each and each["kind"] == kind and "job" not in each["spec"]:
                yield pytest.param(kind, each["spec"], id=f"{file.relative_to(EXAMPLES)}-{kind}-{number}")


SPECS = {kind: list(specs(kind)) for kind in PARSERS}
HTTP = {"url": "http://backend/", "headers": [{"name": "x", "value": "y"}]}


@pytest.mark.parametrize(("kind", "spec"), [each for of_kind in SPECS.values() for each in of_kind])
def test_every_field_of_the_examples_is_read(kind: str, spec: dict[str, Any]) -> None:
    assert not isinstance(PARSERS[kind](spec), Invalid)
    assert unread(spec, PARSERS[kind]) is None


@pytest.mark.parametrize("folder", ["", "invoices/", "queues/", "sweeps/", "payroll/"])
def test_there_are_examples_in_each_folder(folder: str) -> None:
    found = [each.id for of_kind in SPECS.values() for each in of_kind]
    assert [each for each in found if each.startswith(folder) and each.count("/") >= folder.count("/")] != []
    assert all(SPECS.values())


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"missedRunPolcy": "Skip", "http": HTTP}, "spec.missedRunPolcy is no field that is of use here: write spec.missedRunPolicy."),
        ({"http": {**HTTP, "methd": "GET"}}, "spec.http.methd is no field that is of use here: write spec.http.method."),
        ({"http": {**HTTP, "headers": [{"name": "x", "value": "y", "zzz": 1}]}}, "spec.http.headers[0].zzz is no field that is of use here: remove it."),
        ({"retry": {"maxAttempts": 2, "initialDelay": 1}, "http": HTTP}, "write spec.retry.initialDelaySeconds."),
        ({"enqueue": {"workQueue": "q", "payload": {"any": {"thing": [{"at": "all"}]}}}}, None),
        ({"sql": {"databaseRef": {"secretName": "s", "key": "k"}, "statement": "SELECT :a", "parameters": {"a": 1}}}, None),
    ],
)  # fmt: skip
def test_a_field_that_nobody_reads_is_named_with_the_one_that_is_near(spec: dict[str, Any], says: str | None) -> None:
    found = unread({"schedule": "@hourly", **spec}, parse_spec)
    assert (found is None) == (says is None)
    if found is not None and says is not None:
        assert says in found.message
        assert found.message.startswith(f"{found.field} is no field ")


def test_a_field_of_a_queue_that_nobody_reads_is_named_with_the_one_that_is_near() -> None:
    spec = {"database": {"secretName": "db", "key": "uri"}, "deliver": {"http": {"url": "http://x/"}}}
    found = unread({**spec, "aftercrash": "Hold", "retry": {"maxattempts": 3}}, parse_queue)
    assert found is not None
    assert found.message == "spec.aftercrash is no field that is of use here: write spec.afterCrash."
    found = unread({**spec, "retry": {"maxattempts": 3}}, parse_queue)
    assert found is not None
    assert (found.field, found.reason) == ("spec.retry.maxattempts", "FieldUnknown")
