"""The main job in under a minute, without Kubernetes: `make demo`, or `python -m tests.demo.standalone`.

Three replicas of `soloist standalone` on one embedded PostgreSQL, a counting receiver, jobs every one to three seconds, 2,000
queued webhooks. A worker is killed while it delivers, then the leader, parent and child; a later one is told to end. Then the
books: every tick and every row is held against what the receiver got and what the database has. Exit code 1 on any breach.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from soloist.adapters.postgres.embedded import Embedded
from soloist.domain.errors import SoloistError
from tests.api.crew import Controller
from tests.cluster.backend import Backend
from tests.cluster.children import ChildDied, until
from tests.demo.books import Page
from tests.demo.rows import Rows, rows_of
from tests.demo.story import HandOver
from tests.demo.tables import report
from tests.demo.verdict import verdict
from tests.queue.workers import ACCEPTED
from tests.standalone.crew import Crew
from tests.standalone.folders import made_folder, stop_servers

REPLICAS = ("replica-a", "replica-b", "replica-c")
ROWS, QUEUE = 2000, "webhooks"
HANDLER_SECONDS = 0.15
RETRY = {"schedule": ["2s"], "maxAttempts": 20}
"""A call that a slow machine lets run into its time-out is not waited for by the minute."""
JOBS = {
    "every-second": {"schedule": "@every 1s"},
    "every-2-seconds": {"schedule": "@every 2s", "missedRunPolicy": "RunLatest"},
    "every-3-seconds": {"schedule": "@every 3s", "missedRunPolicy": "Skip"},
}
SOON = 180.0
"""Seconds, on a machine that is slow or has much else to do."""

BALANCED = "No tick twice, none early, none without a run or a reason; no row accepted twice, none lost."
START = time.monotonic()


@dataclass(frozen=True, kw_only=True)
class Books:
    """What has to balance, and how long each hand-over took."""

    pages: list[Page]
    rows: Rows
    hand_overs: list[HandOver]


def demonstrate(folder: Path) -> Books:
    data = folder / "data"
    with ExitStack() as stack:
        backend = stack.enter_context(Backend(folder / "receiver"))
        env = {"SOLOIST_EMBEDDED": "true", "SOLOIST_DATABASE": "", "SOLOIST_DATA": str(data)}
        crew = Crew(folder, Embedded(data).url, backend, env=env)
        stack.callback(crew.stop)
        story = Story(crew=crew, say=say)
        story.begin()
        story.queue_rows()
        story.kill_a_worker()
        story.kill_the_leader()
        story.end_one()
        pages, rows = story.end()
        return Books(pages=pages, rows=rows, hand_overs=story.hand_overs)


def main(demonstration: Callable[[Path], Books] = demonstrate) -> int:
    folder = made_folder()
    try:
        books = demonstration(folder)
    except (SoloistError, ChildDied, TimeoutError) as reason:
        print(f"{reason}\nLogs: {folder}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        stop_servers(folder)
    print("\n" + report(books.pages, books.hand_overs, [books.rows]) + "\n")
    return verdict([*books.pages, books.rows], balanced=BALANCED, folder=folder, seconds=time.monotonic() - START)


@dataclass(kw_only=True)
class Story:
    """What happens, in order. ``say`` prints one line of progress."""

    crew: Crew
    say: Callable[[str], None]
    hand_overs: list[HandOver] = field(default_factory=list)

    def begin(self) -> None:
        crew = self.crew
        crew.write("jobs.yaml", *(crew.job(name, **spec) for name, spec in JOBS.items()))
        deliver = {"http": {"url": crew.backend.url(f"/{QUEUE}"), "timeoutSeconds": 9}}
        spec = {"database": {"secretName": "own", "key": "uri"}, "deliver": deliver, "leaseSeconds": 10, "retry": RETRY}
        head = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": QUEUE}}
        crew.write("queues.yaml", {**head, "spec": spec})
        crew.backend.rule(f"/{QUEUE}", delay=HANDLER_SECONDS)
        self.say(f"{len(JOBS)} jobs, every 1 to 3 s, and a queue; three replicas start, and one of them the database")
        for name in REPLICAS:
            crew.ready(name)
            crew.hear(name, "queue is worked")
        self.say(f"{crew.leader().name} leads; all three work the queue")
        self.requests(3)

    def queue_rows(self) -> None:
        with self.crew.connect() as connection:
            connection.execute(ACCEPTED)
            connection.execute(
                "SELECT count(*) FROM soloist.enqueue_many(%s, (SELECT array_agg(jsonb_build_object('n', g))"
                " FROM generate_series(0, %s) AS g))",
                (f"default/{QUEUE}", ROWS - 1),
            )
        self.say(f"{ROWS:,} webhooks are queued; the receiver takes {HANDLER_SECONDS:g} s for each")

    def kill_a_worker(self) -> None:
        self.crew.backend.wait(ROWS // 8, path=f"/{QUEUE}", timeout=SOON)
        leader = self.crew.leader().name
        victim = next(member for name, member in self.crew.members.items() if name != leader)
        victim.kill_both()
        self.say(f"SIGKILL to {victim.name} while it delivers: its rows go to the others when their claims run out")
        self.crew.ready(victim.name)

    def kill_the_leader(self) -> None:
        leader = self.crew.leader()
        self.say(f"SIGKILL to {leader.name}, parent and child: nothing tells the others, so the lease must run out")
        self.hand_over("SIGKILL to parent and child", leader, leader.kill_both)
        self.crew.ready(leader.name)
        self.say(f"{leader.name} is started again, and stands by")

    def end_one(self) -> None:
        self.requests(3)
        leader = self.crew.leader()
        self.say(f"SIGTERM to {leader.name}: it ends what it has going, then gives the lease back")
        self.hand_over("SIGTERM", leader, leader.terminate)

    def hand_over(self, what: str, leader: Controller, act: Callable[[], None]) -> None:
        began = time.monotonic()
        act()
        successor = self.crew.leader(other_than=leader.name, timeout=SOON)
        took = time.monotonic() - began
        self.hand_overs.append(HandOver(what=what, before=leader.name, after=successor.name, seconds=took))
        self.say(f"{successor.name} leads, {took:.1f} s later")

    def requests(self, seconds: float) -> None:
        """Let some ticks come due, and show that they arrive."""
        before = len(self.crew.backend.received("/every"))
        time.sleep(seconds)
        self.say(f"{len(self.crew.backend.received('/every')) - before} ticks received in {seconds:.0f} s")

    def end(self) -> tuple[list[Page], Rows]:
        """Wait until all that was due is settled, then draw up the books."""
        crew = self.crew
        until(lambda: not self.left(), what="all webhooks are delivered", timeout=600)
        time.sleep(2)
        last = datetime.now(UTC) - timedelta(seconds=1)
        pages = [crew.page(name, last) for name in JOBS]
        self.say("all that was due is settled")
        accepted = [row[0] for row in crew.ask("SELECT id FROM public.accepted")]
        received = crew.backend.received(f"/{QUEUE}")
        return pages, rows_of(QUEUE, ROWS, received, accepted=accepted, left=self.left())

    def left(self) -> int:
        found: int = self.crew.ask("SELECT count(*) FROM soloist.work_items WHERE queue = %s", f"default/{QUEUE}")[0][0]
        return found


def say(line: str) -> None:
    print(f"[{time.monotonic() - START:5.1f} s] {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
