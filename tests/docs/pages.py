"""The generated parts of the documentation: settings, fields of the CRDs, metrics.

A page holds a generated part between two lines, ``<!-- generated: NAME -->`` and ``<!-- end -->``; the rest of it is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from soloist.shells import elect_settings as of_electors
from soloist.shells import settings as of_controllers
from soloist.shells import standalone_settings as of_standalone
from soloist.shells import worker_settings as of_workers
from soloist.shells.elect_telemetry import ElectMetrics
from soloist.shells.parsing import Row
from soloist.shells.queue_standing import StandingMetrics
from soloist.shells.queue_telemetry import QueueMetrics
from soloist.shells.telemetry import Metrics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ("api.md", "settings.md", "standalone.md")
PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
OPAQUE = ("spec.job.template",)
"""Below these, the fields are those of Kubernetes itself."""
NAMED = ("seconds", "rows", "jobs", "runs", "attempts", "errors")
"""Units that a metric's name ends with, as Prometheus wants it."""
UNITS = {
    "soloist_leader": "0 or 1",
    "soloist_term_epoch": "epoch",
    "soloist_due": "ticks",
    "soloist_launched": "ticks",
    "soloist_ticks_missed": "ticks",
    "soloist_api_writes": "writes",
    "soloist_queue_valid": "0 or 1",
    "soloist_queue_claimed": "rows",
    "soloist_queue_dead": "rows",
    "soloist_queue_put_back": "rows",
    "soloist_queue_reclaimed": "rows",
    "soloist_queue_claims_lost": "claims",
    "soloist_queue_outcomes_unanswered": "outcomes",
    "soloist_queue_changed": "rows",
    "soloist_queue_still_due": "rows",
    "soloist_queue_in_flight": "attempts",
    "soloist_queue_open": "0 or 1",
    "soloist_elect_holds": "0 or 1",
    "soloist_elect_epoch": "epoch",
    "soloist_elect_slots": "requests",
    "soloist_elect_application_well": "0 or 1",
}
"""Of the others, so that a new one without a unit cannot be documented."""


def renewed(page: str) -> str:
    """The page's text with its generated parts as they should be."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n{found[3]}", text)


def settings(rows: list[Row]) -> str:
    lines = [_setting(row) for row in rows if row.flag is not None]
    return _table(["Flag", "Variable", "Default", "Meaning"], lines)


def _setting(row: Row) -> list[str]:
    default = ", ".join(map(str, row.default)) if row.several else str(row.default)
    if row.kind is bool:
        default = default.lower()
        flag = f"`{row.flag}`, `--no-{(row.flag or '')[2:]}`"
    else:
        flag = f"`{row.flag}`"
    return [flag, f"`{row.env}`", f"`{default}`" if default else "-", row.meaning]


def fields(kind: str, part: str) -> str:
    crd = yaml.safe_load((ROOT / "manifests" / "crds" / f"{kind}.yaml").read_text(encoding="utf-8"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]
    return _table(["Field", "Type", "Meaning"], list(_fields(part, schema)))


def _fields(path: str, schema: dict[str, Any]) -> Iterator[list[str]]:
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        required = ", required" if name in schema.get("required", ()) else ""
        yield [f"`{here}`", _type(inner) + required, _meaning(inner)]
        if here in OPAQUE:
            continue
        yield from _fields(here, inner)
        if inner.get("type") == "array":
            yield from _fields(f"{here}[]", inner["items"])


def _type(schema: dict[str, Any]) -> str:
    kind = str(schema.get("format") or schema.get("type", "any")).replace("date-time", "time")
    if schema.get("x-kubernetes-int-or-string"):
        kind = "integer or string"
    if schema.get("type") == "array":
        kind = f"list of {schema['items'].get('type', 'any')}"
    return {"int32": "integer", "int64": "integer"}.get(kind, kind)


def _meaning(schema: dict[str, Any]) -> str:
    text = " ".join(str(schema.get("description", "")).split())
    default = schema.get("default")
    said = (
        f" Default: `{str(default).lower() if isinstance(default, bool) else default}`." if default is not None else ""
    )
    return text + said


def metrics(kind: type[Any]) -> str:
    registry = CollectorRegistry()
    made = kind(registry)
    lines = [_metric(found) for found in vars(made).values() if hasattr(found, "describe") and found is not registry]
    return _table(["Metric", "Type", "Unit", "Labels", "Meaning"], lines)


def _metric(metric: Any) -> list[str]:
    found = metric.describe()[0]
    suffix = "_total" if found.type == "counter" else ""
    labels = ", ".join(f"`{label}`" for label in metric._labelnames) or "-"
    unit = found.name.rpartition("_")[2]
    unit = unit if unit in NAMED else UNITS[found.name]
    return [f"`{found.name}{suffix}`", found.type, unit, labels, found.documentation]


def _table(heads: list[str], lines: list[list[str]]) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *escaped])


PARTS: dict[str, Callable[[], str]] = {
    "settings": lambda: settings(of_controllers.rows()),
    "worker-settings": lambda: settings(of_workers.rows()),
    "elect-settings": lambda: settings(of_electors.rows()),
    "standalone-settings": lambda: settings(of_standalone.rows()),
    "metrics": lambda: metrics(Metrics),
    "queue-metrics": lambda: metrics(StandingMetrics),
    "worker-metrics": lambda: metrics(QueueMetrics),
    "elect-metrics": lambda: metrics(ElectMetrics),
    "scheduledjob-spec": lambda: fields("scheduledjobs", "spec"),
    "scheduledjob-status": lambda: fields("scheduledjobs", "status"),
    "jobrun-spec": lambda: fields("jobruns", "spec"),
    "jobrun-status": lambda: fields("jobruns", "status"),
    "workqueue-spec": lambda: fields("workqueues", "spec"),
    "workqueue-status": lambda: fields("workqueues", "status"),
}
