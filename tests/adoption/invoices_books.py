"""What must hold of the example `invoices` once all is still, of what the receiver, the backend and the database recorded.

The same on a cluster, as processes or as Pods, and without one. Each function asserts, and says of what.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.adoption.claim_notes import claim_of, pace, passed_over
from tests.adoption.invoices_records import SECRET, Records
from tests.cluster.backend import Received

TABLE = "webhook_deliveries"
DELIVERIES, ENDPOINTS, DOOMED = 500, 5, 5
OVERDUE = range(1_000_001, 1_000_021)
DRAFTS, SOON = range(2_000_001, 2_000_006), range(3_000_001, 3_000_006)
"""Invoices that are to be sent, and such as are due in a day, of which their customers are reminded."""
PAID = range(1, 41)
"""Invoices of the bank's first payments."""

POLL = timedelta(milliseconds=250)
ROOM, ON_THEIR_WAY = 16, 4
"""Whoever works has room for one more of any endpoint while fewer claims than that are alive; and looks, one of each worker, that may
have been on their way when there was no room yet."""


def accepted_once(stage: Records) -> None:
    rows = stage.rows("SELECT id, status FROM accepted WHERE id LIKE 'hooks%%'")
    assert Counter(status for _, status in rows) == {"success": DELIVERIES}
    assert len({row for row, _ in rows}) == DELIVERIES
    done = "SELECT count(*) FROM webhook_deliveries WHERE id LIKE 'hooks%%' AND status = 'success' AND attempts = 1"
    assert stage.count(done + " AND delivered_at IS NOT NULL AND last_error IS NULL") == DELIVERIES


def sent_again_under_the_same_keys(stage: Records) -> None:
    requests = stage.by_row("hooks")
    assert len(requests) == DELIVERIES
    for row, each in requests.items():
        assert {one.header("x-idempotency-key") for one in each} == {f"{row}-0"}, "as the poller wrote it"
        assert len({one.header("Idempotency-Key") for one in each}) == 1
        assert {one.header("Soloist-Attempt") for one in each} == {"1"}
        fences = [int(one.header("Soloist-Fence") or 0) for one in each]
        assert fences == sorted(set(fences))
    assert len({each[0].header("Idempotency-Key") for each in requests.values()}) == DELIVERIES
    assert [row for row, each in requests.items() if len(each) > 1], "the killed worker was in the middle of sends"


def claimed_again_in_time(stage: Records) -> None:
    """None before its lease was over, each by the first look after that which had room for it, and looks come a poll apart."""
    taken = stage.rows("SELECT fence, was, at, was_held_until FROM claim_notes WHERE was IS NOT NULL ORDER BY at")
    for fence, was, _, _ in taken:
        assert fence > was
    _soon(stage, [(held_until, at) for _, _, at, held_until in taken], "its lease was over")
    assert stage.count("SELECT count(*) FROM soloist.claims WHERE fence IS NOT NULL") == 0


def signed(request: Received) -> bool:
    """As a receiver has verified it since before there was Soloist."""
    digest = hmac.new(SECRET.encode(), request.body.encode(), hashlib.sha256).hexdigest()
    return hmac.compare_digest(request.header("x-webhook-signature") or "", f"sha256={digest}")


def signed_as_before(stage: Records) -> None:
    paths = {f"/{name}" for (name,) in stage.rows("SELECT id FROM webhook_endpoints")}
    requests = [each for each in stage.receiver.received() if each.path in paths]
    assert len(requests) > DELIVERIES
    assert [each.path for each in requests if not signed(each)] == []


def dead_at_the_fifth_failure(stage: Records) -> None:
    letters = stage.rows(
        "SELECT delivery_id, attempts, last_error, payload ->> 'n' FROM webhook_dead_letters ORDER BY 1"
    )
    assert [(row, tries, number) for row, tries, _, number in letters] == [
        (f"doomed:{number}", 5, str(number)) for number in range(DOOMED)
    ]
    assert all("500" in error for _, _, error, _ in letters)
    for row, requests in stage.by_row("doomed").items():
        assert [each.header("x-idempotency-key") for each in requests] == [f"{row}-{tried}" for tried in range(5)]
        assert len({each.header("Idempotency-Key") for each in requests}) == 1
    failed = "SELECT count(*) FROM webhook_deliveries WHERE id LIKE 'doomed%%' AND status = 'failed' AND attempts = 5"
    assert stage.count(failed) == DOOMED


def retried_when_due(stage: Records) -> list[tuple[str, datetime, Received]]:
    """Each row, when an attempt of it was due, and its request: not before that, by the first look after it, with nobody asking for it."""
    requests = stage.by_row("doomed")
    notes = stage.rows("SELECT id, attempts, due FROM due_notes WHERE id LIKE 'doomed%%' ORDER BY 1, 2")
    found = [(row, due, requests[row][attempts]) for row, attempts, due in notes]
    assert len(found) == 4 * DOOMED
    with stage.connect() as connection:
        claims = [(due, claim_of(connection, int(request.header("Soloist-Fence") or 0))) for _, due, request in found]
    _soon(stage, [(max(due, claim.was_held_until or due), claim.at) for due, claim in claims], "it was due")
    return found


def _soon(stage: Records, claims: list[tuple[datetime, datetime]], what: str) -> None:
    """``claims``: when each row was free, and claimed. However long a busy machine kept everybody from looking."""
    assert claims
    late = sorted((at - free).total_seconds() for free, at in claims)
    assert late[0] >= 0, f"{-late[0]} s before {what}"
    with stage.connect() as connection:
        passed = sorted(passed_over(connection, TABLE, free, at, live=ROOM) for free, at in claims)
        between = pace(connection, TABLE)
    print(
        f"claimed {late[0]:.3f} to {late[-1]:.3f} s after {what}; somebody looked each {between.total_seconds():.3f} s"
    )
    assert passed[len(passed) // 2] == 0, f"looks that passed over each after {what}: {passed}"
    assert passed[-1] <= ON_THEIR_WAY, f"looks that passed over each after {what}: {passed}"
    assert between <= POLL


def the_call_made_again(stage: Records) -> list[dict[str, Any]]:
    """The backend's lines of the call whose launcher was killed: one key, a higher fence, and its work once.

    Twice, or oftener where the machine is so slow that the call timed out before the kill, or the next leader lost its term too.
    """
    calls = stage.asked("overdue-invoices")
    key = next(key for key, times in Counter(each["key"] for each in calls).items() if times > 1)
    made = sorted((line for line in calls if line["key"] == key), key=lambda line: int(line["attempt"]))
    assert [line["attempt"] for line in made] == [str(number) for number in range(1, len(made) + 1)]
    fences = [int(line["fence"]) for line in made]
    assert fences[0] < fences[-1]
    assert fences == sorted(fences)
    did = [line for line in stage.said("done") if line["key"] == key and "attempt" in line]
    assert len(did) >= 2
    assert [line["done"] for line in did if not line.get("before")] == [len(OVERDUE)]
    assert {line["done"] for line in did if line.get("before")} == {0}
    return [*made, *did]


def one_row_for_each(stage: Records, table: str, invoices: Sequence[int]) -> None:
    counted = dict(stage.rows(f"SELECT invoice_id, count(*) FROM {table} GROUP BY 1"))
    assert counted == dict.fromkeys(invoices, 1)


def one_webhook_for_each(stage: Records, endpoint: str, invoices: Sequence[int]) -> None:
    rows = stage.rows(
        "SELECT (d.payload ->> 'invoiceId')::int, count(a.id) FROM webhook_deliveries AS d LEFT JOIN accepted AS a USING (id)"
        " WHERE d.endpoint_id = %s GROUP BY d.id, 1 ORDER BY 1",
        endpoint,
    )
    assert rows == [(number, 1) for number in invoices]


def no_attempt_made_twice(stage: Records, job: str, least: int) -> None:
    asked = Counter((line["key"], line["attempt"]) for line in stage.asked(job))
    assert len(asked) >= least
    assert {which: times for which, times in asked.items() if times > 1} == {}


def no_payment_skipped(stage: Records, handovers: int) -> None:
    taken = [number for (number,) in stage.rows("SELECT number FROM payments ORDER BY 1")]
    assert taken == list(range(1, stage.bank.known + 1))
    moves = stage.rows("SELECT fence, value FROM cursor_notes ORDER BY at")
    fences = [fence for fence, _ in moves]
    assert fences == sorted(fences), "nobody wrote the cursor once a later one had"
    assert len(set(fences)) > handovers
    assert moves[-1][1] == stage.bank.known
