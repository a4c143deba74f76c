"""values.yaml is the documentation of the chart: each value has a comment, a place in the schema, and the program's own default."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from soloist.shells import settings, worker_settings
from soloist.shells.parsing import Row
from tests.chart.rendering import CHART

TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")
VALUES = yaml.safe_load(TEXT)
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
GIVEN_OTHERWISE = {
    "controller": {"kubeconfig", "context", "lease_namespace", "namespaces", "health_address", "health_port", "events", "crash_at",
                   "external_metrics", "external_metrics_port", "external_metrics_certificate"},
    "worker": {"kubeconfig", "context", "files", "database", "namespaces", "health_address", "health_port", "pod_deletion_cost"},
}  # fmt: skip
"""The namespaces, Events, external metrics and the deletion cost have values of their own; the rest follows from being in a Pod."""
OWN = {"controller": {"lease_name": "", "grace": 35}, "worker": {}}
"""The Lease is named after the release, and the grace covers an http action's default time-out."""


def keys(text: str) -> Iterator[tuple[str, bool]]:
    """Each key with its line, and whether it is explained: by a comment above it, as an `enabled` by that of its group."""
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines):
        found = re.match(r"([a-zA-Z]+):(.*)", line)
        if found:
            opens, of_kubernetes = not found[2], found[1] in ("requests", "limits")
            explained = lines[number - 1].startswith("#") or (found[1] == "enabled" and lines[number - 1].endswith(":"))
            yield f"{number + 1}: {found[1]}", explained or opens or of_kubernetes


def test_every_value_has_a_comment() -> None:
    assert [key for key, commented in keys(TEXT) if not commented] == []


def walk(values: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Paths that are in one of the two only, where the schema closes an object."""
    schema = SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    if schema.get("additionalProperties") is not False or not isinstance(values, dict):
        return
    optional = {"global", "claims"}
    yield from (f"{path}.{name}" for name in (values.keys() ^ schema["properties"].keys()) - optional)
    for name in values.keys() & schema["properties"].keys():
        yield from walk(values[name], schema["properties"][name], f"{path}.{name}")


def test_the_schema_knows_every_value_and_no_other() -> None:
    differing = list(walk(VALUES, SCHEMA))
    assert [path for path in differing if not re.search(r"resources\.(requests|limits)$", path)] == []


@pytest.mark.parametrize(
    ("component", "rows"),
    [("controller", settings.rows()), ("worker", worker_settings.rows())],
    ids=["controller", "worker"],
)
def test_each_setting_has_a_value_with_the_same_default(component: str, rows: list[Row]) -> None:
    expected = {row.name: plain(row) for row in rows if row.name not in GIVEN_OTHERWISE[component]}
    given = VALUES[component]["settings"]
    assert {snake(name): value for name, value in given.items()} == {**expected, **OWN[component]}


def plain(row: Row) -> Any:
    return list(row.default) if row.several else row.default


def snake(name: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", name).lower()
