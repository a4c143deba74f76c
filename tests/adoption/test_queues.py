"""Five queues leave the requests that fill them: the page is followed, and what it says is held against the provider's book."""

from __future__ import annotations

import json
import re
import shutil
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.adoption import evidence
from tests.adoption.claim_notes import claim_of, pace, passed_over
from tests.adoption.page import Reader
from tests.adoption.queues_shop import HERE, QUEUES, TOKEN, Shop
from tests.api.lateness import Lateness
from tests.bench.figures import percentile
from tests.cluster.backend import Backend, Received
from tests.cluster.children import Child, until
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.postgres.server import Database
from tests.queue.workers import Worker

pytestmark = [pytest.mark.adoption, pytest.mark.slow]
PAGE = (HERE / "README.md").read_text(encoding="utf-8")
FOR_EVER = re.findall(r"^```bash\n(soloist standalone .+)\n```$", PAGE, re.MULTILINE)
"""The commands of the page that do not end: as it has them for any number of replicas, and for one process."""
(VARIABLES,) = re.findall(r"^```bash\n((?:export .+\n)+)```$", PAGE, re.MULTILINE)
(SECRETS,) = re.findall(r"^```bash\n((?:kubectl create secret .+\n)+)```$", PAGE, re.MULTILINE)
REPLICAS, ON_A_CLUSTER = [FOR_EVER[0], FOR_EVER[0]], ["soloist controller", "soloist worker", "soloist worker"]
on_a_cluster = pytest.param(ON_A_CLUSTER, id="on a cluster", marks=pytest.mark.cluster)

ROWS = 400
FAIL = 2
"""Of each queue. Ten failures in a row would have their endpoint left alone for a while, and four queues share one."""

DRAINS_EVERY, POLL = timedelta(seconds=5), timedelta(milliseconds=250)
SECOND = timedelta(seconds=1)


class Member(Worker):
    """A process of Soloist, whichever command it is, and the port that it was given."""

    def __init__(self, name: str, process: Child, port: int) -> None:
        super().__init__(name, process)
        self.port = port

    def ask(self, page: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{page}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, ""
        except OSError:
            return 0, ""

    def works(self) -> bool:
        return len(self.said("queue is worked")) == len(QUEUES)


class Place:
    """A shop, the page's reader, and the processes of Soloist."""

    def __init__(self, shop: Shop, namespace: Namespace | None = None) -> None:
        self.shop = shop
        here = {"postgresql://backend:backend@localhost/backend": shop.dsn, "choose-one": TOKEN}
        here |= {"http://127.0.0.1:8000": shop.backend.url(), "http://127.0.0.1:8001": shop.jobs.url()}
        self.reader = Reader("queues", shop.folder, namespace, DATABASE_URL=shop.dsn, SOLOIST_DATA_ALLOW="127.0.0.0/8")
        self.reader.export(VARIABLES, put=here)
        if namespace is not None:
            del self.reader.env["SOLOIST_DATABASE"]
            self.reader.env |= {"SOLOIST_LEASE_NAMESPACE": namespace.name, "SOLOIST_NAMESPACE": namespace.name}
        if namespace is not None:
            self.reader.reads = as_on_a_cluster
            self.reader.run(SECRETS)
        self.members: list[Member] = []
        self.lives = 0

    @property
    def jobs(self) -> Path:
        return self.reader.root / "jobs"

    def start(self, *commands: str) -> None:
        """Each a process; all of them are ready when this returns."""
        for command in commands:
            self.lives += 1
            name, (port,) = f"soloist-{self.lives}", free_ports(1)
            env = {**self.reader.env, "POD_NAME": name, "POD_UID": name, "SOLOIST_HEALTH_PORT": str(port)}
            argv = ["bash", "-c", f"cd {self.reader.root} && exec {command}"]
            self.members.append(Member(name, Child(name, argv, log=self.shop.folder / f"{name}.log", env=env), port))
            self.members[-1].process.start()
        for each in self.members:
            until(lambda each=each: each.ask("/readyz")[0] == 200, what=f"{each.name} is ready", timeout=120, needs=[each.process])  # fmt: skip

    def work(self) -> None:
        """Every process that works rows is at all five queues."""
        for each in self.members:
            if "controller" not in each.process.argv[-1]:
                until(each.works, what=f"{each.name} works five queues", timeout=120, needs=[each.process])

    def terminate(self) -> None:
        """All of them at once; each ends in order."""
        for each in self.members:
            each.terminate()
        assert [each.gone(120) for each in self.members] == [0] * len(self.members)
        self.members.clear()

    def metric(self, name: str, **labels: str) -> float:
        return sum(each.metric(name, **labels) for each in self.members)

    def stop(self) -> None:
        for each in self.members:
            each.process.stop()


MakePlace = Callable[[Database, list[str]], Place]


def as_on_a_cluster(command: str) -> str:
    """What the page says of its commands there."""
    folder = "manifests/examples/queues"
    command = re.sub(r"^cp (.+) jobs/$", lambda found: "kubectl apply --validate=strict -f " + " -f ".join(found[1].split()), command, flags=re.MULTILINE)  # fmt: skip
    command = re.sub(r"^rm jobs/", f"kubectl delete -f {folder}/", command, flags=re.MULTILINE)
    return re.sub(r"\bsoloist (status|trigger|runs|pause|queue)\b", r"kubectl soloist \1", command)


@pytest.fixture
def make_place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakePlace]:
    """Of the processes that are to be started in it; nobody is yet."""
    made: list[Place] = []
    with Backend() as provider:

        def make(database: Database, commands: list[str]) -> Place:
            namespace = request.getfixturevalue("namespace") if commands == ON_A_CLUSTER else None
            made.append(Place(Shop(tmp_path, database.dsn(), provider), namespace))
            return made[-1]

        yield make
        for place in made:
            place.stop()
            place.shop.stop()
    for log in sorted(tmp_path.glob("*.log")):
        print(f"---- {log.name}\n{log.read_text(errors='replace')[-3000:]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Of one mail: when it was due again, what asked for it then, and both requests to the provider."""

    due: datetime
    first: Received
    second: Received
    asked: str = ""

    def row(self, road: str) -> list[Any]:
        fences = [each.header("Soloist-Fence") or "-" for each in (self.first, self.second)]
        late = f"{(self.second.at - self.due).total_seconds():.3f}"
        return [road, self.first.at, self.due, self.asked, self.second.at, late, self.first.header("Idempotency-Key"), *fences]  # fmt: skip


HEADS = ["asked by", "first try, answered 503", "due again", "first asked for after that", "second try", "late by, s", "key", "fence of the first", "of the second"]  # fmt: skip


def retried(shop: Shop) -> Retry:
    """An order's mail is answered 503 once, and nobody orders again."""
    shop.provider.rule("/email", status=503, times=1)
    order = shop.order()
    until(lambda: shop.email_of(order)[1] == 1, what="the first try is known to have failed", timeout=60)
    _, _, due = shop.email_of(order)
    until(lambda: shop.email_of(order)[0] == "done", what="the mail is sent", timeout=60)
    first, second = shop.emails_sent(order)
    assert first.header("Idempotency-Key") == second.header("Idempotency-Key")
    assert second.at >= due
    return Retry(due=due, first=first, second=second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A run of the mails' drain, which answers after what it sends: its time, and when it was asked for and had answered."""

    tick: datetime
    launched: datetime
    settled: datetime


def drains(place: Place) -> list[Drain]:
    """Those that are over, as they were logged, by their times."""
    runs: dict[str, dict[str, datetime]] = defaultdict(dict)
    for line in (line for each in place.members for line in each.said()):
        if line.get("job") == "drain-email" and line["message"] in ("launched", "settled"):
            runs[line["run"]][line["message"]] = datetime.fromisoformat(line["time"])
    over = {datetime.strptime(f"{run[-15:]}+0000", "%Y%m%d-%H%M%S%z"): said for run, said in runs.items() if len(said) == 2}  # fmt: skip
    return [Drain(tick=tick, **said) for tick, said in sorted(over.items())]


def retried_by_drain(place: Place) -> Retry:
    """By the first tick that was due when the mail was; whatever tick there was no drain for says why."""
    found = retried(place.shop)
    first = until(lambda: next((each for each in drains(place) if each.tick >= found.due), None), what="the drain after it is over", timeout=60)  # fmt: skip
    assert found.second.at <= first.settled, f"{found} was not sent by {first}"
    without = place.reader.said("runs", "drain-email")["withoutRun"]
    told = [(datetime.fromisoformat(each["first"]), datetime.fromisoformat(each["last"])) for each in without]
    tick = first.tick - DRAINS_EVERY
    while tick >= found.due:
        assert any(begin <= tick <= end for begin, end in told), f"nothing says why there was no drain at {tick}"
        tick -= DRAINS_EVERY
    return replace(found, asked=f"{evidence.moment(first.launched)}, the tick of {first.tick:%H:%M:%S}")


def retried_by_queue(place: Place) -> tuple[Retry, timedelta]:
    """By the first look after it was due; and how far apart looks are."""
    found = retried(place.shop)
    fences = [int(each.header("Soloist-Fence") or 0) for each in (found.first, found.second)]
    assert 0 < fences[0] < fences[1]
    with psycopg.connect(place.shop.dsn, autocommit=True) as connection:
        claim, between = claim_of(connection, fences[1]), pace(connection, "Email")
        assert found.due <= claim.at
        assert passed_over(connection, "Email", found.due, claim.at) == 0
    assert between <= POLL
    return replace(found, asked=f"{evidence.moment(claim.at)}, the first look after it"), between


def logged_meanwhile(place: Place, *retries: Retry) -> list[str]:
    """What the processes logged of the mails at that time, in its order: the runs of their drain, and attempts that failed."""
    found = []
    for each in place.members:
        for line in each.said():
            at = datetime.fromisoformat(line["time"])
            of_mails = line.get("job") == "drain-email" or line.get("queue") == "email"
            if of_mails and any(retry.first.at - SECOND <= at <= retry.second.at + SECOND for retry in retries):
                found.append((at, f"{each.name}: {json.dumps(line)}"))
    return [text for _, text in sorted(found)]


def funded(shop: Shop) -> str:
    """Of two fundings the provider refuses one, which is tried again, and breaks off at the other: that one's row, sent once."""
    shop.provider.rule("/funding", holding="refused", status=402, times=1)
    shop.provider.rule("/funding", holding="doubtful", reset=True, times=1)
    for customer in ("refused", "doubtful"):
        shop.order(customer=customer)
    query = """SELECT "status", "attempts" FROM "Funding" WHERE "payload" ->> 'customer' IN ('refused', 'doubtful') ORDER BY 1"""
    until(lambda: shop.ask(query) == [("done", 2), ("failed", 1)], what="one is done, one is held", timeout=60)
    assert len([each for each in shop.provider.received("/funding") if "doubtful" in each.body]) == 1
    ((row,),) = shop.ask("""SELECT "id" FROM "Funding" WHERE "payload" ->> 'customer' = 'doubtful'""")
    return str(row)


@pytest.mark.parametrize("commands", [pytest.param(REPLICAS, id="two replicas"), on_a_cluster])
def test_a_reader_of_the_page_gets_from_drains_in_requests_to_queues_and_no_row_is_sent_twice_or_waits_for_a_request(
    make_place: MakePlace, database: Database, commands: list[str]
) -> None:
    place = make_place(database, commands)
    shop, reader = place.shop, place.reader
    reader.env["SOLOIST_LOG_LEVEL"] = "debug"

    # As it was: without another order the mail that failed stays where it is.
    reader.do(1)
    shop.backend.start()
    before = shop.container("before", OWN_DRAINS="on")
    before.start()
    shop.provider.rule("/email", status=503, times=1)
    assert before.ask("/orders", "POST", {"customer": "c-1"})[0] == 201
    failed = """SELECT "nextAttemptAt" FROM "Email" WHERE "attempts" = 1 AND "status" = 'pending'"""
    until(lambda: shop.ask(failed), what="the mail has failed once", timeout=60)
    due = shop.ask(failed)[0][0].replace(tzinfo=UTC)
    until(lambda: datetime.now(UTC).timestamp() > due.timestamp() + 2, what="it was due two seconds ago", timeout=60)
    assert len(shop.provider.received("/email")) == 1
    before.terminate()

    reader.do(2)
    shop.note_claims()
    shop.jobs.start()
    reader.do(3, only="sed")
    reader.do(3, only="mkdir")
    place.start(*commands)
    closing = shop.order(seconds=0)
    said = reader.do(3, only="status")
    assert "drain-email" in said
    sent = """SELECT count(*) FROM "Email" WHERE "status" = 'done'"""
    until(
        lambda: shop.ask(sent) == [(3,)], what="the mails of the reader's order and of two others are sent", timeout=60
    )
    assert shop.ask('SELECT "status" FROM "Order" WHERE "id" = %s', (closing,)) == [("closed",)]
    told = """SELECT count(*) FROM "Notification" WHERE "payload" ->> 'closed' = %s"""
    assert shop.ask(told, (closing,)) == [(1,)]
    with Lateness() as first:
        by_drain = retried_by_drain(place)
    shop.fill(60)
    until(lambda: shop.done() == 5 * 60, what="the drains have sent all", timeout=90)

    said = reader.do(4)
    assert said.count("Nothing stops the queue.") == 5

    shop.fill(60, first=60)
    reader.do(5)
    place.work()
    until(lambda: shop.done() == 5 * 120, what="the queues have sent the rest", timeout=90)
    with Lateness() as second:
        by_queue, between = retried_by_queue(place)
    held = funded(shop)
    assert shop.ask("SELECT reason, pk[1] FROM soloist.dead_rows") == [("Failed", held)]
    logged = logged_meanwhile(place, by_drain, by_queue)
    assert '"attempt failed"' in "".join(logged)
    place.terminate()
    assert shop.live_claims() == 0
    for queue, rows in shop.sent().items():
        assert {number: len(requests) for number, requests in rows.items()} == dict.fromkeys(range(120), 1), queue

    code = "".join(path.read_text(encoding="utf-8") for path in (HERE / "backend").glob("*.js"))
    deleted = [line[1:] for line in PAGE.splitlines() if line.startswith("-") and not line.startswith("- ")]
    assert deleted
    assert [line for line in deleted if line not in code] == []
    assert reader.whole()
    rows = [by_drain.row("a ScheduledJob, every 5 s"), by_queue.row("a WorkQueue")]
    print(evidence.table(HEADS, rows))
    if commands == ON_A_CLUSTER:
        return
    evidence.write(
        "idle-retry",
        "A mail is tried again when it is due, and nobody orders meanwhile",
        evidence.table(HEADS, rows),
        f"Looks for due mails came {between.total_seconds():.3f} s apart, in the middle of all, by the database's clock. While they"
        f" were waited for, a bare timer on this machine was late by {max(first.worst, second.worst):.3f} s at the most.",
        "What the two processes of Soloist logged of it (`--log-level debug`):",
        evidence.lines(logged),
    )


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param(REPLICAS, id="two replicas"),
        pytest.param([FOR_EVER[1]], id="single process"),
        on_a_cluster,
    ],
)
def test_rows_of_all_five_queues_are_sent_once_across_a_sigterm_under_load_and_people_are_answered_meanwhile(
    make_place: MakePlace, own_queue_database: Database, commands: list[str]
) -> None:
    place = make_place(own_queue_database, commands)
    shop = place.shop
    shop.make_tables()
    place.reader.do(3, only="sed")
    shutil.copytree(place.reader.example / "jobs", place.jobs, ignore=shutil.ignore_patterns("*.bak"))
    if commands == ON_A_CLUSTER:
        place.reader.run("kubectl apply --validate=strict -f jobs")
    shop.backend.start()
    shop.jobs.start()
    order = shop.order()
    shop.provider.rule(delay=0.25)
    for queue in QUEUES:
        # A funding that is answered 503 may have gone out, and is held.
        refusal = 402 if queue == "funding" else 503
        shop.provider.rule(f"/{queue}", holding='"n"', status=refusal, times=FAIL)
    shop.fill(ROWS)
    shop.fill(3, first=ROWS, due_in=3600)

    with shop.people(order) as answers:
        place.start(*commands)
        place.work()
        for queue in QUEUES:
            shown(place, "soloist_queue_ready_rows", queue)
            shown(place, "soloist_queue_oldest_due_seconds", queue)
            # Those that failed wait too.
            assert 3 <= place.metric("soloist_queue_scheduled_rows", queue=queue) <= 3 + FAIL
        attempts = "soloist_queue_attempts_total"
        for queue in QUEUES:
            until(lambda queue=queue: place.metric(attempts, queue=queue, result="failed") >= FAIL, what=f"{FAIL} failures of {queue}", timeout=60)  # fmt: skip
        until(lambda: shop.done() >= 500, what="a quarter is done", timeout=120)
        place.terminate()
        assert shop.live_claims() == 0
        assert [each.path for each in shop.provider.received() if each.ended_boot is None] == []
        assert shop.done() < 5 * ROWS, "it was under load"
        worked = {queue: shop.worked(queue) for queue in QUEUES}

        place.start(*commands)
        place.work()
        until(lambda: shop.done() == 5 * ROWS, what="all is done", timeout=240)
    for queue in QUEUES:
        until(lambda queue=queue: place.metric(attempts, queue=queue, result="done") == shop.worked(queue) - worked[queue] > 0, what="each outcome is counted", timeout=60)  # fmt: skip
    place.terminate()

    expected = Counter({("done", 1): ROWS - FAIL, ("done", 2): FAIL, ("pending", 0): 3})
    assert shop.outcomes() == dict.fromkeys(QUEUES, expected)
    for queue, rows in shop.sent().items():
        assert sorted(rows) == list(range(ROWS)), queue
        assert Counter(map(len, rows.values())) == Counter({1: ROWS - FAIL, 2: FAIL}), queue
        assert len({each.header("Idempotency-Key") for requests in rows.values() for each in requests}) == ROWS
    assert shop.ask("SELECT count(*) FROM soloist.dead_rows") == [(0,)]
    answered(answers.looks, 200, "looks at an order")
    answered(answers.orders, 201, "orders")


def answered(answers: list[tuple[int, float]], status: int, what: str) -> None:
    assert {found for found, _ in answers} == {status}
    p95 = percentile([seconds for _, seconds in answers], 0.95)
    print(f"{len(answers)} {what} meanwhile, p95 {p95 * 1000:.1f} ms")
    assert p95 < 1


def shown(place: Place, metric: str, queue: str) -> None:
    until(lambda: place.metric(metric, queue=queue) > 0, what=f"{metric} of {queue} shows that rows wait", timeout=60)
