"""What is wrong around a worker stays where it is: databases that stop, queues that hang, fail, or cannot be used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from soloist.adapters.postgres.migrate import migrate
from tests.cluster.children import until
from tests.postgres.server import Postgres
from tests.queue.workers import Crew, Worker

pytestmark = pytest.mark.slow
MODULES = """
import asyncio, os, signal, sys
from soloist.shells.worker import Worker
from soloist.shells.worker_settings import load
async def main():
    worker = Worker(load({}, os.environ))
    async def look():
        while worker.worked() < 1:
            await asyncio.sleep(0.05)
        print("\\n".join(sys.modules))
        os.kill(os.getpid(), signal.SIGTERM)
    looking = asyncio.create_task(look())
    await worker.main()
asyncio.run(main())
"""


def test_one_of_two_databases_that_is_down_stops_its_own_queue_and_says_so(
    crew: Crew, fresh_postgres: Callable[..., Postgres]
) -> None:
    server = fresh_postgres()
    other = server.create_database("other")
    migrate(other.dsn())
    crew.queue("here")
    crew.queue("there", dsn=other.dsn())
    worker = crew.ready("w", queues=2)
    server.stop("immediate")
    crew.fill(50, "here")
    crew.until_empty("here")
    until(
        lambda: worker.metric("soloist_queue_errors_total", queue="there", where="claim"), what="it is told", timeout=90
    )
    assert worker.metric("soloist_queue_errors_total", queue="here") == 0
    assert any(
        line["queue"] == "there" and "other at 127.0.0.1" in line["error"] for line in worker.said("error survived")
    )
    assert worker.ask("/healthz")[0] == 200, "a restart would mend nothing"
    server.start()
    with other.connect() as connection:
        connection.execute("SELECT soloist.enqueue('default/there', '{\"n\": 0}')")
    crew.backend.wait(1, path="/there")


def test_a_queue_that_cannot_be_worked_says_why_without_its_password_and_the_others_go_on(crew: Crew) -> None:
    empty = crew.database.server.create_database("nothing_in_it")
    secret = "sesame-opens-it"
    crew.queue("fine")
    crew.queue("empty", dsn=empty.dsn().replace("postgres@", f"postgres:{secret}@"))
    crew.queue("typo", dsn=f"postgresql://postgres:{secret}@127.0.0.1:1/x?conection_limit=3")
    crew.queue("lost", dsn=f"postgresql://postgres:{secret}@127.0.0.1:1/x")
    crew.queue("wrong", leaseSeconds=3)
    crew.queue("letter", aftercrash="Hold")
    crew.queue("nosecret")
    del crew.documents["db-nosecret"]
    crew.write()
    worker = crew.ready("w")
    crew.fill(5, "fine")
    crew.until_empty("fine")
    until(
        lambda: len({line["queue"] for line in worker.said("error survived")}) == 4, what="four are told of", timeout=90
    )
    errors = {line["queue"]: line["error"] for line in worker.said("error survived")}
    assert "the schema soloist is not there: run soloist migrate on it" in errors["empty"]
    assert '"conection_limit", which is not known: write connection_limit' in errors["typo"]
    assert "cannot be reached" in errors["lost"]
    assert "Secret default/db-nosecret is in none of the files" in errors["nosecret"]
    invalid = {line["queue"]: line["field"] for line in worker.said("spec cannot be used")}
    assert invalid == {"wrong": "spec.leaseSeconds", "letter": "spec.aftercrash"}
    code, page = worker.ask("/readyz")
    assert code == 200, "it can work one"
    (line,) = (line for line in page.splitlines() if " queues: " in line)
    assert line.startswith("ok   queues: 1 of 5 queues are worked; default/empty: ")
    assert [word for word in ("run soloist migrate on it", "conection_limit", "cannot be reached", "in none of the files") if word not in line] == []  # fmt: skip
    assert "default/wrong" not in line, "a spec that cannot be used is not the Pod's trouble"
    (line,) = (line for line in page.splitlines() if line.startswith("ok   files: "))
    assert "default/wrong: spec.leaseSeconds " in line
    assert "default/letter: spec.aftercrash is no field that is of use here: write spec.afterCrash." in line
    assert secret not in worker.process.log.read_text() + page
    crew.database.server.drop_database("nothing_in_it")


def test_a_worker_that_can_work_nothing_is_not_ready_until_it_can(crew: Crew) -> None:
    crew.queue("q")
    del crew.documents["db-q"]
    crew.write()
    worker = crew.start("w")
    missing = "FAIL queues: 0 of 1 queues are worked; default/q: Secret default/db-q is in none of the files"
    until(lambda: ready(worker) == 503 and missing in worker.ask("/readyz")[1], what="it says why", timeout=120)
    assert worker.ask("/healthz")[0] == 200, "a restart would mend nothing"
    crew.queue("q", suspend=True)
    until(lambda: ready(worker) == 200, what="there is nothing to work", timeout=120)
    crew.queue("q")
    until(lambda: ready(worker) == 200 and worker.said("queue is worked"), what="it is worked", timeout=120)
    with crew.connect() as connection:
        connection.execute("ALTER TABLE soloist.work_items RENAME TO gone")
    until(lambda: "work_items" in worker.ask("/readyz")[1], what="it says what is gone", timeout=120)
    assert ready(worker) == 503
    with crew.connect() as connection:
        connection.execute("ALTER TABLE soloist.gone RENAME TO work_items")
    until(lambda: ready(worker) == 200, what="it is worked again", timeout=120)
    crew.fill(3)
    crew.until_empty()


def ready(worker: Worker) -> int:
    return worker.ask("/readyz")[0]


def test_the_manifest_may_change_at_any_time(crew: Crew) -> None:
    crew.queue("a")
    worker = crew.ready("w")
    crew.queue("b")
    crew.fill(10, "b")
    crew.until_empty("b")
    crew.queue("a", suspend=True)
    until(lambda: worker.metric("soloist_queue_open", queue="a") == 0, what="a is worked no more", timeout=90)
    crew.fill(10, "a")
    crew.manifest.write_text("half: [a manifest")
    worker.wait_until_it_says("files not taken")
    crew.fill(10, "b", first=10)
    crew.until_empty("b")
    assert crew.left("a") == 10, "suspended, and it stays so"
    crew.queue("a")
    crew.until_empty("a")
    del crew.documents["b"]
    crew.write()
    until(lambda: worker.metric("soloist_queue_open", queue="b") == 0, what="b is gone", timeout=90)
    assert crew.claimed() == 0


def test_a_manifest_that_cannot_be_read_at_the_start_ends_it_with_a_sentence(crew: Crew, tmp_path: Path) -> None:
    crew.manifest.write_text("password: ] sesame\n")
    worker = crew.start("w")
    assert worker.gone() == 2
    said = worker.process.log.read_text()
    assert f"{crew.manifest}, line 1: this cannot be read as YAML: mend it." in said.replace("\n", " ")
    assert "sesame" not in said


def test_a_worker_all_of_whose_slots_hang_is_busy_and_well(crew: Crew) -> None:
    crew.queue(concurrency={"perWorker": 1})
    crew.backend.rule(hang=True)
    crew.fill(3)
    worker = crew.ready("w", SOLOIST_GRACE="8")
    crew.backend.wait(1)
    status, page = worker.ask("/healthz")
    assert (status, "1 queues go round" in page) == (200, True)
    assert worker.metric("soloist_queue_in_flight") == 1


def test_a_worker_is_small_and_imports_neither_kopf_nor_the_asyncio_client(crew: Crew) -> None:
    crew.queue()
    env = {**os.environ, "SOLOIST_FILE": str(crew.manifest), "SOLOIST_HEALTH_PORT": "0"}
    done = subprocess.run(
        [sys.executable, "-c", MODULES], env=env, capture_output=True, text=True, timeout=180, check=True
    )
    modules = set(done.stdout.splitlines())
    assert "soloist.adapters.postgres.managed" in modules
    assert {name.partition(".")[0] for name in modules} & {"kopf", "kubernetes"} == set()
    worker = crew.ready("w")
    crew.fill(2000)
    crew.until_empty()
    print(f"{worker.resident_mb():.0f} MB resident")
    assert worker.resident_mb() <= 90


def test_the_parent_ends_as_its_child_did(crew: Crew) -> None:
    crew.queue()
    worker = crew.ready("w")
    os.kill(worker.child(), signal.SIGKILL)
    assert worker.gone() == 128 + signal.SIGKILL
