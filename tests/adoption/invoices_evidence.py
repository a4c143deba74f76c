"""The pages of docs/evidence that a run of `invoices` writes: retries up to the fifth failure, and two replicas with a worker and a leader killed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.adoption import invoices_books as books
from tests.adoption.evidence import lines, table, write
from tests.adoption.invoices_records import LEASE_SECONDS, Records

SHOWN = 10
TOLD = ("elected", "queue is worked")


def five_failures(stage: Records, logs: list[Path]) -> None:
    """Writes docs/evidence/five-failures.md, where it is wanted; ``logs`` are those of controllers and workers."""
    retries = books.retried_when_due(stage)
    late = sorted((request.at - due).total_seconds() for _, due, request in retries)
    first = stage.by_row("doomed")
    rows = [
        [
            row,
            request.header("Soloist-Attempt"),
            due,
            request.at,
            f"{(request.at - due).total_seconds():.3f}",
            request.header("x-idempotency-key"),
            request.header("Soloist-Fence"),
        ]
        for row, due, request in retries
    ]
    letters = stage.rows(
        "SELECT delivery_id, attempts, last_error, at AT TIME ZONE 'UTC' FROM webhook_dead_letters ORDER BY 1"
    )
    write(
        "five-failures",
        "Retries that nothing but their time asks for, up to the fifth failure",
        f"{len(first)} rows of `webhook_deliveries` whose receiver always answers 500, waits of 1 s ± 20 %. `due` is `next_attempt_at` as it "
        "was written with the failure before; nobody called the backend about these rows. "
        f"Of {len(late)} retries the earliest came {late[0]:.3f} s after it was due, the latest {late[-1]:.3f} s.",
        table(["row", "attempt", "due", "received", "seconds late", "x-idempotency-key", "fence"], rows),
        "The fifth failure put them into the backend's own `webhook_dead_letters`:",
        table(["delivery", "attempts", "error", "at"], letters),
        "What the workers logged of it:",
        lines(_told(logs, lambda line: line["message"] == "row given up")),
    )


def two_replicas(stage: Records, logs: list[Path]) -> None:
    """Writes docs/evidence/two-replicas.md, where it is wanted; ``logs`` are those of controllers and workers."""
    requests = stage.by_row("hooks")
    counted = Counter(map(len, requests.values()))
    accepted = Counter(
        len(list(each)) for _, each in groupby(stage.rows("SELECT id FROM accepted WHERE id LIKE 'hooks%%' ORDER BY 1"))
    )
    workers = dict(stage.rows("SELECT fence, worker FROM claim_notes"))
    again = [(row, request) for row, each in sorted(requests.items()) if len(each) > 1 for request in each]
    taken = stage.rows(
        "SELECT was, was_held_until, fence, at, round(extract(epoch FROM at - was_held_until), 3), worker FROM claim_notes"
        " WHERE was IS NOT NULL ORDER BY at"
    )
    terms = stage.rows(
        "SELECT fence, min(at), min(value), max(value), count(*) FROM cursor_notes GROUP BY 1 ORDER BY 1"
    )
    write(
        "two-replicas",
        "Two replicas of everything, a worker killed in the middle of sends, the leader in the middle of a call",
        f"{len(requests)} due rows, two backends, two controllers, two workers, of which one was killed while its requests were on their way, "
        f"and one that came in its place. A claim lasts {LEASE_SECONDS} s unless it is renewed.",
        "## Deliveries per row",
        table(["requests", "rows"], sorted(counted.items())),
        table(["accepted completions", "rows"], sorted(accepted.items())),
        f"Rows of which more than one request came (the first {SHOWN} requests of {len(again)}), with one key each:",
        table(
            ["row", "received", "Idempotency-Key", "fence", "worker"],
            [
                [
                    row,
                    one.at,
                    one.header("Idempotency-Key"),
                    one.header("Soloist-Fence"),
                    _worker(workers, one.header("Soloist-Fence")),
                ]
                for row, one in again[:SHOWN]
            ],
        ),
        "## Claims that ended without an outcome, and who took them over",
        table(["fence", "held until", "next fence", "claimed at", "seconds after", "worker"], taken[:SHOWN]),
        f"{len(taken)} in all.",
        "## The call whose leader was killed",
        "As the backends logged it: the next leader's call waited for the first one's transaction, and had nothing left to do.",
        lines(books.the_call_made_again(stage)),
        "## What the controllers and the workers logged of it",
        lines(_told(logs, lambda line: line["level"] in ("warning", "error") or line["message"] in TOLD)),
        "## The watcher of payments, term by term",
        f"{stage.bank.known} payments, none skipped, none taken twice.",
        table(["fence", "first write", "lowest cursor written", "highest", "writes"], terms),
    )


def _worker(workers: dict[int, str], fence: str | None) -> str:
    return workers.get(int(fence or 0), "")


def _told(logs: list[Path], wanted: Callable[[dict[str, Any]], bool]) -> list[str]:
    """Those lines, in the order of time, each after the name of who said it."""
    found = []
    for log in logs:
        for text in log.read_text(errors="replace").splitlines():
            if text.startswith("{") and text.endswith("}"):
                line = json.loads(text)
                if wanted(line):
                    found.append((str(line["time"]), f"{log.stem}: {text}"))
    return [text for _, text in sorted(found)]
