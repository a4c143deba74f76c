"""Fields that nobody reads, and that every field of the examples is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from soloist.domain.queue_parsing import parse_queue
from soloist.domain.spec import parse_spec
from soloist.domain.unread import unread

ROOT = Path(__file__).parents[2] / "manifests"
SPECS = [
    pytest.param(each["kind"], each["spec"], id=f"{file.stem}-{each['kind']}-{number}")
    for file in sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "standalone").glob("*.yaml")])
    for number, each in enumerate(yaml.safe_load_all(file.read_text()))
    # A Job's template is Kubernetes' own, and is not read here.
    if each and each["kind"] in ("ScheduledJob", "WorkQueue") and "job" not in each["spec"]
]
HTTP = {"url": "http://backend/", "headers": [{"name": "x", "value": "y"}]}


@pytest.mark.parametrize(("kind", "spec"), SPECS)
def test_every_field_of_the_examples_is_read(kind: str, spec: dict[str, Any]) -> None:
    assert unread(spec, parse_spec if kind == "ScheduledJob" else parse_queue) is None


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
    assert found == says or (says is not None and found is not None and says in found)
