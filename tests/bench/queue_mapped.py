"""What a queue on a table of the user's costs: its statements, and one worker, beside the bare claim in the same rounds.

The table is as Prisma makes it, with its indexes and its unique constraint; the one that is claimed inline has the room in
its pages that a check advises. Of the statements, threads claim batches and complete them, each on a connection of its own.
What is counted are rows whose completion was accepted and committed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped_opening import open_mapped
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape
from soloist.adapters.postgres.mapped_statements import Statements, composed
from soloist.adapters.postgres.row_texts import array_of_numbers, array_of_texts
from soloist.loops.row_ports import Rows
from tests.bench.figures import Measured, median, ratio
from tests.bench.noop import work
from tests.bench.queue_raw import BATCH, Raw, drain_rate, fill, opened
from tests.bench.queue_stage import QueueStage
from tests.bench.running import Say
from tests.postgres.server import Database as Place
from tests.queue.databases import with_database
from tests.queue.mapped_world import QUEUE, made, shape_in, spec_of
from tests.queue.user_tables import TABLES, UserTable

MODES = {"inline": TABLES["prisma inline"], "sidecar": TABLES["prisma"]}
CONNECTIONS = len(os.sched_getaffinity(0))


def table(place: Place, user: UserTable, rows: int) -> None:
    """Made anew and full, with statistics and no checkpoint pending."""
    with place.connect() as connection:
        connection.execute("TRUNCATE soloist.claims, soloist.dead_rows")
        made(connection, user)
        if user.inline is not None:
            connection.execute(f"ALTER TABLE {user.name} SET (fillfactor = 50)")
        connection.execute(user.new.format(due="(now() - interval '1 hour' + n * interval '1 ms')", count=rows))
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


def by_statements(place: Place, user: UserTable, rows: int) -> float:
    """Rows per second over several connections."""
    table(place, user, rows)
    shape = with_database(place.dsn(), lambda database: shape_in(database, user))
    statements = composed(shape)
    done: list[int] = []
    threads = [threading.Thread(target=drain, args=(place, shape, statements, done)) for _ in range(CONNECTIONS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if sum(done) != rows:
        raise RuntimeError(f"{sum(done)} rows were completed, and {rows} were there.")
    return rows / seconds


def drain(place: Place, shape: Shape, statements: Statements, done: list[int]) -> None:
    """Until a claim finds nothing. Settings and statement are one round trip and one commit, as in the product."""
    claim = {"most": BATCH, "lease": timedelta(minutes=1), "worker": "w", "after": "-infinity", "without": []}
    status = None
    if shape.inline is not None and shape.table.status is not None:
        status = shape.carried.index(shape.table.status.column)
    count = 0
    with place.connect() as connection:
        connection.prepare_threshold = 5
        while True:
            with connection.pipeline():
                connection.execute(statements.planner)
                claimed = connection.execute(statements.claims[0], claim, binary=True)
            rows = claimed.fetchall()
            if not rows:
                break
            values = {"r0": array_of_texts(row[5] for row in rows), "fence": array_of_numbers(row[0] for row in rows)}
            if status is not None:
                values["due"] = array_of_texts(row[4] for row in rows)
                values["attempts"] = array_of_numbers(row[2] for row in rows)
                values["status"] = array_of_texts(row[7 + status] for row in rows)
            with connection.pipeline():
                connection.execute(BY_INDEX)
                settled = connection.execute(statements.complete, values, binary=True)
            count += len(settled.fetchall())
    done.append(count)


def by_worker(place: Place, user: UserTable, rows: int) -> float:
    """Rows per second by one worker, whose handler does nothing."""
    table(place, user, rows)
    spec = spec_of(user)

    async def open_rows(database: Database, boottime: Callable[[], float]) -> Rows:
        return await open_mapped(database, QUEUE, spec, worker="w", boottime=boottime)

    began = work(place, spec, open_rows, rows)
    return rows / (time.perf_counter() - began)


def mapped(stage: QueueStage, say: Say) -> dict[str, Measured]:
    rounds, rows = (1, 10_000) if stage.quick else (3, 40_000)
    place, raw = stage.migrated("mapped"), Raw(stage.empty("raw_mapped"))
    bare: list[float] = []
    sql: dict[str, list[float]] = {mode: [] for mode in MODES}
    worker: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(rounds):
        with opened(raw.place) as connection:
            raw.empty(connection)
            fill(raw, connection, rows)
            bare.append(drain_rate(raw, connection, rows))
        for mode, user in MODES.items():
            sql[mode].append(by_statements(place, user, rows))
            worker[mode].append(by_worker(place, user, rows))
        for mode in MODES:
            say(
                f"{mode}: {sql[mode][-1]:,.0f} rows/s in SQL, {worker[mode][-1]:,.0f} by one worker; raw {bare[-1]:,.0f}"
            )
    found: dict[str, Measured] = {}
    for mode in MODES:
        found[f"drain_{mode}_ratio"] = Measured(
            value=ratio(worker[mode], bare), n=rounds, note=f"{median(worker[mode]):,.0f} rows/s"
        )
        found[f"sql_{mode}_per_s"] = Measured(
            value=median(sql[mode]), n=rounds, note=f"{CONNECTIONS} connections; {ratio(sql[mode], bare):.2f} of raw"
        )
    return found
