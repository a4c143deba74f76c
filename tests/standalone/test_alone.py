"""One process that holds no election, a second one by mistake, and what is refused at the start."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cluster.children import born, until
from tests.standalone.crew import ENTRY, Crew, job

pytestmark = pytest.mark.slow


def test_a_process_that_is_alone_waits_for_nobody_and_a_second_one_ends_it_and_launches_nothing_twice(
    crew: Crew,
) -> None:
    crew.env = {"SOLOIST_SINGLE_PROCESS": "true"}  # at the default lease, of ten seconds
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    first = crew.ready("a")
    assert "no election is held" in crew.hear("a", "single process")["sentence"]
    crew.backend.wait(3, path="/sweep", timeout=120)
    first.kill_both()
    again = crew.ready("a")
    crew.backend.wait(len(crew.backend.received("/sweep")) + 2, path="/sweep", timeout=120)
    crew.ready("b")
    crew.leader(other_than="a")
    until(lambda: not again.process.alive(), what="the first one ends, and stays ended", timeout=120)
    assert "Two processes run with --single-process" in crew.hear("a", "another process took over")["sentence"]
    assert again.process._running is not None
    assert again.process._running.returncode == 1
    crew.backend.wait(len(crew.backend.received("/sweep")) + 3, path="/sweep", timeout=120)
    crew.audit("sweep")


def test_a_command_runs_where_it_is_allowed_and_dies_with_the_process_that_leads(crew: Crew, tmp_path: Path) -> None:
    out, pids = tmp_path / "out", tmp_path / "pids"
    crew.write(
        "jobs.yaml",
        job("says", schedule="@every 1s", exec={"command": ["sh", "-c", f"echo $SOLOIST_KEY >> {out}"]}),
        job("lasts", schedule="@every 1s", timeoutSeconds=600, exec={"command": ["sh", "-c", f"echo $$ > {pids}; exec sleep 600"]}),
        job("pod", schedule="@every 1s", job={"template": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x"}]}}}}}),
    )  # fmt: skip
    member = crew.ready("a", "--allow-exec")
    until(lambda: out.exists() and len(out.read_text().splitlines()) >= 3, what="the command ran", timeout=120)
    until(
        lambda: "needs Kubernetes" in str((crew.stored("pod") or {}).get("status")), what="job is refused", timeout=120
    )
    running = until(lambda: pids.exists() and int(pids.read_text() or 0), what="the long command runs", timeout=120)
    member.kill_both()
    until(lambda: not born(running), what="the command died with it", timeout=120)
    keys = out.read_text().splitlines()
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["-f", "."], "Name a database: --database postgresql://user@host/name"),
        (["-f", "."], "or --embedded for a PostgreSQL of this host's own"),
        (["-f", ".", "--embedded", "--database", "postgresql://x/y"], "write one of the two"),
        (["--embedded"], "file is missing: write -f DIR or -f FILE"),
        (["-f", "/no/such/folder", "--database", "postgresql://x/y"], "/no/such/folder does not exist"),
    ],
)
def test_what_it_cannot_start_with_is_refused_with_a_sentence(flags: list[str], says: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*ENTRY, "standalone", *flags], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())


def test_a_database_without_the_schema_is_refused_with_what_to_run(crew: Crew) -> None:
    with crew.connect() as connection:
        connection.execute("DROP SCHEMA soloist CASCADE")
    member = crew.start("a")
    until(lambda: not member.process.alive(), what="it ends", timeout=120)
    assert "run soloist migrate" in member.log()


def test_who_waits_for_a_database_that_is_not_there_ends_when_told_to(crew: Crew) -> None:
    crew.url = "postgresql://nobody@127.0.0.1:1/nowhere"
    member = crew.start("a")
    crew.hear("a", "waiting for the database")
    member.terminate()
    until(lambda: not member.process.alive(), what="it ends", timeout=120)
    assert member.process._running is not None
    assert member.process._running.returncode == 0
