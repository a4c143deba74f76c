"""The books as tables that people can read."""

from __future__ import annotations

from collections.abc import Sequence

from tests.demo.books import COUNTED, Page
from tests.demo.rows import Rows
from tests.demo.story import HandOver

MEANINGS = {
    "Missed": "due while nobody led, and missedRunPolicy lets it go",
    "TooManyMissed": "due while nobody led, and more than maxMissedRuns",
    "Blocked": "an earlier run was not over (concurrencyPolicy: Forbid)",
    COUNTED: "there was a reason, which has made room for later ones in status.recent, and is in status.counters",
    "OutcomeUnknown": "recorded by the leader that was killed; whether it was sent is not known",
}


def report(pages: Sequence[Page], hand_overs: Sequence[HandOver], rows: Sequence[Rows] = ()) -> str:
    parts = [
        _table(
            ["SCHEDULEDJOB", "MISSED RUN POLICY", "TICKS", "LAUNCHED", "TWICE", "EARLY", "NOT RUN, AND WHY", "LOST"],
            [_row(each) for each in pages],
        ),
        _table(
            ["HAND-OVER", "FROM", "TO", "SECONDS"],
            [[each.what, each.before, each.after, f"{each.seconds:.2f}"] for each in hand_overs],
        ),
    ]
    if rows:
        heads = ["WORKQUEUE", "ROWS", "DELIVERED", "ACCEPTED TWICE", "SENT AGAIN, SAME KEY", "LOST"]
        cells = [[each.queued, each.delivered, each.accepted_twice, each.again, each.lost] for each in rows]
        parts.insert(1, _table(heads, [[each.queue, *map(str, row)] for each, row in zip(rows, cells, strict=True)]))
    seen = sorted({reason for each in pages for reason in each.gaps})
    if seen:
        parts.append("\n".join(f"{reason}: {MEANINGS.get(reason, 'see docs/api.md')}." for reason in seen))
    return "\n\n".join(parts)


def _row(each: Page) -> list[str]:
    gaps = ", ".join(f"{reason} {count}" for reason, count in sorted(each.gaps.items()))
    counts = [each.expected, each.launched, len(each.twice), len(each.early)]
    return [each.job, each.policy, *map(str, counts), gaps or "-", str(len(each.lost))]


def _table(heads: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [heads, *rows]]
    return "\n".join(line.rstrip() for line in lines)
