"""What a statement inside a SQL function really did, as auto_explain tells it: the plan's nodes and the buffers they touched."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.queue.rows import Connection

SWITCHES = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "client_min_messages": "log",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One statement on the table."""

    query: str
    nodes: frozenset[str]
    buffers: int


def explained(
    connection: Connection, query: Any, values: Any = (), *, table: str = "soloist.work_items", **options: Any
) -> list[Plan]:
    """Runs it and gives the plans of the statements within that name the table."""
    said: list[str] = []
    connection.execute("LOAD 'auto_explain'")
    for name, value in SWITCHES.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def keep(notice: Any) -> None:
        if notice.message_primary and "plan:" in notice.message_primary:
            said.append(notice.message_primary.partition("plan:\n")[2])

    connection.add_notice_handler(keep)
    try:
        connection.execute(query, values, **options)
    finally:
        connection.remove_notice_handler(keep)
        connection.execute("SELECT set_config('auto_explain.log_min_duration', '-1', false)")
    plans = [json.loads(text) for text in said]
    return [plan_of(plan) for plan in plans if table in plan["Query Text"]]


def plan_of(said: dict[str, Any]) -> Plan:
    top = said["Plan"]
    buffers = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
    return Plan(query=said["Query Text"], nodes=frozenset(nodes_of(top)), buffers=buffers)


def nodes_of(node: dict[str, Any]) -> list[str]:
    own = " ".join(filter(None, [node["Node Type"], node.get("Index Name")]))
    return [own, *(name for child in node.get("Plans", []) for name in nodes_of(child))]
