"""A payroll adopts Soloist by its page, and pays at most once: workers scaled, and killed between a payment and its record.

The provider heeds no keys: what it is asked twice it pays twice. So what may have been paid and was not recorded is held for a person.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from tests.adoption import payroll_evidence
from tests.adoption.payroll_books import Schedules, middle
from tests.adoption.payroll_stage import TOKEN, Payroll
from tests.adoption.service import Service
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.postgres.server import Postgres

pytestmark = [pytest.mark.adoption, pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def payroll(cluster_binaries: None, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Payroll]:
    """Its cluster has none of our kinds before the page installs them, and its database no schema of ours."""
    folder = tmp_path_factory.mktemp("payroll")
    place = postgres.create_database(f"payroll_{uuid.uuid4().hex[:8]}")
    with ControlPlane() as cluster, Backend(folder / "provider") as provider, Service() as service:
        made = Payroll(cluster, place, provider, service, folder)
        try:
            made.install()
            yield made
        finally:
            made.down()
    postgres.drop_database(place.name)


@pytest.fixture
def stage(payroll: Payroll) -> Iterator[Payroll]:
    """Without workers, and with both backends, before and after."""
    payroll.provider_takes(0.2)
    yield payroll
    payroll.stop(*payroll.workers)
    for backend in payroll.backends.values():
        if not backend.child.alive():
            backend.start()


def test_it_is_installed_by_kustomize_over_the_plain_manifest(stage: Payroll) -> None:
    spec = stage.deployment()["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == 70
    assert spec["containers"][0]["image"] == "registry.example.com/soloist:0.1.0"
    scaler = stage.cluster.api().get("/apis/autoscaling/v2/namespaces/soloist/horizontalpodautoscalers/soloist-worker")
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (2, 10)
    for secret, answer in (("soloist-payroll", "yes"), ("another", "no")):
        assert may_read(stage, secret) == answer
    again = stage.cluster.kubectl("apply", "--server-side", "--dry-run=server", "-k", stage.reader.example).splitlines()
    assert len(again) > 20
    assert [line for line in again if not line.endswith(" serverside-applied (server dry run)")] == []


def may_read(stage: Payroll, secret: str) -> str:
    worker = "system:serviceaccount:soloist:soloist-worker"
    asked = ("auth", "can-i", "get", f"secret/{secret}", "-n", "payroll", "--as", worker)
    try:
        return stage.cluster.kubectl(*asked).strip()
    except subprocess.CalledProcessError as refused:
        return str(refused.stdout).strip()


@pytest.mark.parametrize("pods", [4, 1], ids=["two backends, workers from two to four and back", "one pod of each"])
def test_each_period_of_each_schedule_is_paid_at_most_once_and_recorded_or_held(stage: Payroll, pods: int) -> None:
    schedules, workers, alone = stage.schedules, ["w0", "w1"][:pods], pods == 1
    if alone:
        stage.backends["b1"].kill()
    stage.start(*workers)
    twice = schedules.add(10, overdue="40 days")
    books = schedules.until_settled(twice)
    assert (len(books.recorded), books.held) == (20, {}), "both periods are paid"
    keys = schedules.ask(
        "SELECT count(DISTINCT key) FROM idempotency_keys WHERE (request ->> 'id')::int = ANY (%s)", twice
    )
    assert keys == 20, "each under a key of its own"

    # Two more come, and go while they are at work.
    more = ["w2", "w3"][: max(pods - 2, 0)]
    stage.start(*more)
    stage.provider_takes(0.7)
    monthly = schedules.add(90)
    until(lambda: {*workers, *more} <= schedules.at_work(), what="all of them are at work", timeout=60)
    stage.stop(*more)
    stage.provider_takes(0.2)
    books = schedules.until_settled(monthly)
    assert (len(books.recorded), books.held) == (90, {}), "scaling holds nothing"

    # A worker dies while the provider is at it; the backend lives to record it.
    ids = schedules.add(25, stuck={"delay": 5})
    outlived = middle(ids)
    schedules.until_paid(outlived)
    killed = schedules.worker_of(outlived)
    stage.kill(killed)
    stage.start(f"{killed}-again")
    until(lambda: schedules.is_recorded(outlived), what="the backend has recorded it", timeout=60)

    # A backend dies after the payment and before its record; the other goes on, or itself once it is there again.
    ids += schedules.add(25, stuck={"hang": True})
    broken_off = middle(ids[25:])
    schedules.until_paid(broken_off)
    dead = stage.kill_backend_of(broken_off)
    if alone:
        dead.start()
    assert broken_off in {pair[0] for pair in schedules.until_settled(ids).held}
    if not alone:
        dead.start()

    # Both die: nobody is left who could say anything.
    ids += schedules.add(50, stuck={"hang": True})
    lost = middle(ids[50:])
    schedules.until_paid(lost)
    killed = schedules.worker_of(lost)
    stage.kill(killed)
    stage.kill_backend_of(lost).start()
    stage.start(f"{killed}-again")

    ids += [*twice, *monthly]
    books = schedules.until_settled(ids)
    held = {pair[0] for pair in books.held}
    print(f"{len(ids)} schedules, {len(books.due)} due, {len(books.recorded)} recorded, {len(held)} held")
    assert (len(ids), len(books.due)) == (200, 210)
    assert len(books.recorded) + len(books.held) == 210
    assert {broken_off, lost} <= held
    assert outlived not in held
    assert not held & {*twice, *monthly}
    listed = {(int(letter["row"][0]), letter["reason"]) for letter in stage.letters()}
    assert {(id_, reason) for (id_, _), reason in books.held.items()} <= listed, "soloist queue dead shows them"
    if not alone:
        killed = {"worker": outlived, "backend": broken_off, "both": lost}
        payroll_evidence.write(stage, books, killed)
    bodies = [json.loads(each.body) for each in schedules.payments()]
    asked = {(body["schedule"], body["organisation"]) for body in bodies}
    assert asked <= set(schedules.rows("SELECT id, organisation_id FROM schedules"))


def test_what_is_held_is_settled_by_a_person_as_the_page_says(stage: Payroll) -> None:
    schedules = stage.schedules
    stage.start("w0")
    (paid,) = schedules.add(1, stuck={"hang": True})
    schedules.until_paid(paid)
    stage.kill_backend_of(paid).start()
    unpaid = interrupted_before_its_payment(stage)
    assert len(schedules.until_settled([paid, unpaid]).held) == 2
    letters = {int(letter["row"][0]): letter for letter in stage.letters()}
    assert "Interrupted" in stage.reader.do(7, only="queue dead")
    for schedule, only in ((paid, "purge"), (unpaid, "retry")):
        letter = letters[schedule]
        stage.reader.env |= {"SCHEDULE": str(schedule), "LETTER": str(letter["id"]), "DUE": letter["due"]}
        said = stage.reader.do(7, only=only)
        assert ("UPDATE 1" in said) == (schedule == paid), said
    books = schedules.until_settled([paid, unpaid])
    assert (len(books.recorded), books.held) == (2, {})
    assert stage.reader.whole()


def interrupted_before_its_payment(stage: Payroll) -> int:
    """A schedule whose backend died behind the middleware, before it asked the provider for anything."""
    schedules, place = stage.schedules, stage.schedules.place
    with place.connect(autocommit=False) as gate, place.connect(autocommit=False) as lock:
        gate.execute("LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE")
        (schedule,) = schedules.add(1)
        until(lambda: waiting(schedules, "INSERT INTO idempotency_keys"), what="it is at the middleware", timeout=60)
        lock.execute("SELECT FROM schedules WHERE id = %s FOR UPDATE", (schedule,))
        gate.commit()
        name = until(lambda: waiting(schedules, "SELECT id, organisation_id"), what="it is at the row", timeout=60)
        stage.backends[name].kill()
    stage.backends[name].start()
    return schedule


def waiting(schedules: Schedules, query: str) -> str:
    """The backend whose query waits for a lock."""
    found = "SELECT application_name FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s || '%%'"
    return next((str(name) for (name,) in schedules.rows(found, query)), "")


def test_a_refused_payment_is_tried_again_and_one_that_nobody_knows_of_is_not(stage: Payroll) -> None:
    schedules = stage.schedules
    stage.start("w0")
    (refused,) = schedules.add(1, stuck={"status": 402})
    until(lambda: schedules.is_recorded(refused), what="it is paid in the end", timeout=60)
    (doubtful,) = schedules.add(1, stuck={"status": 500})
    given_up = "SELECT count(*) FROM soloist.dead_rows WHERE pk = ARRAY[%s::text]"
    until(lambda: schedules.ask(given_up, doubtful), what="it is given up", timeout=60)
    paid = schedules.books([refused, doubtful]).paid
    assert sorted((schedule, times) for (schedule, _), times in paid.items()) == [(refused, 2), (doubtful, 1)]
    (letter,) = [each for each in stage.letters() if each["row"] == [str(doubtful)]]
    assert letter["reason"] == "Failed"
    assert "Nobody knows whether it was paid" in letter["lastError"]


def test_a_payment_that_is_refused_as_often_as_the_page_says_is_held(stage: Payroll) -> None:
    schedules = stage.schedules
    stage.tries(4)
    try:
        stage.start("w0")
        (refused,) = schedules.add(1, stuck={"status": 402, "times": 4})
        listed = "SELECT count(*) FROM soloist.dead_rows WHERE pk = ARRAY[%s::text]"
        until(lambda: schedules.ask(listed, refused), what="it is given up", timeout=60)
    finally:
        stage.tries(100)
    assert list(schedules.books([refused]).paid.values()) == [4]
    (letter,) = [each for each in stage.letters() if each["row"] == [str(refused)]]
    assert letter["reason"] == "Failed"
    assert "The payment was refused with 402." in letter["lastError"]


def test_the_endpoint_takes_a_key_once_and_only_from_soloist(stage: Payroll) -> None:
    schedules = stage.schedules
    (schedule,) = schedules.add(1)
    due = schedules.ask("SELECT next_run_timestamp::text || '+00' FROM schedules WHERE id = %s", schedule)
    organisation = str(schedules.ask("SELECT organisation_id FROM schedules WHERE id = %s", schedule))
    ours = {"Authorization": f"Bearer {TOKEN}", "Idempotency_Key": uuid.uuid4().hex, "X_Organisation_Id": organisation}

    def asked(backend: str, **changed: str) -> int:
        body = {"id": str(schedule), "due": due}
        status, _ = stage.backends[backend].ask("/internal/run-schedule", "POST", body, **ours | changed)
        return status

    assert asked("b0", Authorization="Bearer wrong") == 401
    assert asked("b0", Idempotency_Key="another", X_Organisation_Id="999") == 200
    assert schedules.books([schedule]).paid == {}, "it is no schedule of that organisation's"
    assert (asked("b0"), asked("b1")) == (200, 200)
    books = schedules.books([schedule])
    books.audit()
    assert len(books.recorded) == 1
