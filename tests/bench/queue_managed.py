"""What a queue of soloist.work_items costs: its SQL functions, and one worker, beside the bare claim in the same rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from soloist.adapters.postgres.claim_rules import ClaimRules
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.managed import ManagedRows
from soloist.domain.polling import next_from_head
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import QueueSpec
from soloist.loops.row_ports import Rows
from tests.bench.figures import Measured, median, ratio
from tests.bench.noop import work
from tests.bench.queue_raw import (
    BATCH,
    Connection,
    Queue,
    Rates,
    Raw,
    drain_rate,
    enqueue_rate,
    opened,
    pinned_rate,
)
from tests.bench.queue_stage import QueueStage
from tests.bench.running import Say
from tests.postgres.server import Database as Place

POLL = 0.25
NAME = "default/q"
CLAIM = (
    f"SELECT id, fence, payload, due_at FROM soloist.claim('{NAME}', %s, '60 s', 'w', after_due => %s, after_id => %s)"
)


class Functions:
    """By the SQL functions alone, as a worker claims: a full claim shows the next one where to start, but for one in each
    poll interval."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def enqueue(self, connection: Connection, payloads: list[str]) -> None:
        connection.execute(f"SELECT FROM soloist.enqueue_many('{NAME}', %s::text[]::jsonb[])", (payloads,))

    def drain(self, connection: Connection) -> tuple[int, float]:
        first = time.perf_counter()
        ids: list[int] = []
        fences: list[int] = []
        start: tuple[Any, Any] = (None, None)
        count, from_head_at = 0, 0.0
        while True:
            began = time.monotonic()
            from_head = began >= from_head_at
            start = (None, None) if from_head else start
            with connection.pipeline():
                if ids:
                    connection.execute("SELECT FROM soloist.complete(%s, %s)", (ids, fences))
                claimed = connection.execute(CLAIM, (BATCH, *start))
            rows = claimed.fetchall()
            if from_head:
                from_head_at = next_from_head(began, time.monotonic(), poll=POLL)
            ids, fences = [row[0] for row in rows], [row[1] for row in rows]
            count += len(rows)
            if len(rows) == BATCH:
                start = max((row[3], row[0]) for row in rows)
            elif rows or not from_head:
                from_head_at = 0.0
            else:
                return count, first

    def empty(self, connection: Connection) -> None:
        connection.execute("TRUNCATE soloist.work_items")


class Worker(Functions):
    """The same rows by one worker, whose handler does nothing."""

    def drain(self, connection: Connection) -> tuple[int, float]:
        ((rows,),) = connection.execute("SELECT count(*) FROM soloist.work_items").fetchall()
        return rows, work(self.place, spec(), managed_rows, rows)


async def managed_rows(database: Database, boottime: Callable[[], float]) -> Rows:
    return ManagedRows(database, ClaimRules.of(NAME, spec(), worker="w"), boottime=boottime)


def spec() -> QueueSpec:
    database = {"secretName": "db", "key": "uri"}
    parsed = parse_queue({"database": database, "deliver": {"http": {"url": "http://nowhere.test/"}}})
    assert isinstance(parsed, QueueSpec), parsed
    return parsed


def managed(stage: QueueStage, say: Say) -> dict[str, Measured]:
    rounds, rows, pinned = (1, 20_000, 10_000) if stage.quick else (3, 50_000, 20_000)
    place = stage.migrated("managed")
    queues: dict[str, Queue] = {
        "raw": Raw(stage.empty("raw_managed")),
        "functions": Functions(place),
        "worker": Worker(place),
    }
    found: Rates = {name: {"enqueue": [], "drain": [], "pinned": []} for name in queues}
    for _ in range(rounds):
        for name, queue in queues.items():
            with opened(queue.place) as connection:
                found[name]["enqueue"].append(enqueue_rate(queue, connection, rows))
                found[name]["drain"].append(drain_rate(queue, connection, rows))
                found[name]["pinned"].append(pinned_rate(queue, connection, pinned))
        say(", ".join(f"{name} {kinds['drain'][-1]:,.0f} rows/s" for name, kinds in found.items()))
    for name, kinds in found.items():
        say(f"{name}: " + ", ".join(f"{kind} {median(rates):,.0f}/s" for kind, rates in kinds.items()))
    by_sql = ratio(found["functions"]["drain"], found["raw"]["drain"])
    return {
        "drain_managed_ratio": Measured(
            value=ratio(found["worker"]["drain"], found["raw"]["drain"]),
            n=rounds,
            note=f"{median(found['worker']['drain']):,.0f} rows/s; the SQL functions alone {by_sql:.2f}",
        ),
        "drain_pinned_ratio": Measured(
            value=ratio(found["worker"]["pinned"], found["raw"]["pinned"]),
            n=rounds,
            note=f"{median(found['worker']['pinned']):,.0f} rows/s",
        ),
        "enqueue_ratio": Measured(
            value=ratio(found["functions"]["enqueue"], found["raw"]["enqueue"]),
            n=rounds,
            note=f"{median(found['functions']['enqueue']):,.0f} rows/s",
        ),
    }
