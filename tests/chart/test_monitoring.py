"""Alerts and dashboard speak of metrics that the program has, with their labels, and every alert has its page."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from soloist.shells.queue_standing import StandingMetrics
from soloist.shells.queue_telemetry import QueueMetrics
from soloist.shells.telemetry import Metrics
from tests.chart.rendering import CHART, ROOT, of_kind, one, rendered

ALERTS = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
SCRAPED = {"pod", "le"}
"""Labels that Prometheus adds, and that a histogram's buckets have."""
PROCESS = {"process_cpu_seconds_total": set(), "process_resident_memory_bytes": set()}


def metrics() -> dict[str, set[str]]:
    """Every series that /metrics may have, with its labels."""
    found: dict[str, set[str]] = {**PROCESS}
    for kind in (Metrics, StandingMetrics, QueueMetrics):
        registry = CollectorRegistry()
        for metric in vars(kind(registry)).values():
            if hasattr(metric, "describe") and metric is not registry:
                described = metric.describe()[0]
                endings = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}.get(described.type, [""])
                found |= {described.name + ending: {*metric._labelnames, *SCRAPED} for ending in endings}
    return found


def expressions() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [*(rule["expr"] for rule in RULES), *panels]


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_is_about_series_and_labels_that_exist(expression: str) -> None:
    known = metrics()
    named = set(re.findall(r"\b(?:soloist|process)_\w+", expression))
    assert named
    assert named <= known.keys()
    for name, selector in re.findall(r"((?:soloist|process)_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector)) <= known[name] | SCRAPED
    labels = {label for name in named for label in known[name]} | SCRAPED
    for group in re.findall(r"by \(([^)]*)\)", expression):
        assert {label.strip() for label in group.split(",")} <= labels


def test_every_metric_of_the_program_is_on_the_dashboard_but_those_that_say_the_same_or_too_little() -> None:
    shown = {name for expression in expressions() for name in re.findall(r"\b(?:soloist|process)_\w+", expression)}
    missing = {re.sub(r"_(bucket|count|sum)$", "", name) for name in metrics()} - {
        re.sub(r"_(bucket|count|sum)$", "", name) for name in shown
    }
    assert missing == {
        "soloist_term_epoch",
        "soloist_queue_claimed_total",
        "soloist_queue_errors_total",
        "soloist_queue_still_due_total",
        "soloist_queue_outcomes_unanswered_total",
    }


def test_every_alert_has_a_section_of_its_page_and_no_section_is_without_one() -> None:
    """kuberhealthy #650."""
    assert re.findall(r"^## (Soloist\w+)$", PAGE, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_rules_are_those_of_the_release_and_lead_to_their_page() -> None:
    values = {"monitoring": {"prometheusRule": {"enabled": True, "queueLagSeconds": 60}}}
    text = rendered(values, release="prod")
    (rule,) = of_kind(text, "PrometheusRule")
    (alert,) = [each for each in rule["spec"]["groups"][0]["rules"] if each["alert"] == "SoloistNoLeader"]
    assert 'pod=~"prod-soloist-controller-.+"' in alert["expr"]
    assert "runbook_url" not in alert["annotations"]
    assert not re.search(r"\b(PODS|CONTROLLERS|LAG)\b", json.dumps(rule))
    values["monitoring"]["prometheusRule"]["runbookUrl"] = "https://docs.example.com/alerts"
    (rule,) = of_kind(rendered(values), "PrometheusRule")
    pages = {each["annotations"]["runbook_url"] for group in rule["spec"]["groups"] for each in group["rules"]}
    assert pages == {f"https://docs.example.com/alerts#{each['alert'].lower()}" for each in RULES}


def test_the_dashboard_is_handed_to_grafana_as_it_is() -> None:
    text = rendered({"monitoring": {"dashboard": {"enabled": True}}})
    config = one(text, "ConfigMap", "soloist-dashboard")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config["data"]["soloist.json"]) == DASHBOARD


@pytest.mark.parametrize("kind", ["serviceMonitor", "podMonitor"])
def test_a_monitor_finds_the_port_of_each_component(kind: str) -> None:
    text = rendered({"monitoring": {kind: {"enabled": True, "labels": {"release": "prometheus"}}}})
    (monitor,) = of_kind(text, "ServiceMonitor", "PodMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted: dict[str, str] = monitor["spec"]["selector"]["matchLabels"]
    (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["path"], endpoint["honorLabels"]) == ("/metrics", True)
    pods = [owner["spec"]["template"] for owner in of_kind(text, "Deployment")]
    services = of_kind(text, "Service")
    assert len(services) == (2 if kind == "serviceMonitor" else 0)
    for service in services:
        assert wanted.items() <= service["metadata"]["labels"].items()
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        assert (
            len([pod for pod in pods if service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]) == 1
        )
    for pod in pods:
        assert wanted.items() <= pod["metadata"]["labels"].items()
        assert "health" in {port["name"] for port in pod["spec"]["containers"][0]["ports"]}


def test_nothing_of_prometheus_is_rendered_unless_it_is_asked_for() -> None:
    found: list[dict[str, Any]] = of_kind(
        rendered(), "ServiceMonitor", "PodMonitor", "PrometheusRule", "Service", "ConfigMap"
    )
    assert found == []
