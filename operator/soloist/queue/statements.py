"""The calls as statements: one SQL function each, its arguments bound and never part of the text.

Every value goes as text, number or array with its type named in the statement, so a driver needs to know nothing of JSON,
and psycopg and psycopg2 send the same. Each gives one column.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """``together``: it is worth something only in one transaction with what the application writes."""

    text: str
    values: Mapping[str, Any]
    together: bool = False


class ClaimedRow(Protocol):
    """A row under a claim: the ``Context`` of a handler is one."""

    @property
    def row(self) -> int: ...

    @property
    def fence(self) -> int: ...


def enqueue(queue: str, payload: Any, due_at: datetime | None, unique_key: str | None, priority: int) -> Call:
    return Call(
        text="SELECT soloist.enqueue(%(queue)s::text, %(payload)s::jsonb, %(due_at)s::timestamptz, %(unique_key)s::text,"
        " %(priority)s::int)",
        values={
            "queue": queue,
            "payload": json.dumps(payload),
            "due_at": _instant(due_at),
            "unique_key": unique_key,
            "priority": priority,
        },
    )


def enqueue_many(
    queue: str,
    payloads: Sequence[Any],
    due_at: datetime | None,
    unique_keys: Sequence[str | None] | None,
    priority: int,
) -> Call:
    return Call(
        text="SELECT soloist.enqueue_many(%(queue)s::text, %(payloads)s::text[]::jsonb[], %(due_at)s::timestamptz,"
        " %(unique_keys)s::text[], %(priority)s::int)",
        values={
            "queue": queue,
            "payloads": [json.dumps(payload) for payload in payloads],
            "due_at": _instant(due_at),
            "unique_keys": None if unique_keys is None else list(unique_keys),
            "priority": priority,
        },
    )


def cancel(ids: Sequence[int]) -> Call:
    return Call(text="SELECT soloist.cancel(%(ids)s::bigint[])", values={"ids": list(ids)})


def cancel_key(queue: str, unique_key: str) -> Call:
    values = {"queue": queue, "unique_key": unique_key}
    return Call(text="SELECT soloist.cancel_key(%(queue)s::text, %(unique_key)s::text)", values=values)


def complete(claimed: ClaimedRow) -> Call:
    values = {"row": claimed.row, "fence": claimed.fence}
    return Call(
        text="SELECT soloist.complete_or_raise(%(row)s::bigint, %(fence)s::bigint)", values=values, together=True
    )


def once(key: str, fence: int) -> Call:
    values = {"key": key, "fence": fence}
    return Call(text="SELECT soloist.once(%(key)s::text, %(fence)s::bigint)", values=values, together=True)


def checkpoint(name: str, value: Any, fence: int) -> Call:
    return Call(
        text="SELECT soloist.checkpoint(%(name)s::text, %(value)s::jsonb, %(fence)s::bigint)",
        values={"name": name, "value": json.dumps(value), "fence": fence},
    )


def read_checkpoint(name: str) -> Call:
    return Call(text="SELECT soloist.checkpoint(%(name)s::text)::text", values={"name": name})


def decoded(text: str | None) -> Any:
    """The value of a checkpoint; None where there is none."""
    return None if text is None else json.loads(text)


def _instant(due_at: datetime | None) -> str | None:
    if due_at is None:
        return None
    if due_at.tzinfo is None:
        raise ValueError(
            f"due_at is {due_at.isoformat()}, which names no time zone: give it one, such as datetime.now(UTC) has."
        )
    return due_at.isoformat()
