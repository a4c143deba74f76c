"""WorkQueues, places and letters for the pages that users see."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from soloist.domain.dead_letter import Letter
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_parsing import parse_queue
from soloist.ports import Raw
from soloist.shells.cli_queue_place import QueuePlace

SPEC = {"database": {"secretName": "db", "key": "uri"}, "deliver": {"http": {"url": "http://backend/deliver"}}}
TABLE = {
    "id": "id",
    "dueAt": "nextAttemptAt",
    "status": {"column": "status", "pending": ["PENDING"], "done": "DELIVERED", "failed": "FAILED"},
}


def queue(name: str, spec: Mapping[str, Any] | None = None, **status: Any) -> Raw:
    """A WorkQueue as the API server has it."""
    return {
        "metadata": {"name": name, "namespace": "billing"},
        "spec": _whole(spec or {}),
        **({"status": status} if status else {}),
    }


def place(name: str, spec: Mapping[str, Any] | None = None, *, served: str = "") -> QueuePlace:
    return QueuePlace(
        name=QueueName("billing", name), spec=parse_queue(_whole(spec or {})), named=f"{name} -n billing", served=served
    )


def _whole(spec: Mapping[str, Any]) -> dict[str, Any]:
    whole = {**SPEC, **spec}
    return {**whole, "table": {**TABLE, **whole["table"]}} if "table" in whole else whole


def letter(id_: int, died_at: datetime, **more: Any) -> Letter:
    whole = {"row": (str(id_),), "reason": "Failed", "error": None, "attempt": 1, "reclaims": 0, "due": died_at, **more}
    return Letter(id=id_, died_at=died_at, **whole)
