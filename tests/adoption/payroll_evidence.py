"""docs/evidence/kill-in-mid-payment.md: what was recorded of the payments whose worker or backend was killed."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.adoption import evidence
from tests.adoption.payroll_books import Books, pair_of
from tests.adoption.payroll_stage import Payroll

STORY = """
SELECT f.due, k.key, k.request ->> 'attempt', k.request ->> 'fence', s.updated_at, s.next_run_timestamp > f.due,
       d.reason, d.fence, d.last_error
FROM schedules AS s JOIN first_due AS f USING (id) JOIN idempotency_keys AS k ON (k.request ->> 'id')::int = s.id
LEFT JOIN soloist.dead_rows AS d ON d.pk = ARRAY[s.id::text] WHERE s.id = %s
"""
HEADS = ["killed", "schedule", "due", "key", "attempt", "fence", "payments", "paid at", "recorded at", "held", "its fence", "why"]  # fmt: skip


def write(stage: Payroll, books: Books, killed: Mapping[str, int]) -> None:
    """``killed`` names who was killed while the provider was at the payment of that schedule."""
    rows = []
    for who, schedule in killed.items():
        ((due, key, attempt, fence, at, moved, reason, held_by, why),) = stage.schedules.rows(STORY, schedule)
        payments = [each for each in stage.schedules.payments() if pair_of(each)[0] == schedule]
        recorded = evidence.moment(at) if moved else "never"
        paid = evidence.moment(payments[0].at)
        rows.append([who, schedule, due, key, attempt, fence, len(payments), paid, recorded, reason or "no", held_by or "", why or ""])  # fmt: skip
    logs = [line for log in sorted(stage.folder.glob("w*.log")) for line in log.read_text().splitlines()]
    given_up = [line for line in logs if line.startswith("{") and json.loads(line)["message"] == "row given up"]
    total = sum(books.paid.values())
    held_and_paid = len(books.held.keys() & books.paid.keys())
    evidence.write(
        "kill-in-mid-payment",
        "Killed between a payment and its record",
        f"{len(books.due)} payments came due, {len(books.recorded)} were recorded, {len(books.held)} are held for a person: {held_and_paid} that"
        f" were paid, and {len(books.held) - held_and_paid} that never were. The provider, which heeds no keys, was asked {total} times, for"
        f" {len(books.paid)} of them: none twice.",
        "The payments in whose middle somebody was killed. Each was put into the table as overdue, so it was paid later than it was `due`.",
        evidence.table(HEADS, rows),
        "What the workers said of those that they gave up:",
        evidence.lines(given_up),
    )
