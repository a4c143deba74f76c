"""The example `invoices` without Kubernetes, by the commands of its page: the same manifest, two processes over one database, the leader
killed in the middle of all of it.

One kill hits both: the leader holds claims whose requests are on their way, and a call whose transaction is open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.adoption import invoices_books as books
from tests.adoption import invoices_story as happens
from tests.adoption.backend_process import EXAMPLES
from tests.adoption.invoices import Stage, invoices
from tests.adoption.invoices_books import OVERDUE
from tests.adoption.invoices_story import frozen, lost, released
from tests.cluster.children import until
from tests.postgres.server import Postgres
from tests.standalone.crew import Crew

pytestmark = [pytest.mark.adoption, pytest.mark.slow]

HANDOVERS = [released, lost, frozen, released]
PAGE = (EXAMPLES / "invoices" / "README.md").read_text(encoding="utf-8")
RESUME, STANDALONE, ELECT = re.findall(r"^```bash\n(.+?)\n```$", PAGE.split("## Without Kubernetes")[1], re.DOTALL | re.MULTILINE)  # fmt: skip
"""The page's commands without Kubernetes; the latter two do not end."""


@pytest.fixture(scope="module")
def stage(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """What came of it, once all is still."""
    database, folder = postgres.create_database("invoices_alone"), tmp_path_factory.mktemp("invoices")
    with invoices(database, folder) as made:
        crew = Crew(folder, database.dsn(), made.receiver, command=for_ever(made, STANDALONE))
        try:
            for number in (1, 2):
                made.reader.do(number)
            made.reader.run(RESUME)
            for pod in made.pods.values():
                pod.sidecar.argv = for_ever(made, ELECT)
                pod.sidecar.env = {**made.reader.env, **(pod.sidecar.env or {}), "SOLOIST_LEASE": ""}
            made.start()
            one_leader_is_killed_in_the_middle(made, crew)
            happens.handed_over(made, HANDOVERS)
            yield made
        finally:
            crew.stop()
            for log in sorted(folder.glob("*.log")):
                print(f"---- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
    postgres.drop_database(database.name)


def for_ever(made: Stage, commands: str) -> list[str]:
    """The page's, in the reader's folder; the last of them is the process."""
    *before, last = commands.splitlines()
    return ["bash", "-euc", "\n".join([f"cd {made.reader.root}", *before, f"exec {last}"])]


def one_leader_is_killed_in_the_middle(made: Stage, crew: Crew) -> None:
    nothing = {"SOLOIST_FILE": "", "SOLOIST_DATABASE": ""}  # the page's command says both
    env = {**made.reader.env, **nothing, "SOLOIST_DATA_ALLOW": "127.0.0.0/8"}
    with happens.overdue_call_that_waits(made) as again:
        for name in ("s1", "s2"):
            crew.ready(name, **env)
        leader = crew.leader()
        happens.until_it_waits(made)
        happens.five_hundred_come(made)
        happens.until_one_is_in_the_middle(made, [leader.name])
        leader.kill_both()
        crew.leader(other_than=leader.name)
        until(again, what="the next leader calls again while the first call is open", timeout=120)
    crew.ready(leader.name, **env)
    happens.until_none_is_left(made)
    happens.until_it_is_answered(made)


def test_every_delivery_has_one_accepted_completion(stage: Stage) -> None:
    books.accepted_once(stage)


def test_a_request_that_came_again_had_the_same_keys_and_a_higher_fence(stage: Stage) -> None:
    books.sent_again_under_the_same_keys(stage)
    books.signed_as_before(stage)


def test_what_the_killed_process_held_was_claimed_again_within_lease_and_poll(stage: Stage) -> None:
    books.claimed_again_in_time(stage)


def test_a_fifth_failure_is_in_the_backends_own_dead_letter_table(stage: Stage) -> None:
    books.dead_at_the_fifth_failure(stage)


def test_a_retry_comes_when_it_is_due_with_nobody_asking(stage: Stage) -> None:
    books.retried_when_due(stage)


def test_the_call_whose_leader_was_killed_was_repeated_under_its_key_and_a_higher_fence(stage: Stage) -> None:
    books.the_call_made_again(stage)


@pytest.mark.parametrize("table", ["invoice_status_history", "activity_events", "notifications"])
def test_each_overdue_invoice_has_one_row(stage: Stage, table: str) -> None:
    books.one_row_for_each(stage, table, OVERDUE)
    books.one_webhook_for_each(stage, "overdue", OVERDUE)


@pytest.mark.parametrize("job", ["send-scheduled", "payment-reminders", "overdue-invoices"])
def test_no_attempt_of_a_run_was_made_twice(stage: Stage, job: str) -> None:
    books.no_attempt_made_twice(stage, job, least=2)


def test_hand_overs_of_the_watcher_skip_no_payment(stage: Stage) -> None:
    books.no_payment_skipped(stage, len(HANDOVERS))
