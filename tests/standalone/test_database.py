"""The embedded database is killed under three replicas that work: ticks and rows are accounted for, each once."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from soloist.adapters.postgres.embedded import Embedded
from tests.api.crew import FAST
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.demo.rows import rows_of
from tests.queue.workers import ACCEPTED
from tests.standalone.crew import ENTRY, Crew
from tests.standalone.folders import open_folder, postmaster

pytestmark = pytest.mark.slow
ROWS = 300


@pytest.fixture
def embedded(receiver: Backend) -> Iterator[Crew]:
    with open_folder() as folder:
        data = folder / "data"
        env = {**FAST, "SOLOIST_EMBEDDED": "true", "SOLOIST_DATABASE": "", "SOLOIST_DATA": str(data)}
        made = Crew(folder, Embedded(data).url, receiver, env=env)
        yield made
        made.stop()
        for member in made.members.values():
            print(f"---- log of {member.name}\n{member.log()[-6000:]}")


def test_a_database_that_is_killed_is_started_again_and_nothing_is_lost_or_twice(embedded: Crew) -> None:
    crew = embedded
    spec = {
        "database": {"secretName": "own", "key": "uri"},
        "deliver": {"http": {"url": crew.backend.url("/hooks"), "timeoutSeconds": 9}},
        "leaseSeconds": 10,
        "retry": {"schedule": ["2s"], "maxAttempts": 20},
    }
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    crew.write(
        "queues.yaml",
        {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "hooks"}, "spec": spec},
    )
    for name in ("a", "b", "c"):
        crew.start(name)
    for name in ("a", "b", "c"):
        assert "this one host" in crew.hear(name, "embedded database")["sentence"]
        crew.hear(name, "queue is worked")
    crew.backend.rule("/hooks", delay=0.2)
    crew.backend.wait(2, path="/sweep", timeout=120)
    with crew.connect() as connection:
        connection.execute(ACCEPTED)
        connection.execute(
            "SELECT count(*) FROM soloist.enqueue_many('default/hooks', (SELECT array_agg(jsonb_build_object('n', g))"
            " FROM generate_series(0, %s) AS g))",
            (ROWS - 1,),
        )
    crew.backend.wait(ROWS // 10, path="/hooks", timeout=120)
    data = crew.folder / "data"
    said = subprocess.run([*ENTRY, "status", "--embedded", "--data", data], capture_output=True, text=True, timeout=120, check=True).stdout  # fmt: skip
    assert said.startswith("DATABASE  embedded: it serves the processes of this one host")
    assert "sweep" in said
    killed = postmaster(data)
    os.kill(killed, signal.SIGKILL)
    until(lambda: postmaster(data) not in (0, killed), what="one of them starts it again", timeout=90)  # fmt: skip
    crew.backend.wait(len(crew.backend.received("/sweep")) + 3, path="/sweep", timeout=90)
    until(lambda: crew.ask("SELECT count(*) FROM soloist.work_items")[0][0] == 0, what="all rows are done", timeout=240)
    accepted = [row[0] for row in crew.ask("SELECT id FROM public.accepted")]
    books = rows_of("hooks", ROWS, crew.backend.received("/hooks"), accepted=accepted, left=0)
    assert books.breaches() == []
    crew.audit("sweep")
    for member in crew.members.values():
        member.terminate()
    until(
        lambda: not any(member.process.alive() for member in crew.members.values()), what="all have ended", timeout=90
    )
    until(lambda: not (data / "pgdata/postmaster.pid").exists(), what="the last one stopped the database", timeout=90)
