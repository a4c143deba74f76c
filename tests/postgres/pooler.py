"""PgBouncer in transaction mode before a server: each transaction may run on another connection, so no session state lasts.

Version 1.18, Debian's, knows nothing of prepared statements either, which is what makes it a strict judge.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.cluster.children import Child, until
from tests.cluster.free_ports import free_ports
from tests.postgres.account import as_account, give
from tests.postgres.programs import pgbouncer_program
from tests.postgres.server import Postgres, make_folder

CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 500
auth_type = trust
auth_file = {users}
server_login_retry = 0.2
ignore_startup_parameters = extra_float_digits
"""


class PgBouncer:
    """`with PgBouncer(server) as pooler:` …; `pooler.dsn(database)` goes through it."""

    def __init__(self, server: Postgres, *, users: tuple[str, ...] = ("postgres",), pool: int = 8) -> None:
        self.server, self.users, self.pool = server, users, pool
        self.directory: Path = make_folder()
        self.port = free_ports(1)[0]
        self.pooler = Child("pgbouncer", [], log=self.directory / "pgbouncer.log")

    def up(self) -> Self:
        self.directory.chmod(0o755)
        users, configuration = self.directory / "users.txt", self.directory / "pgbouncer.ini"
        users.write_text("".join(f'"{name}" ""\n' for name in self.users))
        configuration.write_text(
            CONFIGURATION.format(server=self.server.port, port=self.port, pool=self.pool, users=users)
        )
        for path in (users, configuration):
            path.chmod(0o644)
            give(path)
        self.pooler.argv = as_account([pgbouncer_program(), configuration], tied=True)
        try:
            self.start()
        except BaseException:
            self.down()
            raise
        return self

    def start(self) -> None:
        self.pooler.start()
        until(self.answers, what="PgBouncer takes connections", timeout=90, needs=[self.pooler])

    def answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        self.pooler.stop()

    def down(self) -> None:
        self.pooler.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        return self.server.dsn(database, user, port=self.port)

    def connect(self, database: str = "postgres", user: str = "postgres", **options: Any) -> psycopg.Connection[Any]:
        """As a client behind such a pooler has to: nothing is prepared."""
        settings = {"autocommit": True, "prepare_threshold": None, "connect_timeout": 60, **options}
        return psycopg.connect(self.dsn(database, user), **settings)

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()
