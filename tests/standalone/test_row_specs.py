"""Thousands of jobs that are put in, edited and taken away at once, with their runs: no longer than others can wait."""

from __future__ import annotations

import asyncio

from soloist.adapters.postgres.row_objects import JOB
from soloist.adapters.postgres.row_specs import Applied, RowSpecs
from soloist.ports import Raw
from tests.postgres.server import Database as Place
from tests.queue.databases import opened

SHARD, MANY = "x/l", 5000
RUNS = """
INSERT INTO soloist.objects (shard, kind, namespace, name, version, writer, metadata, spec)
SELECT shard, 'JobRun', namespace, name || '-' || n, 1, 'w',
    jsonb_build_object('ownerReferences', jsonb_build_array(jsonb_build_object('uid', uid::text))), '{}'
FROM soloist.objects, generate_series(1, 2) AS n WHERE kind = 'ScheduledJob'
"""


def jobs(schedule: str) -> list[Raw]:
    return [
        {"kind": JOB, "metadata": {"namespace": "n", "name": f"j{n}"}, "spec": {"schedule": schedule}}
        for n in range(MANY)
    ]


def test_thousands_of_jobs_are_applied_by_one_look_at_each(queue_database: Place) -> None:
    async def inside() -> None:
        database = opened(queue_database.dsn())
        await database.fetch(b"SELECT soloist.take_epoch(%s, 1)", [SHARD])
        specs = RowSpecs(database, shard=SHARD, writer="me")
        made = await specs.apply(jobs("@hourly"), kinds=[JOB], epoch=1)
        with queue_database.connect() as connection:
            connection.execute(RUNS)
        async with asyncio.timeout(100):
            edited = await specs.apply(jobs("@daily"), kinds=[JOB], epoch=1)
            removed = await specs.apply(jobs("@daily")[:1], kinds=[JOB], epoch=1)
        assert (made, edited, removed) == (
            Applied(made=MANY, changed=0, removed=0),
            Applied(made=0, changed=MANY, removed=0),
            Applied(made=0, changed=0, removed=MANY - 1),
        )
        await database.close()

    asyncio.run(inside())
    with queue_database.connect() as connection:
        left = connection.execute("SELECT kind, count(*) FROM soloist.objects GROUP BY kind ORDER BY kind").fetchall()
    assert left == [("JobRun", 2), ("ScheduledJob", 1)]
