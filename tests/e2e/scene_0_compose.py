"""compose.yaml brought up as it is: orders are worked by one of two replicas, through backend-jobs alone; the container that leads is
killed, another is stopped; everything is stopped in order, and comes up again with its rows.

It needs a Docker with Compose that answers, or, as root, Debian's docker.io (``tests/e2e/engine.py``).
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.cluster.children import until
from tests.cluster.versions import Unavailable
from tests.e2e.engine import Engine

Raw = dict[str, Any]
UP = ("up", "--detach", "--wait", "--wait-timeout", "600")
QUEUES = ("email", "notification", "funding", "export")
"""An order without an address for webhooks puts a row into each."""
NOT_DONE = " UNION ALL ".join(
    f"""SELECT '{name}', id, status, attempts, "lastError" FROM "{name.capitalize()}" WHERE status <> 'done'"""
    for name in QUEUES
)
PATIENCE = 180.0


@dataclass
class Stack:
    """compose.yaml, up."""

    engine: Engine
    ordered: list[str] = field(default_factory=list)

    def containers(self, service: str) -> dict[str, Raw]:
        """What inspecting says of each, by id, of those too that have ended."""
        names = self.engine.compose("ps", "--all", "--quiet", service).split()
        return {each["Id"]: each for each in json.loads(self.engine.docker("inspect", *names))}

    def running(self) -> list[str]:
        return self.engine.compose("ps", "--quiet", "soloist").split()

    def leader(self, *, seen_by: str = "") -> str:
        """The id of the container that leads; empty while none does."""
        said = self.engine.docker("exec", seen_by or self.running()[0], "soloist", "status", "--output", "json")
        holders = [lease["holder"] for lease in json.loads(said)["leases"] if lease["leading"]]
        return next((each for each in self.containers("soloist") for name in holders if name.startswith(each[:12])), "")

    def order(self, count: int) -> list[str]:
        """Their ids; by way of the port that is published."""
        made = []
        for number in range(count):
            body = json.dumps({"customer": f"c-{number}"}).encode()
            url = f"http://127.0.0.1:{self.engine.port}/orders"
            asked = urllib.request.Request(url, body, {"content-type": "application/json"})
            with urllib.request.urlopen(asked, timeout=30) as answer:
                made.append(json.load(answer)["id"])
        self.ordered += made
        return made

    def wait_worked(self) -> None:
        """Until no row of an order is left to do."""
        try:
            until(lambda: not self.ask(NOT_DONE), what="all rows are done", timeout=PATIENCE)
        except TimeoutError as late:
            late.add_note("\n".join(self.ask(NOT_DONE)))
            raise

    def ask(self, query: str) -> list[str]:
        return self.engine.compose("exec", "-T", "postgres", "psql", "-U", "backend", "-qAtc", query).splitlines()

    def sent(self, service: str) -> list[tuple[str, str]]:
        """The queue and the order of each row that was printed there."""
        lines = self.engine.compose("logs", "--no-log-prefix", service).splitlines()
        rows = [json.loads(line) for line in lines if line.startswith('{"sent"')]
        return [(row["sent"], row["payload"]["order"]) for row in rows]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with ExitStack() as stack:
        try:
            engine = stack.enter_context(Engine())
        except Unavailable as reason:
            pytest.skip(f"no Docker engine here: {reason}")
        began = time.monotonic()
        engine.compose("build")
        engine.compose(*UP)
        print(f"\n  {engine.version()}: built and up in {time.monotonic() - began:.0f} s")
        yield Stack(engine)


def test_everything_comes_up_healthy_and_one_of_two_replicas_leads(stack: Stack) -> None:
    for service, count in {"postgres": 1, "backend": 1, "backend-jobs": 1, "soloist": 2}.items():
        found = [each["State"]["Health"]["Status"] for each in stack.containers(service).values()]
        assert found == ["healthy"] * count, service
    for service in ("tables", "migrate"):
        assert [each["State"]["ExitCode"] for each in stack.containers(service).values()] == [0], service
    assert {stack.leader(seen_by=each) for each in stack.running()} == {
        until(stack.leader, what="one leads", timeout=PATIENCE)
    }


def test_each_row_of_an_order_is_worked_once_by_backend_jobs_and_none_by_backend(stack: Stack) -> None:
    orders = stack.order(20)
    stack.wait_worked()
    assert Counter(stack.sent("backend-jobs")) == Counter((queue, order) for queue in QUEUES for order in orders)
    assert stack.sent("backend") == []


def test_the_tables_can_be_queues_as_the_page_has_it_checked(stack: Stack) -> None:
    mounted = ("-v", "./manifests/examples/queues/jobs:/check:ro")
    for queue in (*QUEUES, "webhook"):
        stack.engine.compose(
            "run", "--rm", "-T", *mounted, "soloist", "queue", "check", queue, "-f", "/check/queues.yaml"
        )


def test_when_the_container_that_leads_is_killed_the_other_leads_and_works_on(stack: Stack) -> None:
    before = stack.leader()
    (other,) = set(stack.running()) - {before}
    stack.engine.docker("kill", before)
    began = time.monotonic()
    stack.order(5)
    until(lambda: stack.leader(seen_by=other) == other, what="the other leads", timeout=PATIENCE)
    print(f"\n  killed: the other led after {time.monotonic() - began:.1f} s")
    stack.wait_worked()
    stack.engine.compose(*UP)
    assert len(stack.running()) == 2


def test_a_leader_that_is_stopped_gives_its_lease_back_and_ends_well(stack: Stack) -> None:
    before = stack.leader()
    (other,) = set(stack.running()) - {before}
    stack.engine.docker("stop", before)
    began = time.monotonic()
    until(lambda: stack.leader(seen_by=other) == other, what="the other leads", timeout=PATIENCE)
    print(f"\n  stopped: the other led {time.monotonic() - began:.1f} s after its end")
    assert stack.containers("soloist")[before]["State"]["ExitCode"] == 0
    assert "lease given back" in stack.engine.logs(before)
    stack.engine.compose(*UP)


def test_stopped_in_order_nobody_is_killed_and_soloist_goes_first(stack: Stack) -> None:
    stack.order(5)
    stack.engine.compose("stop")
    ended = {name: list(stack.containers(name).values()) for name in ("soloist", "backend-jobs", "backend", "postgres")}
    assert {(name, each["State"]["ExitCode"]) for name, found in ended.items() for each in found} == {(name, 0) for name in ended}  # fmt: skip
    last = {name: max(moment(each["State"]["FinishedAt"]) for each in found) for name, found in ended.items()}
    assert last["soloist"] < last["backend-jobs"] < last["postgres"]


def test_what_was_ordered_outlasts_the_containers_and_is_worked_by_those_that_come(stack: Stack) -> None:
    gone = set(stack.containers("soloist")) | set(stack.containers("postgres"))
    stack.engine.compose("down")
    stack.engine.compose(*UP)
    assert not gone & (set(stack.containers("soloist")) | set(stack.containers("postgres")))
    stack.order(5)
    stack.wait_worked()
    assert set(stack.ask('SELECT id FROM "Order"')) == set(stack.ordered)


def moment(text: str) -> str:
    """A time of Docker's, whose fraction ends where its zeros begin, so that two can be compared."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return f"{whole}.{re.sub('[^0-9]', '', fraction):0<9}"
