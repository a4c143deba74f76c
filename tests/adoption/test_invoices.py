"""A backend with Prisma gives up its crons, its webhook poller and its watcher as the page says, and loses nothing on the way.

One story for all of it: the page is followed; five hundred deliveries with a worker killed in the middle of sends; twenty invoices
overdue with the leader killed in the middle of the call; the watcher handed over twenty times. The tests hold what the
receiver, the database and the API server recorded against what is promised.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.adoption import invoices_books as books
from tests.adoption import invoices_evidence as evidence
from tests.adoption import invoices_story as happens
from tests.adoption.backend_process import BackendProcess
from tests.adoption.invoices import Cluster, Stage, cluster, invoices
from tests.adoption.invoices_books import DRAFTS, OVERDUE, PAID, SOON, signed
from tests.adoption.invoices_records import AUTHORIZATION
from tests.adoption.invoices_story import frozen, lost, released
from tests.api.crew import Raw
from tests.cluster.backend import Received
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.postgres.server import Postgres

pytestmark = [pytest.mark.adoption, pytest.mark.cluster, pytest.mark.slow]

HANDOVERS = [*[released] * 8, lost, *[released] * 5, frozen, *[released] * 5]
assert len(HANDOVERS) == 20


@dataclass
class Story:
    """What came of it, once all is still."""

    stage: Stage
    cluster: Cluster
    before: Received | None = None
    checked: str = ""
    runs: list[Raw] = field(default_factory=list)
    looked: str = ""


@pytest.fixture(scope="module")
def story(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    postgres: Postgres,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Story]:
    """Told once; the evidence of it is written when nothing was found wrong with it."""
    failed = request.session.testsfailed
    database, folder = postgres.create_database("invoices"), tmp_path_factory.mktemp("invoices")
    with cluster(control_plane, folder) as installed:
        config = control_plane.kubeconfig(folder / "elect.kubeconfig", namespace=installed.namespace.name)
        with invoices(database, folder, namespace=installed.namespace, KUBECONFIG=str(config)) as stage:
            made = Story(stage, installed)
            try:
                before_adoption(made)
                adoption(made)
                deliveries_with_a_worker_killed(made)
                happens.some_are_sent_and_some_reminded_of(stage)
                overdue_with_the_leader_killed(made)
                payments_with_the_watcher_handed_over(made)
                made.looked = stage.reader.do(8)
                yield made
                if request.session.testsfailed == failed:
                    logs = [*folder.glob("c?.log"), *folder.glob("w?.log")]
                    evidence.five_failures(stage, logs)
                    evidence.two_replicas(stage, logs)
            finally:
                for log in sorted(folder.glob("*.log")):
                    print(f"---- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
    postgres.drop_database(database.name)


def before_adoption(made: Story) -> None:
    """The backend with its own timers sends one row."""
    stage = made.stage
    stage.reader.do(1)
    stage.endpoint("before")
    stage.deliveries(1, "before")
    env = {"DATABASE_URL": stage.database.dsn(), "PAYMENTS_URL": stage.bank.url, "TIMERS": "on"}
    old = BackendProcess("invoices", "before", stage.folder, **env)
    old.start()
    (made.before,) = stage.receiver.wait(1, path="/before")
    happens.until_none_is_left(stage)
    old.kill()


def adoption(made: Story) -> None:
    stage = made.stage
    for number in (2, 3):
        stage.reader.do(number)
    made.checked = stage.reader.do(5)
    stage.reader.do(6)
    stage.start()
    for name in ("c1", "c2"):
        made.cluster.crew.start(name)
    for name in ("w1", "w2"):
        made.cluster.worker(name)


def deliveries_with_a_worker_killed(made: Story) -> None:
    stage, workers = made.stage, made.cluster.workers
    happens.five_hundred_come(stage)
    stage.reader.do(7)
    workers[happens.until_one_is_in_the_middle(stage, list(workers))].kill()
    made.cluster.worker("w3")
    happens.until_none_is_left(stage)


def overdue_with_the_leader_killed(made: Story) -> None:
    stage, crew = made.stage, made.cluster.crew
    with happens.overdue_call_that_waits(stage) as again:
        happens.until_it_waits(stage)
        leader = crew.leader()
        leader.kill_both()
        crew.leader(other_than=leader.name, timeout=120)
        until(again, what="the next leader calls again while the first call is open", timeout=120)
    crew.start(leader.name)
    made.runs = until(lambda: repeated(crew.runs("overdue-invoices")), what="that run has ended", timeout=120)
    happens.until_sent(stage, "overdue", len(OVERDUE))


def repeated(runs: list[Raw]) -> list[Raw]:
    """Those that are over and took more than one attempt."""
    over = ("Succeeded", "Failed", "Unknown", "Interrupted")
    found = [(run, run.get("status", {})) for run in runs]
    return [run for run, status in found if status.get("attempt", 0) > 1 and status.get("phase") in over]


def payments_with_the_watcher_handed_over(made: Story) -> None:
    stage = made.stage
    stage.endpoint("paid")
    stage.invoices(PAID[0], len(PAID), "paid", due="30 days")
    happens.handed_over(stage, HANDOVERS)
    happens.until_sent(stage, "paid", len(PAID))


# The page


def test_the_page_was_followed_to_its_end(story: Story) -> None:
    assert story.stage.reader.whole()
    assert story.stage.reader.steps[-1].title == "What you delete"


def test_the_check_of_the_page_finds_nothing_in_the_way(story: Story) -> None:
    assert "Nothing stops the queue but spec.suspend: true." in story.checked, story.checked


def test_the_looks_of_the_page_show_the_jobs_and_the_dead_letters(story: Story) -> None:
    for word in ("overdue-invoices", "webhook-deliveries", "doomed:0"):
        assert word in story.looked


# Deliveries


def test_every_delivery_has_one_accepted_completion(story: Story) -> None:
    books.accepted_once(story.stage)


def test_a_request_that_came_again_had_the_same_keys_and_a_higher_fence(story: Story) -> None:
    books.sent_again_under_the_same_keys(story.stage)


def test_what_a_killed_worker_held_was_claimed_again_within_lease_and_poll(story: Story) -> None:
    books.claimed_again_in_time(story.stage)


def test_the_old_signature_and_headers_are_as_before(story: Story) -> None:
    assert story.before is not None
    assert signed(story.before)
    assert story.before.header("Soloist-Fence") is None
    assert story.before.header("x-idempotency-key") == "before:0-0"
    books.signed_as_before(story.stage)
    hook = story.stage.receiver.received("/hooks")[0]
    old, new = (
        {name.lower() for name in each.headers if name.lower().startswith("x-")} for each in (story.before, hook)
    )
    assert old == new
    assert json.loads(hook.body).keys() == json.loads(story.before.body).keys()


def test_a_fifth_failure_is_in_the_backends_own_dead_letter_table(story: Story) -> None:
    books.dead_at_the_fifth_failure(story.stage)


def test_a_retry_comes_when_it_is_due_with_nobody_asking(story: Story) -> None:
    books.retried_when_due(story.stage)


# Jobs


def test_the_call_whose_leader_was_killed_was_repeated_under_its_key_and_a_higher_fence(story: Story) -> None:
    books.the_call_made_again(story.stage)
    for run in story.runs:
        assert run["status"]["phase"] == "Succeeded", run["status"]


@pytest.mark.parametrize("table", ["invoice_status_history", "activity_events", "notifications"])
def test_each_sent_overdue_and_paid_invoice_has_one_row_and_each_that_is_due_soon_one_reminder(
    story: Story, table: str
) -> None:
    reminded = SOON if table == "notifications" else []
    books.one_row_for_each(story.stage, table, [*OVERDUE, *PAID, *DRAFTS, *reminded])


def test_each_moved_invoice_has_one_webhook_that_was_accepted_once(story: Story) -> None:
    books.one_webhook_for_each(story.stage, "sent", DRAFTS)
    books.one_webhook_for_each(story.stage, "overdue", OVERDUE)
    books.one_webhook_for_each(story.stage, "paid", PAID)


@pytest.mark.parametrize("job", ["send-scheduled", "payment-reminders", "overdue-invoices"])
def test_no_attempt_of_a_run_was_made_twice(story: Story, job: str) -> None:
    books.no_attempt_made_twice(story.stage, job, least=3)


def test_an_internal_endpoint_refuses_a_stranger_and_a_leader_of_the_past(story: Story) -> None:
    backend, path = story.stage.backends["b1"], "/internal/jobs/overdue-invoices"
    assert backend.ask(path, "POST", Authorization="Bearer of-nobody")[0] == 401
    key = story.stage.asked("overdue-invoices")[0]["key"]
    stale: dict[str, Any] = {"Idempotency_Key": key, "Soloist_Fence": "1", "Authorization": AUTHORIZATION}
    assert backend.ask(path, "POST", **stale)[0] == 409


def test_a_backend_that_was_told_no_word_lets_nobody_in_and_ends_when_asked(story: Story) -> None:
    env = {"DATABASE_URL": story.stage.database.dsn(), "SOLOIST_SIDECAR": "http://127.0.0.1:9"}
    untold = BackendProcess("invoices", "untold", story.stage.folder, **env)
    untold.start()
    try:
        assert untold.ask("/internal/jobs/send-scheduled", "POST")[0] == 401
        untold.terminate()
    finally:
        untold.kill()


# The watcher


def test_twenty_hand_overs_of_the_watcher_skip_no_payment(story: Story) -> None:
    assert story.stage.bank.known > len(PAID)
    books.no_payment_skipped(story.stage, len(HANDOVERS))
