"""``soloist queue list``: every WorkQueue in one line, with what the leader measured; problems come first.

The counts are of the status, so a person who may list WorkQueues needs no way into any database for them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.domain.instants import parse_time
from soloist.domain.manifest_plan import REFUSED
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import ManagedTable
from soloist.domain.spec_fields import Invalid
from soloist.domain.told import told
from soloist.domain.wall_time import away, span
from soloist.ports import Raw
from soloist.shells.cli_desk import Desk, converse
from soloist.shells.cli_target import Target
from soloist.shells.cli_text import indented, table

_COUNTS = ("ready", "scheduled", "inFlight", "dead", "oldestDueSeconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One WorkQueue as it stands there. ``valid`` is the condition, or what we make of the spec where there is none."""

    namespace: str
    name: str
    table: str
    suspended: bool
    valid: tuple[str, str, str] | None
    status: Raw
    refused: str = ""

    @classmethod
    def of(cls, raw: Raw) -> "Seen":
        metadata, spec = raw["metadata"], raw.get("spec") or {}
        status = raw.get("status") or {}
        mapped = spec.get("table") if isinstance(spec.get("table"), dict) else {}
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            table=str((mapped or {}).get("name") or ManagedTable.name),
            suspended=spec.get("suspend") is True,
            valid=_valid(spec, status),
            status=status,
            refused=str((metadata.get("annotations") or {}).get(REFUSED, "")),
        )

    @property
    def state(self) -> str:
        """In one word."""
        if self.valid is not None and self.valid[0] != "True":
            return self.valid[1]
        return "Suspended" if self.suspended else "Valid" if self.valid is not None else ""

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Reason, what is the matter, and the command that tells more, where one does."""
        if self.refused:
            yield "FileRefused", self.refused, ""
        if self.valid is not None and self.valid[0] != "True":
            yield self.valid[1], self.valid[2], f"kubectl soloist queue check {self.name} -n {self.namespace}"
        dead = int(self.status.get("dead") or 0)
        if dead:
            waits = "1 dead letter waits" if dead == 1 else f"{dead} dead letters wait"
            yield "DeadLetters", f"{waits} for a person.", f"kubectl soloist queue dead {self.name} -n {self.namespace}"


def _valid(spec: Raw, status: Raw) -> tuple[str, str, str] | None:
    """Status, reason and message."""
    if said := told(status, "Valid"):
        return str(said["status"]), str(said["reason"]), str(said.get("message", ""))
    parsed = parse_queue(spec)
    return ("False", parsed.reason, parsed.message) if isinstance(parsed, Invalid) else None


def queues(target: Target) -> tuple[dict[str, Any], list[str]]:
    async def read(desk: Desk) -> Sequence[Raw]:
        return await desk.queues()

    where = "all namespaces" if target.everywhere else f"namespace {target.namespace}"
    return overview(converse(target, read), SystemClock().now(), where=where, everywhere=target.everywhere)


def overview(
    objects: Iterable[Raw], now: datetime, *, where: str, everywhere: bool
) -> tuple[dict[str, Any], list[str]]:
    """``where`` names what was looked at; with ``everywhere`` queues are shown with their namespaces."""
    seen = [Seen.of(raw) for raw in objects]
    seen.sort(key=lambda each: (not any(each.problems()), each.namespace, each.name))
    troubled = [each for each in seen if any(each.problems())]
    document = {
        "problems": [
            {"namespace": each.namespace, "name": each.name, "reason": reason, "says": what, "do": do}
            for each in troubled
            for reason, what, do in each.problems()
        ],
        "queues": [_document(each) for each in seen],
    }
    lines = [f"PROBLEMS ({len(troubled)} of {len(seen)} queues)"] if troubled else []
    for each in troubled:
        for _, what, do in each.problems():
            lines += indented([f"{each.namespace}/{each.name}: {what}", *([f"    -> {do}"] if do else [])])
    lines += [""] if troubled else []
    return document, [*lines, *(_table(seen, now, everywhere) if seen else [f"There are no WorkQueues in {where}."])]


def _document(each: Seen) -> dict[str, Any]:
    status, reason, message = each.valid or (None, None, None)
    counts = {name: each.status.get(name) for name in (*_COUNTS, "measuredTime")}
    names = {"namespace": each.namespace, "name": each.name, "table": each.table, "suspend": each.suspended}
    return names | {"valid": status, "reason": reason, "message": message} | counts


def _table(seen: Iterable[Seen], now: datetime, everywhere: bool) -> list[str]:
    header = ["NAME", "TABLE", "STATE", "READY", "SCHEDULED", "IN FLIGHT", "DEAD", "OLDEST DUE", "MEASURED"]
    rows = []
    for each in seen:
        counts = [str(each.status[name]) if name in each.status else "" for name in _COUNTS[:4]]
        oldest, measured = each.status.get("oldestDueSeconds"), parse_time(each.status.get("measuredTime"))
        cells = [each.name, each.table, each.state, *counts]
        cells += [span(timedelta(seconds=oldest)) if oldest else "", away(measured, now) if measured else ""]
        rows.append([each.namespace, *cells] if everywhere else cells)
    return table(["NAMESPACE", *header] if everywhere else header, rows)
