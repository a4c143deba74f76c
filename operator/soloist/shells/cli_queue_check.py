"""``soloist queue check``: everything that stands in a queue's way, and what to do about each."""

from collections.abc import Iterable, Sequence
from typing import Any

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.queue_check import check_queue
from soloist.domain.findings import Finding, Severity, error
from soloist.domain.queue_validity import Standing
from soloist.domain.spec_fields import Invalid
from soloist.shells.cli_queue_place import QueuePlace, ask, database_name
from soloist.shells.cli_text import indented

EXIT_STOPPED = 1
_HEADINGS = {Severity.ERROR: "ERRORS", Severity.WARNING: "WARNINGS", Severity.NOTE: "NOTES"}


def check(place: QueuePlace) -> tuple[dict[str, Any], list[str], int]:
    """For programs, for people, and the exit code."""
    spec = place.spec
    if isinstance(spec, Invalid):
        return page(place, None, [error(spec.reason, spec.message, field=spec.field)])

    async def conversation(database: Database) -> tuple[str, list[Finding]]:
        return database_name(database), await check_queue(database, str(place.name), spec)

    where, found = ask(place, conversation)
    return page(place, where, found)


def page(place: QueuePlace, where: str | None, found: Sequence[Finding]) -> tuple[dict[str, Any], list[str], int]:
    """``where``: the database that was asked, if one was."""
    others = [error(Standing.ALREADY_SERVED, place.served, field="spec.table.name")] if place.served else []
    found = [*others, *found]
    stopped = any(each.severity is Severity.ERROR for each in found)
    document = {
        "queue": str(place.name),
        "table": place.table if where else None,
        "database": where,
        "stopped": stopped,
        "findings": [_document(each) for each in found],
    }
    lines = [f"{place.name}: {place.table} in {where}." if where else f"{place.name}: no database was asked."]
    for severity, heading in _HEADINGS.items():
        of_it = [each for each in found if each.severity is severity]
        if of_it:
            lines += ["", f"{heading} ({len(of_it)})", *indented(f"{each.reason}: {each.message}" for each in of_it)]
    return document, [*lines, "", *_verdict(place, stopped)], EXIT_STOPPED if stopped else 0


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "severity": str(finding.severity),
        "reason": str(finding.reason),
        "message": finding.message,
        "field": finding.field or None,
        "column": finding.column or None,
    }


def _verdict(place: QueuePlace, stopped: bool) -> Iterable[str]:
    if stopped:
        yield "The queue is not worked until the errors are mended."
    elif not isinstance(place.spec, Invalid) and place.spec.suspend:
        yield "Nothing stops the queue but spec.suspend: true."
    else:
        yield "Nothing stops the queue."
