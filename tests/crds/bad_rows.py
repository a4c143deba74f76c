"""The table of bad manifests: a good manifest of each kind, and what each row changes in it."""

from pathlib import Path
from typing import Any

import yaml

from soloist.domain.merge_patch import merged

BASE: dict[str, dict[str, Any]] = {
    "ScheduledJob": {"schedule": "0 2 * * *", "http": {"url": "http://backend.default.svc/path"}},
    "JobRun": {"scheduledJobName": "job"},
    "WorkQueue": {
        "database": {"secretName": "backend-db", "key": "uri"},
        "table": {
            "name": 'public."WebhookDelivery"',
            "id": "id",
            "dueAt": "nextAttemptAt",
            "status": {"column": "status", "pending": ["pending"], "done": "delivered", "failed": "failed"},
        },
        "deliver": {"http": {"url": "http://backend.default.svc/path"}},
    },
}


def rows() -> list[dict[str, Any]]:
    """Each with name, kind, manifest, and where it is refused (see bad.yaml)."""
    table: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("bad.yaml").read_text(encoding="utf-8"))
    return [{"kind": "ScheduledJob", **row} for row in table]


def manifest(row: dict[str, Any]) -> dict[str, Any]:
    """The row's object: the good one with the row's changes."""
    return {
        "apiVersion": "soloist.dev/v1alpha1",
        "kind": row["kind"],
        "metadata": {"name": "bad", **row.get("metadata", {})},
        "spec": merged(BASE[row["kind"]], row.get("spec", {})),
    }
