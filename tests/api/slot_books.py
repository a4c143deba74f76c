"""The books of an application's slots: each that nobody swept has its reason in the Lease, but where somebody was lost with it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from soloist.domain.instants import parse_time
from soloist.domain.slot_memory import MOST_LINES


def moment(text: str) -> datetime:
    found = parse_time(text)
    assert found is not None
    return found


def reasons(record: dict[str, Any], period: timedelta) -> dict[datetime, str]:
    """Why nobody got a slot, as one timer's part of GET /NAME/ticks has it."""
    return {
        moment(line["first"]) + number * period: line["reason"]
        for line in record["missed"]
        for number in range(line["count"])
    }


def unexplained(
    swept: set[datetime], record: dict[str, Any], period: timedelta, *, faults: Iterable[datetime]
) -> list[datetime]:
    """Slots that were neither swept nor have a reason, as far back as the record goes.

    A slot may be on record whose caller was lost before it could work: only where somebody was, which ``faults`` date.
    """
    told, dated = reasons(record, period), list(faults)
    full = len(record["missed"]) == MOST_LINES
    slot, found = min(told) if full else min(swept), []
    while (slot := slot + period) < moment(record["last"]):
        near = any(abs(slot - fault) <= 2 * period for fault in dated)
        if slot not in swept and slot not in told and not near:
            found.append(slot)
    return found
