"""What a Lease remembers of an application's timers: the annotation ``soloist.dev/slots``.

Of each timer the last granted slot, under which term and with which mark, and the slots that nobody got, with reasons. It is
bounded, since an object has room for 256 KiB of annotations. What cannot be read counts as not remembered, which costs a
slot and never gives one twice.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from soloist.domain.instants import parse_time, stamp
from soloist.domain.lease import Raw

SLOTS = "soloist.dev/slots"
MOST_TIMERS = 32
MOST_LINES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Slots in a row that were not granted for one reason: the first, the last, and how many."""

    reason: str
    first: datetime
    last: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of one timer. No slot up to ``last`` is ever granted again."""

    last: datetime
    epoch: int
    token: str
    missed: tuple[Missed, ...] = ()


def newest(one: Memory | None, other: Memory | None) -> Memory | None:
    """Of two memories the one that knows the later slot."""
    if one is None or other is None:
        return one or other
    return one if one.last >= other.last else other


def remembered(raw: Raw) -> dict[str, Memory]:
    """By timer, out of a Lease as the API server gave it."""
    said = ((raw.get("metadata") or {}).get("annotations") or {}).get(SLOTS)
    try:
        found = json.loads(said) if said else {}
    except (ValueError, RecursionError):
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: memory for name, value in pairs if (memory := _memory(value)) is not None}


def with_memories(raw: Raw, memories: Mapping[str, Memory]) -> Raw:
    """The Lease with these memories in place of its own; everything else as it was."""
    body = copy.deepcopy(raw)
    metadata = body.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), SLOTS: text(memories)}
    return body


def text(memories: Mapping[str, Memory]) -> str:
    """As it stands in the annotation."""
    return json.dumps({name: document(memory) for name, memory in memories.items()}, separators=(",", ":"))


def document(memory: Memory) -> dict[str, Any]:
    """The same for people and programs."""
    lines = [
        {"reason": line.reason, "first": stamp(line.first), "last": stamp(line.last), "count": line.count}
        for line in memory.missed
    ]
    return {"last": stamp(memory.last), "epoch": memory.epoch, "token": memory.token, "missed": lines}


def _memory(value: Any) -> Memory | None:
    if not isinstance(value, dict):
        return None
    last, epoch, token = parse_time(value.get("last")), value.get("epoch"), value.get("token")
    if last is None or not isinstance(epoch, int) or not isinstance(token, str):
        return None
    listed = value.get("missed")
    lines = [_missed(line) for line in listed] if isinstance(listed, list) else []
    return Memory(last=last, epoch=epoch, token=token, missed=tuple(line for line in lines if line is not None))


def _missed(value: Any) -> Missed | None:
    if not isinstance(value, dict):
        return None
    first, last, count = parse_time(value.get("first")), parse_time(value.get("last")), value.get("count")
    if first is None or last is None or not isinstance(count, int):
        return None
    return Missed(reason=str(value.get("reason", "")), first=first, last=last, count=count)
