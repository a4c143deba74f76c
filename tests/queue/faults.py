"""What happens to workers in the middle of their rows, each with how often it can be told that it did happen.

A fault is entered before the workers start, since some stand between them and their database; ``strike`` waits for what it
names before it goes on, and returns when the damage is done. ``proof`` says afterwards that there was any.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from soloist.adapters.postgres.migrate import migrate
from tests.cluster.children import until
from tests.cluster.proxy import TcpProxy
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Postgres
from tests.queue.kinds import Table, made
from tests.queue.workers import Crew, Worker

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@dataclass
class Scene:
    """Workers at one table."""

    crew: Crew
    table: Table
    members: list[Worker] = field(default_factory=list)
    names: Iterator[int] = field(default_factory=itertools.count)

    def start(self) -> None:
        self.members.append(self.crew.start(f"w{next(self.names)}", **self.table.env))

    def all_at_work(self) -> None:
        for worker in self.members:
            worker.wait_until_it_says("queue is worked")

    def total(self, name: str, **labels: str) -> float:
        return sum(worker.metric(name, **labels) for worker in self.members)


class Fault:
    """None at all; the others say what they do instead. ``dsn``: where the workers find their database; ``in_order``: of a row
    that is sent again, no request can arrive after that of a later claim."""

    lease = 15
    in_order = True

    def __init__(self, crew: Crew, fresh: Callable[..., Postgres]) -> None:
        self.crew, self.fresh = crew, fresh
        self.dsn = crew.database.dsn()

    def enter(self, stack: ExitStack) -> None:
        """Puts itself where it is to strike."""

    def strike(self, scene: Scene) -> None:
        raise NotImplementedError

    def proof(self, scene: Scene) -> None:
        raise NotImplementedError


class Killed(Fault):
    """SIGKILL to one after the other, a second apart; another takes its place."""

    lease = 15
    last = float("-inf")

    def strike(self, scene: Scene) -> None:
        until(lambda: time.monotonic() >= self.last + 1.0, what="a second is over", timeout=30)
        self.last = time.monotonic()
        scene.members.pop(0).kill()
        scene.start()

    def proof(self, scene: Scene) -> None:
        assert scene.crew.late(), "what was in a dead one's hands was taken over"


class Frozen(Fault):
    """SIGSTOP to one until every lease of its is over, then it wakes."""

    lease = 15
    in_order = False

    def strike(self, scene: Scene) -> None:
        worker = scene.members[0]
        scene.members = [*scene.members[1:], worker]
        until(lambda: scene.table.held(worker), what="it has rows in hand", timeout=120)
        worker.freeze()
        until(lambda: not scene.table.held(worker), what="its leases are over", timeout=120)
        worker.thaw()

    def proof(self, scene: Scene) -> None:
        assert scene.crew.late(), "what it held was taken over"


class Cut(Fault):
    """All connections break at a moment at which an outcome has been written and nobody has heard of it."""

    def enter(self, stack: ExitStack) -> None:
        self.proxy = stack.enter_context(TcpProxy(self.crew.database.server.port))
        self.dsn = self.crew.database.dsn(port=self.proxy.port)

    def strike(self, scene: Scene) -> None:
        with self.crew.connect() as blocker:
            until(lambda: self.outcome_waits(blocker, scene.table), what="an outcome waits for the table", timeout=120)
            self.proxy.hold_replies()
            blocker.execute("ROLLBACK")
        until(lambda: not self.crew.ask(WAITING), what="it is written", timeout=120)
        until(lambda: not scene.table.served(), what="every delivery has ended", timeout=120)
        self.proxy.cut()
        self.proxy.forward()

    def outcome_waits(self, blocker: Any, table: Table) -> bool:
        """Whether the statement that waits for the table is one, and not a claim or a renewal; else none is held up."""
        blocker.execute("BEGIN")
        blocker.execute(f"LOCK TABLE {table.written} IN SHARE MODE")
        until(lambda: self.crew.ask(WAITING), what="a statement waits for the table", timeout=120)
        if self.crew.ask(f"{WAITING} AND query ~ %s", table.outcome):
            return True
        blocker.execute("ROLLBACK")
        return False

    def proof(self, scene: Scene) -> None:
        assert scene.total("soloist_queue_outcomes_unanswered_total") > 0, "they say that they cannot know"


class Restarted(Fault):
    """The server crashes and comes back."""

    def enter(self, stack: ExitStack) -> None:
        self.server = self.fresh()
        self.crew.database = self.server.create_database("rough")
        migrate(self.crew.database.dsn())
        self.crew.keep_books()
        self.dsn = self.crew.database.dsn()

    def strike(self, scene: Scene) -> None:
        self.server.restart("immediate")

    def proof(self, scene: Scene) -> None:
        assert all(worker.process.alive() for worker in scene.members)
        assert scene.total("soloist_queue_errors_total") > 0


class PoolerKilled(Fault):
    """PgBouncer, in transaction mode, is killed and comes back."""

    def enter(self, stack: ExitStack) -> None:
        self.pooler = stack.enter_context(PgBouncer(self.crew.database.server))
        self.dsn = self.pooler.dsn(self.crew.database.name) + "?pgbouncer=true"

    def strike(self, scene: Scene) -> None:
        self.pooler.kill()
        self.pooler.start()

    def proof(self, scene: Scene) -> None:
        assert scene.total("soloist_queue_open") == len(scene.members)


FAULTS: dict[str, type[Fault]] = {
    "killed": Killed,
    "frozen": Frozen,
    "cut": Cut,
    "restarted": Restarted,
    "pooler": PoolerKilled,
}


def scene_of(crew: Crew, kind: str, fault: Fault, *, workers: int, slots: int, **more: Any) -> Scene:
    """As many workers, which have ``slots`` in all and a receiver that takes its time. ``more`` of the spec goes in place of many reclaims."""
    spec: dict[str, Any] = {"leaseSeconds": fault.lease, "dsn": fault.dsn, **(more or {"maxReclaims": 100})}
    scene = Scene(crew, made(crew, kind, concurrency={"perWorker": slots // workers}, **spec))
    crew.backend.rule(delay=0.2)
    for _ in range(workers):
        scene.start()
    scene.all_at_work()
    return scene
