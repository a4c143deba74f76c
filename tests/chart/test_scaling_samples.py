"""The samples of docs/scaling.md for other programs ask for what there is: series with those labels, that function, that Deployment.

Neither KEDA nor prometheus-adapter is here, so what they would ask is held against what Soloist has to answer. KEDA's kinds are
here: the API server takes its objects as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from soloist.domain.external_metrics import METRICS
from tests.chart.rendering import ROOT, of_kind, rendered
from tests.chart.test_monitoring import metrics
from tests.cluster.client import ApiError
from tests.cluster.fixtures import Namespace
from tests.cluster.foreign_kinds import KEDA, served
from tests.postgres.server import Database

PAGE = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
SAMPLES = [
    document
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for document in yaml.safe_load_all(block)
]
SCALED = [each for each in SAMPLES if each.get("kind") == "ScaledObject"]
(RULES,) = (each["rules"]["external"] for each in SAMPLES if "rules" in each)


def queries(value: Any = SAMPLES) -> Iterator[str]:
    """Of every trigger and rule, for Prometheus and for PostgreSQL."""
    if isinstance(value, dict):
        yield from (value[key] for key in ("query", "seriesQuery", "metricsQuery") if key in value)
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from queries(each)


STATEMENTS = [query for query in queries() if query.startswith("SELECT ")]
EXPRESSIONS = [query for query in queries() if query not in STATEMENTS]


def test_there_is_a_sample_of_each() -> None:
    assert {trigger["type"] for each in SCALED for trigger in each["spec"]["triggers"]} == {"prometheus", "postgresql"}
    assert (len(STATEMENTS), len(EXPRESSIONS), len(RULES)) == (1, 3, 1)


def test_every_metric_that_the_page_names_exists() -> None:
    """One is made by the rule for prometheus-adapter."""
    made = {rule["name"]["as"] for rule in RULES}
    named = set(re.findall(r"\bsoloist_\w+", PAGE))
    assert METRICS.keys() | made <= named
    assert named - metrics().keys() - METRICS.keys() - made == set()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_query_is_about_a_series_and_labels_that_exist(expression: str) -> None:
    known = metrics()
    (name,) = set(re.findall(r"\bsoloist_\w+", expression))
    chosen = re.findall(r"[{,](\w+)\s*(?:=~|!~|!=|=)", expression)
    summed = [label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")]
    assert {*chosen, *summed} == {"namespace", "queue"}
    assert {"namespace", "queue"} <= known[name]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_counts_the_rows_that_are_ready(statement: str, queue_database: Database) -> None:
    with queue_database.connect() as connection:
        assert connection.execute(statement).fetchall() == [(0,)]
        (queue,) = re.findall(r"ARRAY\['([^']+)'\]", statement)
        connection.execute("SELECT soloist.enqueue(%s, '{}') FROM generate_series(1, 3)", (queue,))
        assert connection.execute(statement).fetchall() == [(3,)]


def test_what_is_scaled_is_the_workers_and_the_database_is_one_that_is_named() -> None:
    workers = {
        each["metadata"]["name"]
        for each in of_kind(rendered(), "Deployment")
        if each["metadata"]["labels"]["app.kubernetes.io/component"] == "worker"
    }
    assert {each["spec"]["scaleTargetRef"]["name"] for each in SCALED} == workers
    triggers = [trigger for each in SCALED for trigger in each["spec"]["triggers"]]
    named = {trigger["authenticationRef"]["name"] for trigger in triggers if "authenticationRef" in trigger}
    assert named == {each["metadata"]["name"] for each in SAMPLES if each.get("kind") == "TriggerAuthentication"}


@pytest.mark.cluster
def test_the_server_takes_the_objects_of_keda_and_would_refuse_a_field_that_they_lack(namespace: Namespace) -> None:
    assert f"KEDA's kinds ({KEDA.version.rpartition('.')[0]}) take its objects" in PAGE
    found = [each for each in SAMPLES if each.get("apiVersion", "").startswith("keda.sh/")]
    assert {each["kind"] for each in found} == {"ScaledObject", "TriggerAuthentication"}
    with served(namespace.cluster, KEDA):
        for each in found:
            made = {**each, "metadata": {**each["metadata"], "namespace": namespace.name}}
            path = namespace.path(f"{each['kind'].lower()}s", group="keda.sh", version="v1alpha1")
            strict = f"{path}?dryRun=All&fieldValidation=Strict"
            namespace.api.create(strict, made)
            with pytest.raises(ApiError, match=r"unknown field.*triggerz"):
                namespace.api.create(strict, {**made, "spec": {**made["spec"], "triggerz": []}})
