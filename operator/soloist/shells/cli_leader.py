"""Who leads, in words and as a document, for ``soloist status``."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from soloist.domain.instants import stamp
from soloist.domain.lease import LeaseRecord
from soloist.domain.wall_time import away, span
from soloist.domain.why_facts import ABSENCE_REMEDY, holder_name, leader_absence, pause_words
from soloist.shells.cli_reading import Leases, place


def lease_lines(leases: Leases, now: datetime) -> Iterator[str]:
    if leases.unknown:
        yield f"LEADER  not known: {leases.unknown}"
    elif not leases.found:
        yield f"LEADER  none. {leader_absence(None, now)}"
        yield f"        -> {ABSENCE_REMEDY}"
    for lease in leases.found:
        absence = leader_absence(lease, now)
        if absence is not None:
            yield f"LEADER  none (Lease {place(lease)}). {absence}"
            yield f"        -> {ABSENCE_REMEDY}"
        else:
            age = f"for {span(now - lease.acquire_time)}" if lease.acquire_time is not None else "since an unknown time"
            renewed = f"renewed {away(lease.renew_time, now)}" if lease.renew_time is not None else ""
            yield f"LEADER  {holder_name(lease)} {age} (Lease {place(lease)}, epoch {lease.epoch}, {renewed})"
        if lease.fleet_paused is not None:
            yield f"PAUSED  the whole installation{pause_words(lease.fleet_paused)}"
            yield "        -> To go on: kubectl soloist resume --all"


def leads(lease: LeaseRecord, now: datetime) -> bool:
    return leader_absence(lease, now) is None


def lease_document(lease: LeaseRecord, now: datetime) -> dict[str, Any]:
    return {
        "lease": place(lease),
        "leading": leads(lease, now),
        "holder": holder_name(lease) or None,
        "epoch": lease.epoch,
        "acquired": stamp(lease.acquire_time) if lease.acquire_time is not None else None,
        "renewed": stamp(lease.renew_time) if lease.renew_time is not None else None,
        "paused": lease.fleet_paused,
    }
