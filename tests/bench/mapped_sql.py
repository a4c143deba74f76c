"""What claims and outcomes on a table of the user's cost in SQL: the statements of a mapped queue, and nothing around them.

The table is as Prisma makes it, with its indexes and its unique constraint; the one that is claimed inline has the room in
its pages that a check advises. Threads claim batches and complete them, each on a connection of its own; what is counted are
rows whose completion was accepted and committed. Each figure is the median of the rounds. Beside it stands, in the same
rounds, the bare batch claim of `queue_sql` on one connection: a machine that is busy slows all of them alike.

    python -m tests.bench.mapped_sql [--rounds 3] [--rows 60000] [--workers 4] [--batch 100]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import threading
import time
from datetime import timedelta
from typing import Any

from soloist.adapters.postgres.database import Database as Mapped
from soloist.adapters.postgres.mapped_sql import BY_INDEX, Shape
from soloist.adapters.postgres.mapped_statements import Statements, composed
from soloist.adapters.postgres.migrate import migrate
from soloist.adapters.postgres.url import database_url
from tests.bench.queue_sql import SETTINGS, Raw, drain_rate
from tests.postgres.server import Database, Postgres
from tests.queue.mapped_world import made, shape_in
from tests.queue.user_tables import TABLES, UserTable

MODES = {"sidecar": TABLES["prisma"], "inline": TABLES["prisma inline"]}


def shape_of(place: Database, user: UserTable) -> Shape:
    async def inside() -> Shape:
        database = Mapped(database_url(place.dsn()), program="bench")
        try:
            return await shape_in(database, user)
        finally:
            await database.close()

    return asyncio.run(inside())


def work(place: Database, shape: Shape, statements: Statements, batch: int, done: list[int]) -> None:
    """One worker: until a claim finds nothing. Settings and statement are one round trip and one commit, as in the product."""
    claim = {"most": batch, "lease": timedelta(minutes=1), "worker": "w", "after": "-infinity", "without": []}
    status = (
        None if shape.inline is None or shape.table.status is None else shape.carried.index(shape.table.status.column)
    )
    count = 0
    with place.connect() as connection:
        connection.prepare_threshold = 5
        while True:
            with connection.pipeline():
                connection.execute(statements.ahead)
                claimed = connection.execute(statements.claims[0], claim, binary=True)
            rows = claimed.fetchall()
            if not rows:
                break
            values: dict[str, Any] = {"r0": [row[5] for row in rows], "fence": [row[0] for row in rows]}
            if status is not None:
                values |= {"due": [row[4] for row in rows], "attempts": [row[2] for row in rows]}
                values["status"] = [row[7 + status] for row in rows]
            with connection.pipeline():
                connection.execute(BY_INDEX)
                settled = connection.execute(statements.complete, values, binary=True)
            count += len(settled.fetchall())
    done.append(count)


def rate(place: Database, user: UserTable, rows: int, workers: int, batch: int) -> float:
    with place.connect() as connection:
        connection.execute("TRUNCATE soloist.claims, soloist.dead_rows")
        made(connection, user)
        if user.inline is not None:
            connection.execute(f"ALTER TABLE {user.name} SET (fillfactor = 70)")
        connection.execute(user.new.format(due="(now() - interval '1 hour' + n * interval '1 ms')", count=rows))
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")
    shape = shape_of(place, user)
    statements = composed(shape)
    done: list[int] = []
    threads = [threading.Thread(target=work, args=(place, shape, statements, batch, done)) for _ in range(workers)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if sum(done) != rows:
        raise RuntimeError(f"{sum(done)} rows were completed, and {rows} were there.")
    return rows / seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.mapped_sql")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=100)
    chosen = parser.parse_args()
    found: dict[str, list[float]] = {mode: [] for mode in ("raw", *MODES)}
    with Postgres(settings=SETTINGS) as server:
        place = server.create_database("bench_mapped")
        migrate(place.dsn())
        bare = Raw()
        bare.install(place)
        for _ in range(chosen.rounds):
            with place.connect() as connection:
                connection.prepare_threshold = 0
                bare.empty(connection)
                for start in range(0, chosen.rows, 1000):
                    bare.enqueue(connection, [json.dumps({"n": n}) for n in range(start, start + 1000)])
                found["raw"].append(drain_rate(bare, connection, chosen.rows))
            for mode, user in MODES.items():
                found[mode].append(rate(place, user, chosen.rows, chosen.workers, chosen.batch))
    for mode, rates in found.items():
        times = statistics.median(ours / raw for ours, raw in zip(rates, found["raw"], strict=True))
        print(
            f"{mode:10} x{times:.2f} {statistics.median(rates):>10,.0f} rows/s   ({', '.join(f'{each:,.0f}' for each in rates)})"
        )
    print(
        json.dumps(
            {f"sql_{mode}_per_s": round(statistics.median(rates)) for mode, rates in found.items() if mode != "raw"}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
