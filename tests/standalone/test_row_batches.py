"""Hundreds of objects that are written at once, among thousands: by one look at each, whatever a session's planner learned first."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from tests.postgres.server import Database as Place

BATCH, THERE = 200, 3000
WRITE = (
    "SELECT w.n, w.outcome, w.uid::text, w.version FROM soloist.write_objects('x/l', 'w', %s::jsonb) AS w ORDER BY w.n"
)
READ = """
SELECT coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0) FROM pg_stat_xact_user_tables
WHERE schemaname = 'soloist' AND relname = 'objects'"""


def write(connection: psycopg.Connection[Any], op: str, names: list[str], more: list[dict[str, Any]]) -> list[Any]:
    place = {"op": op, "kind": "JobRun", "namespace": "n"}
    writes = [{**place, "name": name, "n": n, **each} for n, (name, each) in enumerate(zip(names, more, strict=True))]
    return connection.execute(WRITE, [json.dumps(writes)]).fetchall()


def test_a_batch_reads_each_object_that_it_writes_though_its_session_began_with_an_empty_table(
    queue_database: Place,
) -> None:
    with queue_database.connect() as connection:
        connection.execute("ALTER TABLE soloist.objects SET (autovacuum_enabled = off)")  # nobody tells the planner
        for _ in range(12):  # by then it has made its plan for good
            assert write(connection, "status", ["none"], [{"uid": "u", "version": 1, "status": {}}])[0][1] == "gone"
        new = [{"metadata": {}, "spec": {"text": "t" * 100}}] * BATCH
        batches = [[f"run-{n}" for n in range(first, first + BATCH)] for first in range(0, THERE, BATCH)]
        for names in batches:
            made = write(connection, "create", names, new)
        settled = [{"uid": uid, "version": version, "status": {"phase": "Done"}} for _, _, uid, version in made]
        for op, said in (("status", "written"), ("status", "conflict"), ("delete", "deleted"), ("delete", "gone")):
            with connection.transaction():
                told = write(connection, op, batches[-1], settled)
                ((looks,),) = connection.execute(READ).fetchall()
            assert {outcome for _, outcome, *_ in told} == {said}
            assert looks <= 5 * BATCH, f"{op}: {looks} rows were read to write {BATCH}"
