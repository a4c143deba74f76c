"""The invoices of manifests/examples as Pods, by their page: a worker is killed in the middle of sends, the leader in the middle of a call,
and the watcher of payments is handed over with its Pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.adoption import invoices_books as books
from tests.adoption import invoices_story as happens
from tests.adoption.bank import Bank
from tests.adoption.invoices_books import DRAFTS, OVERDUE, PAID, SOON
from tests.adoption.invoices_records import AUTHORIZATION, QUICKER, Records
from tests.adoption.page import Reader
from tests.cluster.children import until
from tests.cluster.fixtures import Namespace
from tests.e2e.backend_image import backend_archive
from tests.e2e.site import NAMESPACE, PATIENCE, Site

SPACE = "default"
"""As the page has it: jobs ask ``backend.default.svc``."""
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases/payments"


@dataclass
class Pods(Records):
    """Of the backend, as its Deployment has them."""

    site: Site

    def names(self) -> list[str]:
        found = self.site.node.api().items(f"/api/v1/namespaces/{SPACE}/pods?labelSelector=app%3Dbackend")
        return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def log(self) -> list[str]:
        logs = [self.site.node.kubectl("-n", SPACE, "logs", name, "-c", "backend") for name in self.names()]
        return [line for log in logs for line in log.splitlines()]

    def rolled_out(self) -> None:
        self.site.node.kubectl("-n", SPACE, "rollout", "status", "deployment/backend", "--timeout=120s")

    def watcher(self) -> str:
        """The Pod that holds the Lease; empty while none does."""
        spec = (self.site.node.api().find(LEASE) or {}).get("spec", {})
        return str(spec.get("holderIdentity") or "").split("_")[0]


@pytest.fixture(scope="module")
def pods(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    """The page followed to its sixth step: two Pods with their timers off, and all of Soloist's suspended."""
    archive, tag = backend_archive("invoices")
    site.node.load(archive)
    site.node.tag(tag, "docker.io/library/backend:1")
    site.node.tag(site.image.tag, "docker.io/library/soloist:0.1.0")
    database = site.postgres.create_database("invoices")
    url = f"{site.dsn().rpartition('/')[0]}/{database.name}"
    with Bank(site.node.address) as bank:
        space = Namespace(name=SPACE, cluster=site.node)
        put = {**QUICKER, "http://bank/payments": bank.url}
        folder: Path = tmp_path_factory.mktemp("invoices")
        reader = Reader(
            "invoices",
            folder,
            space,
            put=put,
            DATABASE_URL=url,
            AUTHORIZATION=AUTHORIZATION,
            BACKEND="http://backend.default.svc",
        )
        made = Pods(database, site.backend, bank, reader, site)
        for number in (1, 2, 3):
            reader.do(number)
        made.note()
        said = reader.do(5)
        assert "Nothing stops the queue but spec.suspend: true." in said, said
        reader.do(6)
        made.rolled_out()
        yield made
        for name in ("soloist.yaml", "backend.yaml"):
            site.node.kubectl("-n", SPACE, "delete", "--wait=false", "-f", reader.example / name)
        site.node.kubectl("-n", SPACE, "delete", "secret", "backend")


def test_a_worker_killed_in_the_middle_of_sends_loses_nothing_and_repeats_nothing_that_was_accepted(
    site: Site, pods: Pods
) -> None:
    happens.five_hundred_come(pods)
    pods.reader.do(7)
    workers = [pod["metadata"]["name"] for pod in site.pods_of("worker")]
    site.node.kill(NAMESPACE, happens.until_one_is_in_the_middle(pods, workers))
    happens.until_none_is_left(pods)
    books.accepted_once(pods)
    books.sent_again_under_the_same_keys(pods)
    books.claimed_again_in_time(pods)
    books.dead_at_the_fifth_failure(pods)
    books.retried_when_due(pods)
    again = sum(len(requests) > 1 for requests in pods.by_row("hooks").values())
    site.tell(f"invoices: {books.DELIVERIES} deliveries accepted once each, {again} of them sent again after a kill")


def test_a_call_whose_leader_is_killed_is_made_again_and_does_its_work_once(site: Site, pods: Pods) -> None:
    happens.some_are_sent_and_some_reminded_of(pods)
    with happens.overdue_call_that_waits(pods) as again:
        happens.until_it_waits(pods)
        site.handed_over("in the middle of a call", site.kill_container)
        until(again, what="the next leader calls again while the first call is open", timeout=PATIENCE)
    happens.until_it_is_answered(pods)
    books.the_call_made_again(pods)
    for job in ("send-scheduled", "payment-reminders", "overdue-invoices"):
        books.no_attempt_made_twice(pods, job, least=2)
    books.one_webhook_for_each(pods, "sent", DRAFTS)
    books.one_webhook_for_each(pods, "overdue", OVERDUE)


def test_the_watcher_goes_on_where_the_one_before_was_deleted(site: Site, pods: Pods) -> None:
    pods.endpoint("paid")
    pods.invoices(PAID[0], len(PAID), "paid", due="30 days")
    pods.bank.open()
    ways = ([], ["--force", "--grace-period=0"])
    for how in ways:
        happens.until_it_moves(pods)
        before = until(pods.watcher, what="a Pod watches the payments", timeout=PATIENCE)
        site.node.kubectl("-n", SPACE, "delete", "pod", before, "--wait=false", *how)
        until(lambda before=before: pods.watcher() not in ("", before), what="another watches", timeout=PATIENCE)
        happens.until_it_moves(pods)
        pods.rolled_out()
    happens.payments_end(pods)
    happens.until_sent(pods, "paid", len(PAID))
    books.no_payment_skipped(pods, len(ways))
    site.tell(f"invoices: {pods.bank.known} payments, none skipped over {len(ways)} hand-overs of their watcher")


@pytest.mark.parametrize("table", ["invoice_status_history", "activity_events", "notifications"])
def test_each_invoice_has_one_row(pods: Pods, table: str) -> None:
    reminded = SOON if table == "notifications" else []
    books.one_row_for_each(pods, table, [*OVERDUE, *PAID, *DRAFTS, *reminded])


def test_all_that_was_sent_has_the_old_signature_and_the_page_was_followed_to_its_end(pods: Pods) -> None:
    books.signed_as_before(pods)
    looked = pods.reader.do(8)
    for word in ("overdue-invoices", "webhook-deliveries", "doomed:0"):
        assert word in looked
    assert pods.reader.whole()
