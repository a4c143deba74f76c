"""What happens to the example `invoices`, on a cluster and without one: rows come, somebody is killed, the watcher is handed over."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.adoption.invoices import Stage
from tests.adoption.invoices_books import DELIVERIES, DOOMED, DRAFTS, ENDPOINTS, OVERDUE, PAID, SOON
from tests.adoption.invoices_records import Records
from tests.api.elect_pods import Pod, holder
from tests.cluster.children import until

LEFT = "SELECT count(*) FROM webhook_deliveries WHERE status = 'pending'"
DRAFT = (
    "UPDATE invoices SET status = 'draft', send_at = now() AT TIME ZONE 'UTC' WHERE id BETWEEN %s AND %s RETURNING id"
)
REMINDED = "SELECT count(*) FROM invoices WHERE reminded_at IS NOT NULL AND id BETWEEN %s AND %s"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'invoice_status_history'::regclass"


def five_hundred_come(stage: Records) -> None:
    """To endpoints that take half a second for each, and some to one that always fails."""
    stage.receiver.rule("/hooks", delay=0.5)
    stage.receiver.rule("/doomed", status=500)
    for number in range(ENDPOINTS):
        stage.endpoint(f"hooks{number}")
        stage.deliveries(DELIVERIES // ENDPOINTS, f"hooks{number}")
    stage.endpoint("doomed")
    stage.deliveries(DOOMED, "doomed")


def until_one_is_in_the_middle(stage: Records, workers: list[str]) -> str:
    """Which of them holds claims while the receiver is at work on requests."""
    stage.receiver.wait(120, path="/hooks", timeout=120)
    return until(lambda: _in_the_middle(stage, workers), what="a worker is in the middle of sends", timeout=120)


def _in_the_middle(stage: Records, workers: list[str]) -> str:
    holding = "SELECT worker FROM soloist.claims WHERE fence IS NOT NULL GROUP BY 1 HAVING count(*) >= 10"
    held = [str(worker) for (worker,) in stage.rows(holding)]
    serving = sum(each.ended_boot is None for each in stage.receiver.received("/hooks"))
    return next((name for name in workers if serving >= 10 and any(each.startswith(name) for each in held)), "")


def some_are_sent_and_some_reminded_of(stage: Records) -> None:
    """By the two jobs that come oftener than once a night."""
    stage.endpoint("sent")
    stage.invoices(DRAFTS[0], len(DRAFTS), "sent", due="30 days")
    stage.rows(DRAFT, DRAFTS[0], DRAFTS[-1])
    stage.invoices(SOON[0], len(SOON), "sent", due="1 day")
    until_sent(stage, "sent", len(DRAFTS))
    until(lambda: stage.count(REMINDED, SOON[0], SOON[-1]) == len(SOON), what="reminders are written", timeout=120)


@contextmanager
def overdue_call_that_waits(stage: Records) -> Iterator[Callable[[], bool]]:
    """Inside, the transaction of a call for the overdue invoices waits for a lock of ours. Gives: has a later leader called it again?"""
    stage.endpoint("overdue")
    with stage.connect() as held, held.transaction():
        held.execute("LOCK TABLE invoice_status_history IN SHARE ROW EXCLUSIVE MODE")
        stage.invoices(OVERDUE[0], len(OVERDUE), "overdue", due="-1 day")
        yield lambda: _fences_of_the_open_call(stage) > 1


def until_it_waits(stage: Records) -> None:
    until(lambda: stage.count(WAITING) > 0, what="a call is in the middle of its work", timeout=120)


def _fences_of_the_open_call(stage: Records) -> int:
    """Of the call that has begun and not ended: how many leaders have made it."""
    done = {line["key"] for line in stage.said("done")}
    made = {(line["key"], line["fence"]) for line in stage.asked("overdue-invoices") if line["key"] not in done}
    return max(Counter(key for key, _ in made).values(), default=0)


def until_it_is_answered(stage: Records) -> None:
    """Both times."""
    until(lambda: stage.said("before"), what="the repeated call was answered", timeout=120)
    until_sent(stage, "overdue", len(OVERDUE))


def until_sent(stage: Records, endpoint: str, count: int) -> None:
    sent = "SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = %s AND status = 'success'"
    until(lambda: stage.count(sent, endpoint) == count, what=f"the webhooks to {endpoint} are sent", timeout=120)


def until_none_is_left(stage: Records) -> None:
    until(lambda: stage.count(LEFT) == 0, what="no delivery is left", timeout=180)


# The watcher


def released(pod: Pod) -> None:
    """As at a rollout."""
    assert pod.ask("/payments/release?for=1s", "POST")[0] == 202


def lost(pod: Pod) -> None:
    """The whole Pod at once, as with its node."""
    pod.signal_all(signal.SIGKILL)
    until(lambda: not pod.sidecar.alive() and not pod.app.alive(), what=f"{pod.name} is gone", timeout=30)


def frozen(pod: Pod) -> None:
    pod.signal_all(signal.SIGSTOP)


def thawed(pod: Pod) -> None:
    pod.signal_all(signal.SIGCONT)


BACK: dict[Callable[[Pod], None], Callable[[Pod], None]] = {released: lambda pod: None, lost: Pod.start, frozen: thawed}


def handed_over(stage: Stage, ways: list[Callable[[Pod], None]]) -> None:
    """The holder of the watcher is taken out in each of these ways, while payments come; the last of them is taken after."""
    stage.bank.open()
    pods = list(stage.pods.values())
    for take_out in ways:
        first = holder(pods, lease="payments")
        until_it_moves(stage)
        take_out(first)
        _until_another_holds(pods, first, again=take_out is released)
        until_it_moves(stage)
        BACK[take_out](first)
        until(lambda first=first: _stands_by(first), what=f"{first.name} stands by", timeout=120)
    payments_end(stage)


def _until_another_holds(pods: list[Pod], first: Pod, *, again: bool) -> None:
    """``again``: where the others are slow, a former holder may take what it released, and has to release it again."""

    def another() -> bool:
        if again and first.ask("/payments")[0] == 200:
            released(first)
        return any(pod.ask("/payments")[0] == 200 for pod in pods if pod is not first)

    until(another, what=f"another than {first.name} holds payments", timeout=120)


def _stands_by(pod: Pod) -> bool:
    """It would take the Lease, and somebody else has it."""
    status, said = pod.ask("/payments")
    return status == 409 and said["reason"] == "NotHolder" and said["heldBy"] != ""


def payments_end(stage: Records) -> None:
    """Not before those of the invoices have come."""
    until(lambda: cursor(stage) >= PAID[-1], what="the invoices' payments are taken", timeout=120)
    stage.bank.close()
    until(lambda: cursor(stage) == stage.bank.known, what="the last payment is taken", timeout=120)


def cursor(stage: Records) -> int:
    """The number of the last payment that was taken; 0 before the first."""
    rows = stage.rows("SELECT (value #>> '{}')::int FROM soloist.checkpoints WHERE name = 'payments'")
    return int(rows[0][0]) if rows else 0


def until_it_moves(stage: Records) -> None:
    was = cursor(stage)
    until(lambda: cursor(stage) > was, what=f"the cursor moves on from {was}", timeout=120)
