"""One PostgreSQL server: a fresh data folder, free ports, every durability setting at its default.

It is tied to whoever started it: a test run that is killed takes its server along, and the next run removes the folder.
The server processes lead sessions of their own, so stopping them one by one is what `pause` has to do.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

from tests.cluster.children import Child, born, until
from tests.cluster.free_ports import free_ports
from tests.cluster.state_folder import OWNER, owned
from tests.postgres.account import as_account, give
from tests.postgres.programs import postgres_programs

PREFIX = "soloist-postgres-"
STOPS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
SETTINGS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200", "timezone": "UTC"}
START_TIMEOUT = 180.0


class Postgres:
    """`with Postgres() as server:` … or up() and down()."""

    def __init__(
        self,
        *,
        directory: Path | None = None,
        programs: Path | None = None,
        settings: Mapping[str, str] | None = None,
        detached: bool = False,
    ) -> None:
        self.directory = directory or make_folder()
        self._programs = programs
        self._settings = {**SETTINGS, **(settings or {})}
        self._detached = detached
        self.port = free_ports(1)[0]
        self.postmaster = Child("postgres", [], log=self.directory / "postgres.log", detached=detached)

    @property
    def programs(self) -> Path:
        self._programs = self._programs or postgres_programs()
        return self._programs

    @property
    def data(self) -> Path:
        return self.directory / "data"

    # Life

    def up(self) -> Self:
        self.data.mkdir(parents=True)
        self.directory.chmod(0o711)
        give(self.data)
        init = [self.programs / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        try:
            subprocess.run(
                as_account([*init, "--locale=C.UTF-8"], tied=True),
                check=True,
                capture_output=True,
                text=True,
                cwd="/",
            )
            self.start()
        except subprocess.CalledProcessError as failed:
            self.down()
            raise RuntimeError(f"initdb failed: {failed.stderr}") from failed
        except BaseException:
            self.down()
            raise
        return self

    def start(self) -> None:
        """Starts it on the data there are, and returns when it takes connections."""
        flags = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        argv = [self.programs / "postgres", "-D", self.data, "-p", str(self.port), *flags]
        self.postmaster.argv = as_account(argv, tied=not self._detached)
        self.postmaster.start()
        until(self.answers, what="PostgreSQL takes connections", timeout=START_TIMEOUT, needs=[self.postmaster])

    def answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, mode: str = "fast") -> None:
        """As `pg_ctl stop -m`: smart, fast or immediate; returns when every one of its processes is gone."""
        everyone = self.processes()
        self.postmaster.signal(STOPS[mode])
        until(lambda: not self.postmaster.alive(), what=f"PostgreSQL stops ({mode})", timeout=START_TIMEOUT)
        self._gone(everyone)

    def kill(self) -> None:
        """SIGKILL to the postmaster alone, as an OOM killer does; the others see it and go."""
        everyone = self.processes()
        self.postmaster.stop()
        self._gone(everyone)

    def restart(self, mode: str = "immediate") -> None:
        self.stop(mode)
        self.start()

    def pause(self) -> None:
        """Every process of it stands still; its connections stay open and say nothing."""
        os.kill(self.postmaster.pid, signal.SIGSTOP)  # which takes leave of nobody from now on
        for pid in self.processes()[1:]:
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in reversed(self.processes()):
            os.kill(pid, signal.SIGCONT)

    def processes(self) -> list[int]:
        """The postmaster first, so that it starts nobody while the others are stopped."""
        children = Path(f"/proc/{self.postmaster.pid}/task/{self.postmaster.pid}/children")
        return [self.postmaster.pid, *(int(pid) for pid in children.read_text().split())]

    def down(self) -> None:
        """Ends it and removes its data; safe to call twice, and where it was paused."""
        if self.postmaster.alive():
            everyone = self.processes()
            self.postmaster.stop()
            for pid in everyone[1:]:
                if born(pid):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    @staticmethod
    def _gone(pids: Sequence[int]) -> None:
        until(lambda: not any(map(born, pids)), what=f"the processes {pids} are gone", timeout=START_TIMEOUT)

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    # Use

    def dsn(self, database: str = "postgres", user: str = "postgres", *, port: int | None = None) -> str:
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def connect(self, database: str = "postgres", user: str = "postgres", **options: Any) -> psycopg.Connection[Any]:
        """Autocommit unless asked otherwise."""
        return psycopg.connect(self.dsn(database, user), **{"autocommit": True, "connect_timeout": 60, **options})

    def create_database(self, name: str, *, template: str = "template1", owner: str = "postgres") -> Database:
        self._execute("CREATE DATABASE {} TEMPLATE {} OWNER {}", name, template, owner)
        return Database(server=self, name=name)

    def drop_database(self, name: str) -> None:
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def role(self, name: str, attributes: str = "LOGIN") -> str:
        """A role of that name with those attributes, made where it is not there yet."""
        with self.connect() as connection:
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).rowcount:
                connection.execute(sql.SQL("CREATE ROLE {} " + attributes).format(sql.Identifier(name)))
        return name

    def run(self, program: str, *arguments: str | Path, stdin: str | None = None) -> str:
        """A client program of this very version, by its name; what it printed."""
        argv = [self.programs / program, *arguments]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{program} exited {done.returncode}: {done.stderr}")
        return done.stdout

    def _execute(self, statement: str, *names: str) -> None:
        with self.connect() as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One database of a server."""

    server: Postgres
    name: str

    def dsn(self, user: str = "postgres", *, port: int | None = None) -> str:
        return self.server.dsn(self.name, user, port=port)

    def connect(self, user: str = "postgres", **options: Any) -> psycopg.Connection[Any]:
        return self.server.connect(self.name, user, **options)

    def psql(self, text: str, *arguments: str, user: str = "postgres") -> str:
        flags = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *arguments, "-d", self.dsn(user))
        return self.server.run("psql", *flags, stdin=text)


def make_folder() -> Path:
    """A folder of our own; those whose owner was killed before it could tidy up are removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if (left / OWNER).exists() and not owned(left):
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=PREFIX))
    half = made / f".{OWNER}"
    half.write_text(json.dumps({"pid": os.getpid(), "born": born(os.getpid())}))
    half.rename(made / OWNER)
    return made
