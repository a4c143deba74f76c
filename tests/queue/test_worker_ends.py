"""How claims end, on each kind of table: by a death, a hold, a shutdown, or a delivery that goes wrong; and what is left of them."""

from __future__ import annotations

import itertools
from statistics import median

import pytest

from tests.cluster.children import until
from tests.queue.kinds import KINDS, Table, made
from tests.queue.workers import Crew, Worker

LEASE = 10
POLL = 0.25
pytestmark = pytest.mark.slow
on_each_kind = pytest.mark.parametrize("kind", KINDS)


def on_each_kind_but_long_on(slow: str) -> pytest.MarkDecorator:
    """Of those that wait for several leases the gate has two."""
    long = {slow: pytest.mark.long}
    return pytest.mark.parametrize("kind", [pytest.param(kind, marks=long.get(kind, ())) for kind in KINDS])


def ready(table: Table, name: str, **env: str) -> Worker:
    return table.crew.ready(name, **table.env, **env)


@on_each_kind
@pytest.mark.parametrize(("rows", "of_four"), [(16, 1), pytest.param(60, 3, marks=pytest.mark.long)])
def test_a_dead_ones_row_is_claimed_within_a_poll_interval_of_its_leases_end_and_never_before(
    crew: Crew, kind: str, rows: int, of_four: int
) -> None:
    """Both moments are the database's. The leases are made to end one after the other, so that each is met by a poll of its
    own. How many polls a busy machine keeps waiting is not the queue's: those of so many quarters are held to the interval."""
    table = made(crew, kind, leaseSeconds=LEASE, concurrency={"perWorker": rows})
    crew.backend.rule(hang=True, times=rows)
    table.add(rows)
    dead = ready(table, "dead")
    crew.backend.wait(rows, path=table.path)
    dead.kill()
    table.let_leases_end(3600, 0)
    ready(table, "alive")
    table.let_leases_end(1, 0.43)
    table.until_over()
    assert {len(requests) for requests in table.audit(rows).values()} == {2}
    late = crew.late()
    print(f"claimed {late[0]:.3f} to {late[-1]:.3f} s after their leases, {median(late):.3f} in the middle")
    assert len(late) == rows
    assert late[0] >= 0
    assert late[rows * of_four // 4] <= POLL


@on_each_kind_but_long_on("inline")
def test_with_hold_nothing_is_sent_twice_and_what_was_in_a_dead_ones_hands_is_parked(crew: Crew, kind: str) -> None:
    rows, slots = 200, 8
    table = made(crew, kind, leaseSeconds=LEASE, afterCrash="Hold", concurrency={"perWorker": slots})
    table.add(rows)
    crew.backend.rule(delay=0.05)
    names = itertools.count()
    member = ready(table, f"w{next(names)}")
    for _ in range(3):
        table.goes_on(20)
        member.kill()
        member = crew.start(f"w{next(names)}", **table.env)
    table.until_over()
    crew.rest()
    found, letters = table.received(), table.letters()
    assert {len(requests) for requests in found.values()} == {1}, "each at most once"
    assert 0 < len(letters) <= 3 * slots * 4
    assert {reason for reason, _ in letters.values()} == {"Interrupted"}
    assert found.keys() | letters.keys() == set(range(1, rows + 1))
    assert table.accepted() + len(letters) == rows, "parked and done are all"
    assert min(crew.late(), default=0.0) >= 0


@on_each_kind_but_long_on("sidecar")
def test_a_row_that_kills_its_worker_ends_as_a_dead_letter_and_starves_no_other(crew: Crew, kind: str) -> None:
    rows = 100
    table = made(crew, kind, leaseSeconds=LEASE, maxReclaims=1, concurrency={"perWorker": 1})
    crew.backend.rule(holding='"n": 1}', kill_caller=True)
    names = itertools.count()
    member = crew.start(f"w{next(names)}", **table.env)
    table.add(rows)
    for _ in range(2):
        member.gone()
        member = crew.start(f"w{next(names)}", **table.env)
    table.until_over()
    found = table.received()
    assert found.keys() == set(range(1, rows + 1))
    assert {n: len(requests) for n, requests in found.items() if len(requests) > 1} == {1: 2}
    assert table.letters() == {1: ("ReclaimedTooOften", 2)}
    buried = "soloist_queue_dead_total"
    until(lambda: member.metric(buried, reason="ReclaimedTooOften") == 1, what="it is counted", timeout=240)


@on_each_kind
def test_a_worker_that_is_told_to_go_under_load_leaves_nothing_behind_and_uses_no_attempt(
    crew: Crew, kind: str
) -> None:
    rows, slots = 300, 32
    table = made(crew, kind, leaseSeconds=600, concurrency={"perWorker": slots}, http={"timeoutSeconds": 60})
    crew.backend.rule(delay=0.3)
    table.add(rows)
    going = ready(table, "going", SOLOIST_GRACE="8")
    crew.backend.wait(100, path=table.path)
    crew.backend.rule(hang=True)
    until(lambda: table.served() >= slots, what="all slots hang", timeout=90)
    going.terminate()
    assert going.gone() == 0
    crew.rest()
    rest = table.left()
    assert rest >= slots
    assert table.used() == 0
    crew.backend.clear()
    before = len(crew.backend.received(table.path))
    ready(table, "next")
    table.until_over()
    table.audit(rows)
    assert len(crew.backend.received(table.path)) == before + rest, (
        "taken at once, long before a lease would have ended"
    )


@on_each_kind
def test_however_a_delivery_goes_wrong_its_claim_ends_and_the_row_comes_again(crew: Crew, kind: str) -> None:
    retry = {"schedule": ["1s"], "jitter": 0, **({"maxAttempts": 3} if kind == "managed" else {})}
    table = made(crew, kind, retry=retry, http={"timeoutSeconds": 10})
    if kind != "managed":
        with crew.connect() as connection:
            connection.execute('ALTER TABLE app."WebhookDelivery" ALTER COLUMN "maxAttempts" SET DEFAULT 3')
    troubles = {1: {"reset": True}, 2: {"status": 500}, 3: {"hang": True}}
    for n, trouble in troubles.items():
        crew.backend.rule(holding=f'"n": {n}}}', times=1, **trouble)
    crew.backend.rule(holding='"n": 4}', status=503)
    table.add(5)
    ready(table, "w")
    table.until_over()
    crew.rest()
    tried = {n: [each.header("Soloist-Attempt") for each in requests] for n, requests in table.received().items()}
    assert tried == {n: ["1", "2"] for n in troubles} | {4: ["1", "2", "3"], 5: ["1"]}
    assert table.letters() == {4: ("Failed", 0)}
